"""Where does each reasoning step look, by kind of question?

Reads `attention/<stage>-<step>-steps.csv` and shows the last validation of every stage: a table per site and metric, a row
per reasoning or decoding step, a column per kind of question, the mean over heads weighted by what they counted.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lit_attn.report.drawing import ink_on, value_color
from lit_attn.report.errors import ReportError
from lit_attn.report.heads import on_scale
from lit_attn.report.heat import short_number
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, tag
from lit_attn.report.metrics import CHANCE, chance_of
from lit_attn.report.overview import run_dot
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.text import format_count, format_number, natural_key, plain

_FILE = re.compile(r"(?P<stage>.+)-(?P<step>\d+)-steps\.csv")
_COLUMNS = ["site", "head", "metric", "step", "kind", "value", "count"]


@dataclass(frozen=True)
class Cell:
    """The mean over heads, and how many rows it was taken over."""

    value: float
    count: float


@dataclass(frozen=True)
class StepTable:
    """One metric at one site in the last validation of a stage."""

    stage: str
    at: int
    site: str
    metric: str
    cells: dict[tuple[int, str], Cell]
    """By step, from 0, and kind of question."""

    @property
    def steps(self) -> list[int]:
        return sorted({step for step, _ in self.cells})

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for _, kind in self.cells))


def read_steps(folder: Path) -> list[StepTable]:
    """The tables of the last validation of every stage, in natural order of sites and metrics."""
    found = [(match, path) for path in folder.glob("*-steps.csv") if (match := _FILE.fullmatch(path.name))]
    last = {
        match["stage"]: (int(match["step"]), path) for match, path in sorted(found, key=lambda f: int(f[0]["step"]))
    }
    return [table for stage, (at, path) in sorted(last.items()) for table in _read(path, plain(stage), at)]


def _read(path: Path, stage: str, at: int) -> list[StepTable]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if header != _COLUMNS:
                raise ReportError(f"{path}, line 1: columns are {header}, expected {_COLUMNS}.")
            sums = _sums(path, ((rows.line_num, cells) for cells in rows if cells))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error
    tables = {
        (site, metric): {place: Cell(total / count, count) for place, (total, count) in own.items()}
        for (site, metric), own in sums.items()
    }
    ordered = sorted(tables, key=lambda names: (natural_key(names[1]), natural_key(names[0])))
    return [StepTable(stage, at, site, metric, tables[site, metric]) for site, metric in ordered]


Sums = dict[tuple[str, str], dict[tuple[int, str], tuple[float, float]]]


def _sums(path: Path, rows: Iterable[tuple[int, list[str]]]) -> Sums:
    found: Sums = {}
    for line, cells in rows:
        if len(cells) != len(_COLUMNS):
            raise ReportError(f"{path}, line {line}: {len(cells)} cells, expected {len(_COLUMNS)}.")
        site, _, metric, step, kind, value, count = cells
        try:
            place, weight = (int(step), plain(kind)), float(count)
            if not weight > 0:
                raise ValueError("the count must be positive")
            own = found.setdefault((plain(site), plain(metric)), {})
            total, counted = own.get(place, (0.0, 0.0))
            own[place] = (total + float(value) * weight, counted + weight)
        except ValueError as error:
            raise ReportError(
                f"{path}, line {line}: {cells[3:]} are no step, kind, value and count: {error}."
            ) from error
    return found


def steps_section(runs: Sequence[Run]) -> Section | None:
    """Tables of all runs; those of one metric share their colours. Chance levels stand below what they belong to."""
    tables = [(index, table) for index, run in enumerate(runs) for table in read_steps(run.folder / "attention")]
    metrics = list(dict.fromkeys(table.metric for _, table in tables if not table.metric.endswith(CHANCE)))
    parts = []
    for metric in metrics:
        own = [(index, table) for index, table in tables if table.metric == metric]
        level = chance_of(metric) or f"{metric}{CHANCE}"
        chances = {(index, table.stage, table.site): table for index, table in tables if table.metric == level}
        values = [cell.value for _, table in own for cell in table.cells.values() if math.isfinite(cell.value)]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        cards = [
            _card(runs, index, table, chances.get((index, table.stage, table.site)), low, high) for index, table in own
        ]
        title = tag("h3", metric.replace("_", " "))
        parts.append(tag("div", title, tag("div", *cards, class_="heat-cards"), class_="heat-metric"))
    if not parts:
        return None
    note = "Mean over heads at the last validation. Steps count from 1; tables of one metric share their colours."
    return section("steps", "Steps and kinds of question", tag("div", *parts, class_="heat-grid"), note=note)


def _card(
    runs: Sequence[Run], index: int, table: StepTable, chance: StepTable | None, low: float, high: float
) -> Markup:
    head = tag("tr", tag("th", "step"), *(tag("th", kind.replace("_", " "), scope="col") for kind in table.kinds))
    body = [
        tag(
            "tr",
            tag("th", step + 1, scope="row"),
            *(_cell(table, step, kind, chance, low, high) for kind in table.kinds),
        )
        for step in table.steps
    ]
    foot = None
    if chance is not None:
        levels = [_overall(chance, kind) for kind in table.kinds]
        foot = tag("tfoot", tag("tr", tag("th", "chance", scope="row"), *(tag("th", short_number(v)) for v in levels)))
    name = [run_dot(run_looks(runs)[index]), f" {runs[index].name}, "] if len(runs) > 1 else []
    caption = tag("caption", *name, f"{table.site}, {table.stage}, step {format_count(table.at)}")
    drawn = tag("table", caption, tag("thead", head), tag("tbody", *body), foot, class_="heat")
    return tag("div", tag("div", drawn, class_="scroll", tabindex="0"))


def _overall(table: StepTable, kind: str) -> float:
    """One level for all steps: they were measured on the same questions, or on fewer of them."""
    own = [cell for (_, name), cell in table.cells.items() if name == kind]
    return sum(cell.value * cell.count for cell in own) / sum(cell.count for cell in own) if own else math.nan


def _cell(table: StepTable, step: int, kind: str, chance: StepTable | None, low: float, high: float) -> Markup:
    cell = table.cells.get((step, kind))
    if cell is None or not math.isfinite(cell.value):
        return tag("td", "–", class_="empty")
    beside = chance.cells.get((step, kind)) if chance is not None else None
    level = f", chance {format_number(beside.value)}" if beside is not None else ""
    hint = f"{table.site}, step {step + 1}, {kind}: {format_number(cell.value)}{level} (n = {format_count(int(cell.count))})"
    color = value_color(on_scale(cell.value, low, high))
    return tag("td", short_number(cell.value), title=hint, style=f"background:{color};color:{ink_on(color)}")
