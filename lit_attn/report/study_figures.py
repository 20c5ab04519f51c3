"""What does a study look like? Heat maps of tables, heads by alignment, learning curves, score against interpretability."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lit_attn.report.breakdowns import BREAKDOWNS, draw_breakdown
from lit_attn.report.cross_table import draw_table
from lit_attn.report.drawing import DASHES, HUES, INK, Dash, legend_above, quiet_axes
from lit_attn.report.figures import draw_heat_maps, draw_word_map
from lit_attn.report.gallery import Sample, read_maps
from lit_attn.report.heads import HeadGrid
from lit_attn.report.metrics import CHANCE, Series, attention_name
from lit_attn.report.retrieval import WAYS
from lit_attn.report.study_data import Study, StudyRun, by_alignment, interpretability
from lit_attn.report.study_tables import (
    head_means,
    head_metrics_of,
    kind_tables,
    retrieval_tables,
    score_against_attention,
    task_table,
)
from lit_attn.report.text import format_number, slug

TOP = 5
COLUMNS = 3


def study_figures(study: Study) -> dict[str, Figure]:
    """All figures by file name."""
    found = {"table": draw_table(task_table(study)[0], "")}
    for recipe, table in kind_tables(study).items():
        found[f"kinds-{slug(recipe)}"] = draw_table(table, recipe)
    for recipe, tables in retrieval_tables(study).items():
        for name in BREAKDOWNS:
            if f"{name}-{WAYS[0]}" in tables:
                found[f"{name}-{slug(recipe)}"] = draw_breakdown(tables, name)
    for recipe in study.recipes:
        runs = study.of(recipe)
        for metric in head_metrics_of(runs):
            grids = head_grids(runs, metric)
            if grids and not metric.endswith(CHANCE):
                found[f"heads-{slug(recipe)}-{slug(metric)}"] = draw_heat_maps(grids, metric)
        curves = draw_learning(study, recipe)
        if curves is not None:
            found[f"learning-{slug(recipe)}"] = curves
    if score_against_attention(study):
        found["score-against-attention"] = draw_against(study)
    return found


def head_grids(runs: Sequence[StudyRun], metric: str) -> list[tuple[str, HeadGrid]]:
    """Means over seeds of one metric, a grid per alignment; drawn under one colour scale."""
    grids = [(alignment, head_means(own, metric)) for alignment, own in by_alignment(runs).items()]
    return [(alignment, grid) for alignment, grid in grids if grid is not None]


def looks(alignments: Sequence[str]) -> dict[str, tuple[str, Dash]]:
    """A colour and dash per alignment, the same in every figure."""
    return {name: (HUES[i % len(HUES)], DASHES[i // len(HUES) % len(DASHES)]) for i, name in enumerate(alignments)}


def mean_curve(series: Sequence[Series]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Steps that all have, mean, least and largest value at each."""
    steps = sorted(set.intersection(*(set(one.steps.tolist()) for one in series)))
    values = np.array([[one.at(step) for step in steps] for one in series], dtype=np.float64)
    return np.array(steps), values.mean(0), values.min(0), values.max(0)


def attention_series(run: StudyRun, metric: str) -> Series | None:
    """One attention metric of a run over training, as the mean over sites."""
    assert run.run is not None
    found = {n: p for n in run.run.metrics if (p := attention_name(n)) and p.stage == "val"}
    sites = {parts.site for parts in found.values()}
    own = [
        run.run.metrics[name]
        for name, parts in found.items()
        if parts.metric == metric and parts.site.rpartition(".")[0] not in sites
    ]
    if not own:
        return None
    steps, mean, _, _ = mean_curve(own)
    return Series(steps, mean)


