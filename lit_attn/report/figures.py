"""What does the learning, and the attention, look like?

Builds matplotlib `Figure` objects, never through pyplot: learning curves, heat maps of layer by head, and a map of
words by regions. Each score or attention metric has axes of its own, because their units differ; runs keep their
colour everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lit_attn.drawing.site_names import told_number, told_site
from lit_attn.report.drawing import DASHES, DOTTED, INK, Dash, legend_above, quiet_axes, site_colors
from lit_attn.report.heads import HeadGrid, color_range, grid_row
from lit_attn.report.looks import run_looks
from lit_attn.report.metrics import CHANCE, Series, attention_name, chance_of, score_names
from lit_attn.report.runs import Run
from lit_attn.report.tables import best_step
from lit_attn.report.text import format_number, natural_key
from lit_attn.report.yardstick import Yardstick, are_yardsticks, yardsticks_of

_COLUMNS = 3
_HEAT_COLUMNS = 4
_MARKED_POINTS = 40


@dataclass(frozen=True)
class Curve:
    """One line: a metric of one run."""

    label: str
    series: Series
    color: str
    dash: Dash = "solid"
    is_chance: bool = False
    best_step: int | None = None
    """Where to put a ring: the step whose weights were kept."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    curves: tuple[Curve, ...]
    heights: tuple[tuple[str, Yardstick], ...] = ()
    """Colours and what the curves of that colour are measured against."""


