"""What do all heads of a stack say together? One table of every metric, by stack of sites and by layer, a column per run.

Means are over the heads of all layers of a stack (or of one layer); a head without a measurement does not count. Beside them
the best head of every run and the chance level. `heads.csv` holds everything, `heads.md` the rows of whole stacks. The page also
shows correlations: over heads and over words (`-findings.csv`), and of probes with what the task loses without a head
(`-agreement.csv`).
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lit_attn.drawing.derived import is_derived
from lit_attn.report.beside import blocks_of
from lit_attn.report.heads import HeadGrid, HeadTable, head_grid, latest
from lit_attn.report.markup import Markup, tag
from lit_attn.report.metrics import CHANCE, chance_of
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.stage_files import last_files
from lit_attn.report.text import escape_markdown, format_number, natural_key

ALL = "all"
_FINDINGS = "findings"
_TABLES = {
    _FINDINGS: "Correlations over heads and over words",
    "agreement": "Do heads matter that a probe picks out? Ranks of probes and of changes of scores",
}
_MOST_ROWS = 400


class StackMean(NamedTuple):
    """A metric of one stack of sites, or of one of its layers."""

    run: str
    stage: str
    step: int
    stack: str
    layer: str
    """From 0, as in names of sites; `all` for the whole stack."""
    metric: str
    mean: float
    least: float
    most: float
    best: str
    """Site and head with the largest value, layers and heads from 0."""
    chance: float
    heads: int


def stack_means(runs: Sequence[Run]) -> list[StackMean]:
    """All metrics but chance levels, at the last validation of every stage; raw captures are stacks of their own."""
    found: list[StackMean] = []
    for run in runs:
        for table in (*latest(run.heads), *latest(run.raw_heads)):
            for metric in table.metrics:
                if metric.endswith(CHANCE):
                    continue
                chance = chance_of(metric)
                levels = blocks_of(head_grid(table, chance)) if chance is not None else {}
                for stack, grid in blocks_of(head_grid(table, metric)).items():
                    found += _rows(run.name, table, stack, grid, levels.get(stack))
    return found


def _rows(run: str, table: HeadTable, stack: str, grid: HeadGrid, chance: HeadGrid | None) -> Iterator[StackMean]:
    layers = [(ALL, list(range(len(grid.rows))))]
    if len(grid.rows) > 1:
        layers += [(str(row.layer), [i]) for i, row in enumerate(grid.rows)]
    for layer, rows in layers:
        values = grid.values[rows]
        if not np.isfinite(values).any():
            continue
        line, head = np.unravel_index(np.nanargmax(values), values.shape)
        sites = {grid.rows[i].site for i in rows}
        same = [i for i, row in enumerate(chance.rows) if row.site in sites] if chance is not None else []
        level = chance.values[same] if chance is not None and same else np.array([np.nan])
        yield StackMean(
            run,
            table.stage,
            table.step,
            stack,
            layer,
            grid.metric,
            mean=float(np.nanmean(values)),
            least=float(np.nanmin(values)),
            most=float(np.nanmax(values)),
            best=f"{grid.rows[rows[int(line)]].site}:{head}",
            chance=float(np.nanmean(level)) if np.isfinite(level).any() else np.nan,
            heads=int(np.isfinite(values).sum()),
        )


def means_csv(means: Sequence[StackMean]) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(StackMean._fields)
    writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in means)
    return output.getvalue()


def means_markdown(means: Sequence[StackMean]) -> str:
    """A table per stage and stack: metrics by runs, with the best head of the first run that has one, and chance."""
    parts = []
    whole = [row for row in means if row.layer == ALL]
    for stage, stack in dict.fromkeys((row.stage, row.stack) for row in whole):
        own = [row for row in whole if (row.stage, row.stack) == (stage, stack)]
        runs = list(dict.fromkeys(row.run for row in own))
        head = ["metric", *runs, f"best head of {runs[0]}", "chance"]
        lines = [f"### {escape_markdown(stack)}, {escape_markdown(stage)}", "", _line(head), _line(["---"] * len(head))]
        for metric in sorted({row.metric for row in own}, key=natural_key):
            cells = {row.run: row for row in own if row.metric == metric}
            first = cells.get(runs[0])
            best = f"{format_number(first.most)} ({first.best})" if first is not None else "–"
            chance = next((row.chance for row in cells.values()), np.nan)
            values = [format_number(cells[run].mean) if run in cells else "–" for run in runs]
            lines.append(_line([metric, *values, best, format_number(chance)]))
        parts.append("\n".join(lines))
    named = "Heads are named by site and number; layers and heads count from 0 in names."
    return "\n\n".join([*parts, named] if parts else parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell if cell == '---' else escape_markdown(cell) for cell in cells)} |"


def probing_section(runs: Sequence[Run]) -> Section | None:
    """Correlations of every run, from the last validation of each stage that has them."""
    parts = []
    for name, title in _TABLES.items():
        for run, stage, (header, *rows) in last_files(runs, name):
            kept = [row for row in rows if name == _FINDINGS or not is_derived(row[0])]
            if kept:
                told = f"{title}, {stage}" if stage else title
                parts.append(_folded(f"{run.name}: {told}" if len(runs) > 1 else told, [header, *kept]))
    note = "r is Pearson's for findings and Spearman's for ranks. Many are tested here, and none is corrected for that."
    return section("probing", "Correlations of probes", *parts, note=note) if parts else None


def _folded(title: str, rows: Sequence[Sequence[str]]) -> Markup:
    head = tag("tr", *(tag("th", cell.replace("_", " "), scope="col") for cell in rows[0]))
    body = [tag("tr", *(tag("td", _shown(cell)) for cell in row)) for row in rows[1 : _MOST_ROWS + 1]]
    left = len(rows) - 1 - _MOST_ROWS
    table = tag("table", tag("thead", head), tag("tbody", *body))
    more = tag("p", f"{left} more rows are in the run folder.", class_="note") if left > 0 else None
    return tag(
        "details", tag("summary", title), tag("div", table, class_="scroll", tabindex="0"), more, open=len(rows) < 40
    )


def _shown(cell: str) -> str:
    try:
        return format_number(float(cell))
    except ValueError:
        return cell