def draw_learning(study: Study, recipe: str) -> Figure | None:
    """The task score beside every interpretability metric, mean over seeds with the range of seeds behind it."""
    runs, monitor = study.of(recipe), study.monitor(recipe)
    metrics = interpretability(runs)[: COLUMNS * 2 - 1]
    look = looks(study.info.alignments)
    panels = [monitor, *metrics]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.5 * columns, 2.4 * rows + 0.6), layout="constrained")
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in all_axes[len(panels) :]:
        unused.remove()
    handles: dict[str, Line2D] = {}
    for axes, panel in zip(all_axes, panels, strict=False):
        for alignment, own in by_alignment(runs).items():
            series = [
                one
                for run in own
                if run.run
                and (one := run.run.metrics.get(monitor) if panel == monitor else attention_series(run, panel))
            ]
            if not series:
                continue
            steps, mean, low, high = mean_curve(series)
            color, dash = look[alignment]
            (handles[alignment],) = axes.plot(steps, mean, color=color, linestyle=dash, linewidth=1.5, label=alignment)
            axes.fill_between(steps, low, high, color=color, alpha=0.12, linewidth=0)
        axes.set_title(panel, loc="left", fontsize=9.5, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        quiet_axes(axes)
    if not handles:
        return None
    legend_above(figure, list(handles), list(handles.values()))
    return figure


def draw_against(study: Study) -> Figure:
    """Task score against interpretability: a panel per recipe and metric, a point per model, r, p and n above."""
    found = score_against_attention(study)
    columns = min(COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.7 * rows), layout="constrained")
    all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in all_axes[len(found) :]:
        unused.remove()
    for axes, ((recipe, metric), (points, r)) in zip(all_axes, found.items(), strict=False):
        for i, (label, (x, y)) in enumerate(points.items()):
            axes.plot([x], [y], "o", color=HUES[i % len(HUES)], markersize=5)
            axes.annotate(
                label.split(" (")[0], (x, y), fontsize=6.5, color=INK, xytext=(3, 3), textcoords="offset points"
            )
        title = f"{recipe}: r = {format_number(r.r)}, p = {format_number(r.p)}, n = {r.n}"
        axes.set_title(title, loc="left", fontsize=8.5, color=INK)
        axes.set_xlabel(metric, fontsize=8, color=INK)
        axes.set_ylabel(study.monitor(recipe), fontsize=8, color=INK)
        quiet_axes(axes)
    return figure


def mean_map(sample: Sample, query: str, key: str) -> np.ndarray | None:
    """Mean over all layers and heads of a sample's maps from one stream to another; raw captures aside."""
    names = [n for n in sample.maps if n.query == query and n.key_stream == key and not n.site.startswith("raw.")]
    if not names:
        return None
    maps = read_maps(sample)
    shapes = {maps[name.key].shape[1:] for name in names}
    if len(shapes) != 1:
        return None
    return np.mean([maps[name.key].mean(axis=0) for name in names], axis=0)


def top_objects(sample: Sample) -> list[tuple[str, list[tuple[str, float]]]]:
    """For each word the five regions with most attention, by label, over all layers and heads."""
    weights = mean_map(sample, "words", "regions")
    if weights is None:
        return []
    found = []
    for word, row in zip(sample.words, weights, strict=False):
        order = np.argsort(-row, kind="stable")[:TOP]
        found.append((word, [(sample.labels[i], float(row[i])) for i in order]))
    return found


def sample_figures(study: Study) -> dict[str, Figure]:
    """Source by target maps of the first kept sample of each recipe's first run: words by regions, and words by words."""
    found: dict[str, Figure] = {}
    for recipe in study.recipes:
        run = study.of(recipe)[0].run
        if run is None or not run.gallery:
            continue
        sample = run.gallery[0]
        for key, labels in (("regions", sample.labels), ("words", sample.words)):
            weights = mean_map(sample, "words", key)
            if weights is not None and weights.shape == (len(sample.words), len(labels)):
                title = f"{run.name}: words to {key}, mean of all heads"
                found[f"map-{slug(recipe)}-{key}"] = draw_word_map(weights, sample.words, labels, title)
    return found
