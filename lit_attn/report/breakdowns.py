"""How does retrieval differ by category and by number of nouns, between alignments or runs? Tables and one figure each.

Each group, an alignment or a run, has the ranks of one or several runs; a cell is their mean, with the deviation over them.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_attn.report.cross_table import Column, CrossTable
from lit_attn.report.drawing import DASHES, HUES, INK, legend_above, quiet_axes
from lit_attn.report.markup import tag
from lit_attn.report.retrieval import TITLES, WAYS, Bin, Ranks, Way, by_category, by_nouns, read_ranks
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, drawn_figure, section
from lit_attn.report.tables import Spread, best_step, spread

Groups = Mapping[str, Sequence[Ranks]]
BREAKDOWNS: dict[str, Callable[[Ranks], list[Bin]]] = {"categories": by_category, "nouns": by_nouns}
WIDTH = 10.5
"""Inches, as learning curves have: the page shows all figures at one width, so narrower ones would grow."""
HEADINGS = {"categories": "By what the picture shows", "nouns": "By number of nouns"}
NOTES = {
    "categories": "Rsum is R@1 + R@5 + R@10 of one direction, from 0 to 300, among all pictures. In brackets the share of "
    "pictures that show it; a picture counts in every category.",
    "nouns": "Rsum is R@1 + R@5 + R@10 of one direction, from 0 to 300, among all pictures. Image retrieval by the nouns of the "
    "caption, text retrieval by the most nouns of the picture's captions; in brackets how many of these there are.",
}


def breakdown_tables(groups: Groups) -> dict[str, CrossTable]:
    """By `<breakdown>-<direction>`, groups by bins; without those that nothing is known for."""
    found = {}
    for name, split in BREAKDOWNS.items():
        bins = {group: [split(ranks) for ranks in own] for group, own in groups.items()}
        seeds = max(map(len, groups.values()), default=1)
        for way in WAYS:
            titles = _titles(bins, way)
            columns = [Column(title, _spreads(bins, one, way), True, None, seeds) for one, title in titles.items()]
            if columns:
                found[f"{name}-{way}"] = CrossTable("model", tuple(groups), tuple(c for c in columns if c.cells))
    return found


def _titles(bins: Mapping[str, Sequence[Sequence[Bin]]], way: Way) -> dict[str, str]:
    """The name of every bin with its size, or that its size differs between the runs."""
    found: dict[str, str] = {}
    for one in (one for own in bins.values() for run in own for one in run):
        known = found.setdefault(one.name, one.title(way))
        found[one.name] = known if known == one.title(way) else f"{one.name} (sizes differ)"
    return found


def _spreads(bins: Mapping[str, Sequence[Sequence[Bin]]], name: str, way: Way) -> dict[str, Spread]:
    found = {}
    for group, own in bins.items():
        values = [one.rsum[way] for run in own for one in run if one.name == name and math.isfinite(one.rsum[way])]
        if values:
            found[group] = spread(values)
    return found


def run_breakdowns(runs: Sequence[Run]) -> dict[str, CrossTable]:
    """The same with runs as groups, each at its best step."""
    found = {run.name: read_ranks(run.folder, best_step(run)) for run in runs}
    return breakdown_tables({name: [ranks] for name, ranks in found.items() if ranks})


def breakdown_figures(tables: Mapping[str, CrossTable]) -> dict[str, Figure]:
    """By file name."""
    return {f"breakdown-{name}": draw_breakdown(tables, name) for name in BREAKDOWNS if f"{name}-{WAYS[0]}" in tables}


def breakdown_section(documents: Mapping[str, str]) -> Section | None:
    """The figures on the page, from all drawings as SVG."""
    parts = [
        tag("div", tag("p", NOTES[name], class_="note"), drawn_figure(f"breakdown-{name}", HEADINGS[name], documents))
        for name in BREAKDOWNS
        if f"breakdown-{name}" in documents
    ]
    return section("breakdowns", "Breakdowns", *parts) if parts else None


def draw_breakdown(tables: Mapping[str, CrossTable], name: str) -> Figure:
    """Rsum by bin, a panel per direction, a line per group with the range of one deviation over seeds."""
    own = {way: tables[f"{name}-{way}"] for way in WAYS}
    widest = max(len(table.columns) for table in own.values())
    figure = Figure(figsize=(max(WIDTH, 0.62 * widest + 2.2), 6.4), layout="constrained")
    handles: dict[str, Line2D] = {}
    for axes, (way, table) in zip(figure.subplots(2, 1), own.items(), strict=True):
        for place, group in enumerate(table.rows):
            color, dash = HUES[place % len(HUES)], DASHES[place // len(HUES) % len(DASHES)]
            at = [i for i, column in enumerate(table.columns) if group in column.cells]
            cells = [table.columns[i].cells[group] for i in at]
            means, stds = [cell.mean for cell in cells], [cell.std or 0.0 for cell in cells]
            (handles[group],) = axes.plot(at, means, "o", linestyle=dash, color=color, linewidth=1.3, markersize=3.5)
            low, high = ([m + sign * s for m, s in zip(means, stds, strict=True)] for sign in (-1, 1))
            axes.fill_between(at, low, high, color=color, alpha=0.12, linewidth=0)
        labels = [column.title.replace(" (", "\n(") for column in table.columns]
        axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_title(f"{TITLES[way]}, Rsum", loc="left", fontsize=9.5, color=INK)
        quiet_axes(axes)
    if len(handles) > 1:
        legend_above(figure, list(handles), list(handles.values()))
    return figure
