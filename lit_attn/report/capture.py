"""What would a raw capture have said? Normalised entropy by layer: of attention as used, and as captured raw."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lit_attn.report.drawing import DASHES, HUES, INK, inline_svg, quiet_axes
from lit_attn.report.files import free_name
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.raw import CapturePair, Comparison, comparisons
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section, slug_id
from lit_attn.report.text import escape, format_count, slug

_COLUMNS = 3
_USED, _RAW = HUES[0], HUES[5]
_ASIDE = 0.06
_NOTE = (
    "Raw is attention on the residual stream before its norm, as a published probing code captured it; "
    "only used is what the network did. Normalised entropy: 0 is all weight on one key, 1 is equal weight on all."
)

Captures = Mapping[str, tuple[int, Comparison]]


def captures(runs: Sequence[Run]) -> Captures:
    """Every comparison with the place of its run, by the name of its figure."""
    found: dict[str, tuple[int, Comparison]] = {}
    for index, run in enumerate(runs):
        for comparison in comparisons(run.heads, run.raw_heads):
            name = free_name(f"capture-{slug(run.name)}-{slug(comparison.stage)}", found)
            found[name] = (index, comparison)
    return found


def draw_capture(comparison: Comparison) -> Figure:
    """A panel per family of sites, all from 0 to 1: the mean over heads as a line, every head as a dot."""
    families = comparison.families
    rows = -(-len(families) // _COLUMNS)
    figure = Figure(figsize=(10.5, 2.5 * rows + 0.4), layout="constrained")
    grid = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for unused in grid[len(families) :]:
        unused.remove()
    for axes, (family, pairs) in zip(grid, families.items(), strict=False):
        _draw_family(axes, family, pairs)
    keys = [
        Line2D([], [], color=_USED, linestyle=DASHES[0], label="used"),
        Line2D([], [], color=_RAW, linestyle=DASHES[1], label="raw"),
        Line2D([], [], color=INK, linestyle="", marker="o", markersize=3, alpha=0.7, label="one head"),
    ]
    figure.legend(handles=keys, loc="outside upper left", ncols=3, frameon=False, fontsize=8.5, labelcolor=INK)
    return figure


def _draw_family(axes: Axes, family: str, pairs: Sequence[CapturePair]) -> None:
    for label, color, dash, aside in (("used", _USED, DASHES[0], -_ASIDE), ("raw", _RAW, DASHES[1], _ASIDE)):
        heads = [pair.used if label == "used" else pair.raw for pair in pairs]
        means = [fmean(values) for values in heads]
        marker = "o" if label == "used" else "s"
        axes.plot(
            range(len(pairs)),
            means,
            color=color,
            linestyle=dash,
            linewidth=1.6,
            marker=marker,
            markersize=5,
            clip_on=False,
            label=label,
        )
        places = [place + aside for place, values in enumerate(heads) for _ in values]
        dots = [value for values in heads for value in values]
        axes.plot(
            places, dots, "o", color=color, markersize=3, alpha=0.7, linewidth=0, clip_on=False, label=f"{label} heads"
        )
    axes.set_title(family, loc="left", fontsize=9.5, color=INK)
    axes.set_xticks(range(len(pairs)), [pair.row.label for pair in pairs])
    margin = 0.5 if len(pairs) > 1 else 1.0
    axes.set_xlim(-margin, len(pairs) - 1 + margin)
    axes.set_ylim(0, 1)
    axes.set_ylabel("normalised entropy", fontsize=8, color=INK)
    quiet_axes(axes)


def capture_section(runs: Sequence[Run], found: Captures, documents: Mapping[str, str]) -> Section | None:
    """Figure and numbers of every comparison; `documents` holds the figures as SVG, by name."""
    if not found:
        return None
    parts = []
    for name, (index, comparison) in found.items():
        title = f"{runs[index].name}, {comparison.stage}, step {format_count(comparison.step)}"
        drawing = Markup(inline_svg(documents[name], slug_id(name), escape(title)))
        caption = tag("figcaption", run_dot(run_looks(runs)[index]) if len(runs) > 1 else None, f" {title}")
        figure = tag("figure", caption, tag("div", drawing, class_="scroll", tabindex="0"), class_="curves")
        parts.append(tag("div", figure, _table(comparison)))
    return section("capture", "Used and raw capture", *parts, note=_NOTE)


def _table(comparison: Comparison) -> Markup:
    columns = ("used", "heads from – to", "raw", "heads from – to")
    head = tag(
        "tr", tag("th", "site", scope="col"), *(tag("th", text, scope="col", class_="number") for text in columns)
    )
    body = [
        tag("tr", tag("th", pair.row.site, scope="row"), *_cells(pair.used, "number main"), *_cells(pair.raw, "number"))
        for pairs in comparison.families.values()
        for pair in pairs
    ]
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="group", aria_label="Table; scrolls sideways")


def _cells(heads: Sequence[float], style: str) -> list[Markup]:
    spread = f"{min(heads):.3f} – {max(heads):.3f}"
    return [tag("td", f"{fmean(heads):.3f}", class_=style), tag("td", spread, class_="number")]
