"""What did each head do? Heat maps of layer by head as real tables: numbers to read, colours to compare, a slider
over time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from lit_attn.drawing.site_names import told_number, told_site
from lit_attn.report.beside import chance_levels, change_title, changes_beside, drawn_metrics, raw_beside
from lit_attn.report.drawing import ink_on, palette, value_color
from lit_attn.report.heads import HeadGrid, HeadTable, color_range, head_grid, latest, on_scale
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, data_block, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.text import format_count, format_number

_MOST_STEPS = 40


@dataclass(frozen=True)
class HeatCard:
    """One metric of one run and stage: a grid per validation, all with the rows of the last."""

    run: int
    stage: str
    steps: tuple[int, ...]
    validations: int
    """How many validations there were; more than `steps` if some are left out of the slider."""
    grids: tuple[HeadGrid, ...]


def heat_cards(runs: Sequence[Run], metric: str) -> list[HeatCard]:
    """All cards of a metric. A validation whose sites or heads differ from the last one is not on the slider."""
    cards = []
    for index, run in enumerate(runs):
        stages = dict.fromkeys(table.stage for table in run.heads)
        for stage in stages:
            tables = [table for table in run.heads if table.stage == stage]
            card = _card(index, stage, metric, tables)
            if card is not None:
                cards.append(card)
    return cards


def _card(run: int, stage: str, metric: str, tables: Sequence[HeadTable]) -> HeatCard | None:
    found = [(table.step, head_grid(table, metric)) for table in tables]
    measured = [(step, grid) for step, grid in found if grid.rows]
    if not measured:
        return None
    last = measured[-1][1]
    alike = [
        (step, grid) for step, grid in measured if grid.rows == last.rows and grid.values.shape == last.values.shape
    ]
    chosen = sorted(set(np.linspace(0, len(alike) - 1, min(len(alike), _MOST_STEPS)).round().astype(int).tolist()))
    return HeatCard(run, stage, tuple(alike[i][0] for i in chosen), len(measured), tuple(alike[i][1] for i in chosen))


def heat_section(runs: Sequence[Run]) -> Section | None:
    """All heat maps, each beside its raw capture and what the task loses without the head, where these were measured."""
    metrics = drawn_metrics(runs)
    if not metrics:
        return None
    parts = []
    blocks: list[Markup] = []
    for number, metric in enumerate(metrics):
        cards = heat_cards(runs, metric)
        raws = [_beside(runs[card.run], card, metric, raw=True) for card in cards]
        low, high = color_range([grid for card in (*cards, *filter(None, raws)) for grid in card.grids])
        drawn = []
        for place, (card, raw) in enumerate(zip(cards, raws, strict=True)):
            name = f"heat-{number}-{place}"
            blocks.append(_moving(card, name, runs[card.run].name, low, high))
            change = _beside(runs[card.run], card, metric, raw=False)
            drawn += [
                _draw(card, name, runs, low, high),
                None if raw is None else _draw(raw, f"{name}-raw", runs, low, high, "raw residual"),
                None if change is None else _draw_change(change, f"{name}-change", runs),
            ]
        shown = [part for part in drawn if part is not None]
        title = tag("h3", metric.replace("_", " "), _scale(low, high), *_chance_remarks(runs, metric))
        parts.append(
            tag(
                "div",
                title,
                tag("div", *shown, class_="heat-cards"),
                class_="heat-metric single" if len(shown) == 1 else "heat-metric",
            )
        )
    note = (
        "One cell per head; a cell leads to the page of its head. Maps of one metric share their colours, but for changes of "
        "a score; the slider goes back through the validations. Other denominators and baselines are in heads.csv. "
        "Layers and heads count from 1 here; names such as decoder.2.cross:4, and files, count from 0."
    )
    return section("heads", "Heads", tag("div", *parts, class_="heat-grid"), *blocks, note=note)


def _beside(run: Run, card: HeatCard, metric: str, *, raw: bool) -> HeatCard | None:
    """The last validation of a card as captured raw, or what the task loses without each head."""
    last, rows = card.steps[-1], card.grids[-1].rows
    table = next(table for table in run.heads if (table.stage, table.step) == (card.stage, last))
    grid = raw_beside(run, table, metric, rows) if raw else changes_beside(table, metric, rows)
    return None if grid is None else HeatCard(card.run, card.stage, (last,), 1, (grid,))


def _draw_change(card: HeatCard, name: str, runs: Sequence[Run]) -> Markup:
    return _draw(card, name, runs, *color_range(card.grids), change_title(card.grids[-1].metric))


def _chance_remarks(runs: Sequence[Run], metric: str) -> list[Markup]:
    """The chance level, or those of stacks of sites where they differ. None where runs differ."""
    levels = [chance_levels(table, metric) for run in runs for table in latest(run.heads)]
    known = [{block: format_number(level) for block, level in one.items()} for one in levels if one]
    if not known or any(one != known[0] for one in known):
        return []
    same = len(set(known[0].values())) == 1
    said = (
        [f"chance {next(iter(known[0].values()))}"]
        if same
        else [f"chance {b} {level}" for b, level in known[0].items()]
    )
    return [tag("span", remark, class_="scale") for remark in said]


def head_page() -> Markup:
    """Where the script shows a single head."""
    return tag("section", id="head", class_="head-page", hidden=True, aria_label="One head")


def _scale(low: float, high: float) -> Markup:
    stops = ", ".join(palette()[::9])
    bar = tag("span", class_="scale-bar", style=f"background:linear-gradient(90deg, {stops})", aria_hidden="true")
    return tag("span", format_number(low), bar, format_number(high), class_="scale")


def _draw(card: HeatCard, name: str, runs: Sequence[Run], low: float, high: float, what: str = "") -> Markup:
    grid, step = card.grids[-1], card.steps[-1]
    heads = grid.values.shape[1]
    column = tag("tr", tag("th", "head"), *(tag("th", told_number(head), scope="col") for head in range(heads)))
    body = []
    block = ""
    for index, row in enumerate(grid.rows):
        if row.block and row.block != block:
            body.append(tag("tr", tag("th", row.block, colspan=str(heads + 1), class_="block", scope="colgroup")))
        block = row.block
        cells = [
            _cell(
                card.run,
                row.site,
                head,
                float(grid.values[index, head]),
                grid.counts[index, head],
                low,
                high,
                not index,
            )
            for head in range(heads)
        ]
        body.append(tag("tr", tag("th", row.label, scope="row"), *cells))
    title = [run_dot(run_looks(runs)[card.run]), f" {runs[card.run].name}, "] if len(runs) > 1 else []
    told = f"{what}, {card.stage}, step " if what else f"{card.stage}, step "
    caption = tag("caption", *title, told, tag("output", format_count(step)))
    table = tag("table", caption, tag("thead", column), tag("tbody", *body), class_="heat", id=name)
    return tag("div", tag("div", table, class_="scroll", tabindex="0"), _slider(card, name))


def _slider(card: HeatCard, name: str) -> Markup | None:
    if len(card.steps) < 2:
        return None
    end = str(len(card.steps) - 1)
    left = "" if len(card.steps) == card.validations else f" ({len(card.steps)} of {card.validations} validations)"
    control = tag(
        "input", type="range", min="0", max=end, value=end, data_heat=name, aria_label=f"Validation shown, {card.stage}"
    )
    return tag(
        "label",
        control,
        tag("span", f"{len(card.steps)} validations" if not left else left.strip(" ()")),
        class_="slider",
    )


def _cell(
    run: int, site: str, head: int, value: float, count: float, low: float, high: float, in_first_row: bool
) -> Markup:
    seen = format_count(int(count)) if math.isfinite(count) else "unknown"
    hint = f"{told_site(site)}, head {told_number(head)}: {format_number(value)} (n = {seen})"
    reach = "0" if in_first_row and head == 0 else "-1"
    if not math.isfinite(value):
        link = tag("a", format_number(value), href=head_address(run, site, head), tabindex=reach)
        return tag("td", link, title=hint, class_="empty")
    color = value_color(on_scale(value, low, high))
    link = tag("a", short_number(value), href=head_address(run, site, head), tabindex=reach)
    return tag("td", link, title=hint, style=f"background:{color};color:{ink_on(color)}")


def head_address(run: int, site: str, head: int) -> str:
    """The part of the page's address that opens one head."""
    return f"#head={run}/{quote(site, safe='')}/{head}"


def short_number(value: float) -> str:
    """At most five characters where possible: two decimals below ten."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.3g}"


def _moving(card: HeatCard, name: str, run_name: str, low: float, high: float) -> Markup:
    def numbers(values: np.ndarray) -> list[float | None]:
        return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.ravel().tolist()]

    last = card.grids[-1]
    return data_block(
        f"{name}-data",
        {
            "run": card.run,
            "name": run_name,
            "stage": card.stage,
            "metric": last.metric,
            "sites": [row.site for row in last.rows],
            "places": [told_site(row.site) for row in last.rows],
            "heads": last.values.shape[1],
            "steps": list(card.steps),
            "low": low,
            "high": high,
            "frames": [numbers(grid.values) for grid in card.grids],
            "counts": [numbers(grid.counts) for grid in card.grids],
        },
    )