def score_panels(runs: Sequence[Run]) -> list[Panel]:
    """A panel per score, monitored ones first, then one per training metric; yardsticks join their score."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    yardsticks = are_yardsticks(names)
    logged = [name for name in names if name not in yardsticks]
    scores = score_names(logged, [run.info.monitor for run in runs])
    others = [name for name in logged if name not in scores and attention_name(name) is None]
    ordered = scores + sorted(others, key=lambda name: (not name.startswith("train/"), natural_key(name)))
    looks = run_looks(runs)
    panels = []
    for name in ordered:
        curves, heights = [], []
        for look, run in zip(looks, runs, strict=True):
            if name in run.metrics:
                best = best_step(run) if name == run.info.monitor else None
                curves.append(Curve(run.name, run.metrics[name], look.color, look.dash, best_step=best))
                heights += [(look.color, yardstick) for yardstick in yardsticks_of(run, name)]
        panels.append(Panel(name, tuple(curves), tuple(dict.fromkeys(heights))))
    return panels


def attention_panels(runs: Sequence[Run]) -> list[Panel]:
    """A panel per stage and attention metric, a line per run and site; chance levels join their metric."""
    found = [
        (parts, index, run.metrics[name])
        for index, run in enumerate(runs)
        for name in run.metrics
        if (parts := attention_name(name))
    ]
    sites = sorted({parts.site for parts, _, _ in found}, key=_site_key)
    colors = dict(zip(sites, site_colors(len(sites)), strict=True))
    several = len(runs) > 1
    looks = run_looks(runs)
    kinds = {(parts.stage, parts.metric) for parts, _, _ in found}
    panels = []
    for stage, metric in sorted(kinds, key=lambda kind: (kind[0], natural_key(kind[1]))):
        if metric.endswith(CHANCE) and any(chance_of(other) == metric for where, other in kinds if where == stage):
            continue
        curves = []
        for parts, index, series in found:
            if parts.stage == stage and parts.metric in (metric, chance_of(metric)):
                color = looks[index].color if several else colors[parts.site]
                dash = DASHES[sites.index(parts.site) % len(DASHES)] if several else "solid"
                curves.append(Curve(parts.site, series, color, dash, is_chance=parts.metric != metric))
        panels.append(Panel(metric if stage == "val" else f"{stage}/{metric}", tuple(curves)))
    return panels


def _site_key(site: str) -> tuple[object, ...]:
    row = grid_row(site)
    return (natural_key(row.block or site), natural_key(row.label))


def run_legend(runs: Sequence[Run]) -> list[Line2D]:
    """One key per look: per run, or per group of runs that share theirs."""
    return [
        Line2D([], [], color=look.color, linestyle=look.dash, linewidth=2, label=look.label)
        for look in dict.fromkeys(run_looks(runs))
    ]


def attention_legend(runs: Sequence[Run], panels: Sequence[Panel]) -> list[Line2D]:
    """Colours of runs and dashes of sites; with one run, colours of sites."""
    curves = [curve for panel in panels for curve in panel.curves if not curve.is_chance]
    sites = {curve.label: curve for curve in sorted(curves, key=lambda curve: _site_key(curve.label))}
    several = len(runs) > 1
    keys = run_legend(runs) if several else []
    if len(sites) > 1 or not several:
        keys += [
            Line2D([], [], color=INK if several else curve.color, linestyle=curve.dash, linewidth=1.5, label=site)
            for site, curve in sites.items()
        ]
    if any(curve.is_chance for panel in panels for curve in panel.curves):
        keys.append(Line2D([], [], color=INK, linestyle=DOTTED, linewidth=1, label="chance"))
    return keys


def draw_curves(panels: Sequence[Panel], legend: Sequence[Line2D] = ()) -> Figure:
    """All panels in rows of three, the legend above them."""
    columns = min(_COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    legend_rows = -(-len(legend) // 4)
    figure = Figure(figsize=(10.5, 2.35 * rows + 0.25 * legend_rows + 0.2), layout="constrained")
    grid = figure.subplots(rows, _COLUMNS, squeeze=False) if panels else np.empty((0, 0), dtype=object)
    for index, axes in enumerate(grid.flat):
        if index < len(panels):
            _draw_panel(axes, panels[index], below=index + _COLUMNS >= len(panels))
        else:
            axes.remove()
    if legend:
        legend_above(figure, [str(line.get_label()) for line in legend], legend)
    return figure


def _draw_panel(axes: Axes, panel: Panel, *, below: bool) -> None:
    for curve in panel.curves:
        steps, values = curve.series.steps, curve.series.values
        marker = "o" if len(steps) <= _MARKED_POINTS and not curve.is_chance else ""
        dash, width = (DOTTED, 1.0) if curve.is_chance else (curve.dash, 1.6)
        axes.plot(
            steps,
            values,
            color=curve.color,
            linestyle=dash,
            linewidth=width,
            marker=marker,
            markersize=2.2,
            label=curve.label,
        )
        height = None if curve.best_step is None else curve.series.at(curve.best_step)
        if curve.best_step is not None and height is not None:
            axes.plot(
                [curve.best_step], [height], "o", markersize=7, markerfacecolor="none", color=curve.color, label="best"
            )
    _draw_heights(axes, panel)
    axes.set_title(panel.title, loc="left", fontsize=9.5, color=INK)
    if below:
        axes.set_xlabel("step", fontsize=8, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    quiet_axes(axes)


def _draw_heights(axes: Axes, panel: Panel) -> None:
    """A dotted line each; of several with one label, the highest carries it."""
    highest: dict[str, float] = {}
    for color, yardstick in panel.heights:
        axes.axhline(yardstick.value, color=color, linestyle=DOTTED, linewidth=1.0, label=yardstick.label)
        highest[yardstick.label] = max(yardstick.value, highest.get(yardstick.label, yardstick.value))
    for label, height in highest.items():
        axes.annotate(label, (0.01, height), xycoords=("axes fraction", "data"), va="bottom", fontsize=7, color=INK)
    if highest:
        axes.margins(y=0.12)


def draw_heat_maps(grids: Sequence[tuple[str, HeadGrid]], metric: str) -> Figure:
    """The grids beside each other, four to a row, under one colour scale, each value printed in its cell."""
    low, high = color_range([grid for _, grid in grids])
    columns = min(_HEAT_COLUMNS, len(grids))
    lines = -(-len(grids) // columns)
    tallest = max(len(grid.rows) for _, grid in grids)
    widest = max(2.0, 0.46 * max(grid.values.shape[1] for _, grid in grids))
    size = (columns * (widest + 1.5) + 0.8, lines * (0.32 * tallest + 0.8) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    all_axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for unused in all_axes[len(grids) :]:
        unused.remove()
    used = all_axes[: len(grids)]
    for axes, (title, grid) in zip(used, grids, strict=True):
        image = axes.imshow(grid.values, cmap="cividis", vmin=low, vmax=high, aspect="auto")
        _print_values(axes, grid.values, low, high)
        labels = [_shortened(told_site(line.site), 40) for line in grid.rows]
        axes.set_yticks(range(len(labels)), labels)
        heads = range(grid.values.shape[1])
        axes.set_xticks(heads, [told_number(head) for head in heads])
        axes.set_xlabel("head", fontsize=8, color=INK)
        axes.set_title(_shortened(f"{metric}, {title}" if title else metric, 50), loc="left", fontsize=9.5, color=INK)
        _bare(axes)
    bar = figure.colorbar(image, ax=used, fraction=0.03, pad=0.01)
    bar.ax.tick_params(labelsize=8, colors=INK, length=0)
    bar.outline.set_visible(False)
    return figure


def _print_values(axes: Axes, values: np.ndarray, low: float, high: float) -> None:
    for (line, column), value in np.ndenumerate(values):
        bright = np.isfinite(value) and high > low and (value - low) / (high - low) > 0.5
        color = "#000000" if bright else "#ffffff" if np.isfinite(value) else INK
        text = format_number(value)[:6]
        axes.text(column, line, text, ha="center", va="center", fontsize=7, color=color)


def draw_word_map(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str) -> Figure:
    """One map `queries keys` with its words or labels. Colours run from 0 to the largest weight."""
    size = (1.9 + 0.24 * len(columns), 1.7 + 0.24 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    finite = weights[np.isfinite(weights)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    image = axes.imshow(weights, cmap="cividis", vmin=0.0, vmax=top, aspect="equal")
    axes.set_yticks(range(len(rows)), [_shortened(word) for word in rows])
    axes.set_xticks(range(len(columns)), [_shortened(word) for word in columns], rotation=90)
    axes.set_title(_shortened(title, 80), loc="left", fontsize=9.5, color=INK)
    _bare(axes)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=16, fraction=0.03, pad=0.01)
    bar.ax.tick_params(labelsize=7, colors=INK, length=0)
    bar.outline.set_visible(False)
    return figure


def _shortened(word: str, length: int = 18) -> str:
    flat = " ".join(word.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def _bare(axes: Axes) -> None:
    axes.tick_params(labelsize=8, colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
