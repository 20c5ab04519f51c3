"""What do heads look like in the form that the papers print? Maps of layers by heads, one per stack, shares in per cent.

Rows are layers and columns are heads, both counted from 1, as published. Side by side: attention as used; the same on the raw
residual stream, as the published probing code captured it; and what the task loses without each head. Used and raw share their
colours; changes have their own, white at 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lit_attn.drawing.site_names import told_number
from lit_attn.report.beside import (
    ABLATION,
    blocks_of,
    chance_levels,
    change_title,
    changes_beside,
    drawn_metrics,
    raw_beside,
)
from lit_attn.report.drawing import INK, ink_on
from lit_attn.report.files import free_name
from lit_attn.report.heads import HeadGrid, HeadTable, color_range, head_grid, latest, on_scale
from lit_attn.report.runs import Run
from lit_attn.report.text import slug

_SHARES = ("pos_", "dep_", "phrase_grounding", "phrase_ocr", "object_words", "relation_words", "spatial_")
_COLUMNS = 4
_LONGEST_TITLE = 46


class Panel(NamedTuple):
    """One map."""

    title: str
    grid: HeadGrid
    is_change: bool


def is_share(metric: str) -> bool:
    """Whether it is printed in per cent."""
    return metric.startswith(_SHARES) or metric.endswith(("_mass", "pointing_accuracy"))


def heat_figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """A figure per metric, all runs and stages at their last validation; a row of maps per stack of sites."""
    found: dict[str, Figure] = {}
    for metric in drawn_metrics(runs):
        stacks: dict[str, list[Panel]] = {}
        for run in runs:
            for table in latest(run.heads):
                name = f"{run.name}, " if len(runs) > 1 else ""
                for block, panels in _panels(run, table, metric, f"{name}{table.stage} {table.step}").items():
                    stacks.setdefault(block, []).extend(panels)
        if stacks:
            found[free_name(f"heads-{slug(metric)}", found)] = draw_head_maps(metric, stacks)
    return found


def _panels(run: Run, table: HeadTable, metric: str, name: str) -> dict[str, list[Panel]]:
    levels = chance_levels(table, metric)
    found: dict[str, list[Panel]] = {}
    for block, grid in blocks_of(head_grid(table, metric)).items():
        level = f", chance {_number(levels[block], metric)}" if block in levels else ""
        raw, change = raw_beside(run, table, metric, grid.rows), changes_beside(table, metric, grid.rows)
        found[block] = [
            Panel(f"{name}, used{level}" if raw is not None else f"{name}{level}", grid, metric.startswith(ABLATION))
        ]
        if raw is not None:
            found[block].append(Panel(f"{name}, raw residual", raw, False))
        if change is not None:
            found[block].append(Panel(change_title(change.metric), change, True))
    return found


def draw_head_maps(metric: str, stacks: dict[str, list[Panel]]) -> Figure:
    """A row of maps per stack."""
    lines = [(b, stack[i : i + _COLUMNS]) for b, stack in stacks.items() for i in range(0, len(stack), _COLUMNS)]
    columns = max(len(panels) for _, panels in lines)
    heights = [0.3 * max(len(panel.grid.rows) for panel in panels) + 0.75 for _, panels in lines]
    widest = max(panel.grid.values.shape[1] for _, panels in lines for panel in panels)
    figure = Figure(figsize=(columns * max(3.2, 0.46 * widest + 0.8), sum(heights) + 0.35), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights)
    unit = ", per cent" if is_share(metric) else ""
    figure.suptitle(f"{metric.replace('_', ' ')}{unit}", x=0.01, ha="left", fontsize=10.5, color=INK)
    for (block, panels), row in zip(lines, axes, strict=True):
        for place, panel in zip(row, panels, strict=False):
            alike = [one.grid for one in stacks[block] if one.is_change == panel.is_change]
            _draw(place, block, panel, metric, alike)
        for unused in row[len(panels) :]:
            unused.remove()
    return figure


def _draw(axes: Axes, block: str, panel: Panel, metric: str, alike: Sequence[HeadGrid]) -> None:
    values = panel.grid.values
    low, high = color_range(alike)
    if panel.is_change:
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    colors = colormaps["RdBu_r" if panel.is_change else "cividis"]
    axes.imshow(values, cmap=colors, vmin=low, vmax=high, aspect="auto")
    for (line, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:+.3f}" if panel.is_change else _number(float(value), metric)
            color = ink_on(to_hex(colors(on_scale(float(value), low, high))))
            axes.text(column, line, text, ha="center", va="center", fontsize=6.5, color=color)
    labels = [row.site if row.layer is None else told_number(row.layer) for row in panel.grid.rows]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xticks(range(values.shape[1]), [told_number(head) for head in range(values.shape[1])])
    axes.set_ylabel(f"{block}, layer" if panel.grid.rows[0].layer is not None else "", fontsize=8, color=INK)
    axes.set_xlabel("head", fontsize=8, color=INK)
    title = panel.title if len(panel.title) <= _LONGEST_TITLE else panel.title[: _LONGEST_TITLE - 1] + "…"
    axes.set_title(title, loc="left", fontsize=8.5, color=INK)
    axes.tick_params(labelsize=7.5, colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _number(value: float, metric: str) -> str:
    return f"{100 * value:.1f}" if is_share(metric) else f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"
