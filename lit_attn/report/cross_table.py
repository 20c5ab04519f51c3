"""How does a table of alignments by columns look, as Markdown, CSV, LaTeX and a heat map? Darker is better, column by column."""

import csv
import io
import math
import re
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lit_attn.report.drawing import INK
from lit_attn.report.tables import Spread, format_spread
from lit_attn.report.text import escape_markdown

LIGHTEST, DARKEST = 1.0, 0.55
"""Greys of the worst and of the best cell in print."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "≡": r"$\equiv$", "–": "--",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column: a spread per row, which way is better, and marks of rows that are the same model."""

    title: str
    cells: dict[str, Spread]
    higher_is_better: bool | None = True
    """None: no colour."""
    marks: dict[str, str] | None = None
    seeds: int = 1

    def text(self, row: str) -> str:
        if row not in self.cells:
            return "–"
        mark = (self.marks or {}).get(row, "")
        return format_spread(self.cells[row], self.seeds) + (f" ({mark})" if mark else "")

    def goodness(self, row: str) -> float:
        """0 for the worst mean of the column, 1 for the best; nan where there is none."""
        means = [cell.mean for cell in self.cells.values() if math.isfinite(cell.mean)]
        if row not in self.cells or self.higher_is_better is None or not math.isfinite(self.cells[row].mean):
            return math.nan
        low, high = min(means), max(means)
        share = (self.cells[row].mean - low) / (high - low) if high > low else 0.5
        return share if self.higher_is_better else 1 - share


@dataclass(frozen=True)
class CrossTable:
    """Rows by columns."""

    corner: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]


def to_markdown(table: CrossTable) -> str:
    heads = [table.corner, *(column.title for column in table.columns)]
    lines = [heads, ["---", *("---:" for _ in table.columns)]]
    lines += [[row, *(column.text(row) for column in table.columns)] for row in table.rows]
    shown = [line if i == 1 else [escape_markdown(cell) for cell in line] for i, line in enumerate(lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in shown) + "\n"


def to_csv(table: CrossTable) -> str:
    """Full precision: mean, standard deviation and count of every cell."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([table.corner, *(f"{c.title} {what}" for c in table.columns for what in ("mean", "std", "n"))])
    for row in table.rows:
        cells: list[object] = []
        for column in table.columns:
            cell = column.cells.get(row)
            cells += [None, None, 0] if cell is None else [cell.mean, cell.std, cell.count]
        writer.writerow([row, *cells])
    return output.getvalue()


def escape_latex(text: str) -> str:
    return re.sub("[" + re.escape("".join(_LATEX)) + "]", lambda found: _LATEX[found.group()], text)


def to_latex(table: CrossTable, caption: str) -> str:
    r"""A table for \usepackage[table]{xcolor} and \usepackage{booktabs}."""
    lines = [
        r"% needs \usepackage[table]{xcolor} and \usepackage{booktabs}; darker is better, column by column",
        r"\begin{table}\centering",
        rf"\caption{{{escape_latex(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(escape_latex(text) for text in (table.corner, *(c.title for c in table.columns))) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        cells = [escape_latex(row)]
        for column in table.columns:
            good = column.goodness(row)
            shade = "" if math.isnan(good) else rf"\cellcolor[gray]{{{LIGHTEST - good * (LIGHTEST - DARKEST):.2f}}}"
            cells.append(shade + escape_latex(column.text(row)))
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def documents(table: CrossTable, name: str, caption: str) -> dict[str, bytes]:
    """The table as Markdown, CSV and LaTeX, by file name."""
    texts = {"md": to_markdown(table), "csv": to_csv(table), "tex": to_latex(table, caption)}
    return {f"{name}.{suffix}": text.encode() for suffix, text in texts.items()}


def draw_table(table: CrossTable, title: str) -> Figure:
    """The same as a heat map with its numbers."""
    rows, columns = table.rows, table.columns
    width = 1.6 + sum(max(1.3, 0.085 * len(column.title)) for column in columns)
    figure = Figure(figsize=(width, 0.9 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    values = np.array([[column.goodness(row) for column in columns] for row in rows])
    axes.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=-0.15, vmax=1.25, aspect="auto")
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            color = "#ffffff" if values[i, j] > 0.75 else INK
            axes.text(j, i, column.text(row), ha="center", va="center", fontsize=8, color=color)
    axes.set_yticks(range(len(rows)), [row if len(row) <= 40 else f"{row[:39]}…" for row in rows])
    axes.set_xticks(range(len(columns)), [column.title for column in columns])
    axes.xaxis.tick_top()
    axes.tick_params(labelsize=8, colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    return figure
