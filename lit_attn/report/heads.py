"""What did each attention head do, at each validation?

Reads `attention/<stage>-<step>.csv` and arranges one metric of it as a grid: a row per site, a column per head.
Sites named `decoder.3.cross` form the block "decoder · cross" with one row per layer; any other site is a row of
its own.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lit_attn.drawing.site_names import layer_of
from lit_attn.report.errors import ReportError
from lit_attn.report.text import natural_key, plain

_FILE = re.compile(r"(?P<stage>.+)-(?P<step>\d+)\.csv")
_COLUMNS = ["site", "head", "metric", "value", "count"]


@dataclass(frozen=True)
class HeadValue:
    """One metric of one head, and over how many observations it was taken."""

    site: str
    head: int
    metric: str
    value: float
    count: float


@dataclass(frozen=True)
class HeadTable:
    """Everything measured per head in one validation."""

    stage: str
    step: int
    values: tuple[HeadValue, ...]

    @property
    def metrics(self) -> list[str]:
        return sorted({value.metric for value in self.values}, key=natural_key)


@dataclass(frozen=True)
class GridRow:
    """Where a site stands in the grid."""

    site: str
    block: str
    """Title that the rows of one stack share; empty for a site that stands alone."""
    label: str
    """Its layer as people count, from 1; its name if it stands alone."""
    layer: int | None = None
    """From 0, as in names and files."""


@dataclass(frozen=True)
class HeadGrid:
    """One metric as sites by heads. A cell that was not measured is nan."""

    metric: str
    rows: tuple[GridRow, ...]
    values: NDArray[np.float64]
    counts: NDArray[np.float64]


def read_heads(folder: Path) -> tuple[HeadTable, ...]:
    """The tables in an `attention` folder, by stage and step. Files with other names are passed over."""
    found = [(match, path) for path in folder.glob("*.csv") if (match := _FILE.fullmatch(path.name))]
    tables = [_read_table(path, plain(match["stage"]), int(match["step"])) for match, path in found]
    return tuple(sorted(tables, key=lambda table: (table.stage, table.step)))


def _read_table(path: Path, stage: str, step: int) -> HeadTable:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if header != _COLUMNS:
                raise ReportError(f"{path}, line 1: columns are {header}, expected {_COLUMNS}.")
            values = tuple(_value(path, rows.line_num, cells) for cells in rows if cells)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error
    return HeadTable(stage, step, values)


def _value(path: Path, line: int, cells: list[str]) -> HeadValue:
    if len(cells) != len(_COLUMNS):
        raise ReportError(f"{path}, line {line}: {len(cells)} cells, expected {len(_COLUMNS)}.")
    site, head, metric, value, count = cells
    try:
        parsed = HeadValue(plain(site), int(head), plain(metric), float(value), float(count))
    except ValueError as error:
        raise ReportError(
            f"{path}, line {line}: head, value and count are {cells[1::2] + cells[4:]}: {error}."
        ) from error
    if parsed.head < 0:
        raise ReportError(f"{path}, line {line}: head is {head}; heads count from 0.")
    return parsed


def grid_row(site: str) -> GridRow:
    """The place of a site: `decoder.3.cross` is layer 4 of the block "decoder · cross"."""
    layer = layer_of(site)
    return GridRow(site, "", site) if layer is None else GridRow(site, layer.stack, layer.label, layer.number)


def head_grid(table: HeadTable, metric: str) -> HeadGrid:
    """One metric of a table as a grid, blocks and layers in natural order."""
    chosen = [value for value in table.values if value.metric == metric]
    sites = {value.site for value in chosen}
    rows = sorted(
        (grid_row(site) for site in sites), key=lambda row: (natural_key(row.block or row.site), natural_key(row.label))
    )
    place = {row.site: index for index, row in enumerate(rows)}
    width = 1 + max((value.head for value in chosen), default=-1)
    values = np.full((len(rows), width), np.nan)
    counts = np.zeros((len(rows), width))
    for value in chosen:
        values[place[value.site], value.head] = value.value
        counts[place[value.site], value.head] = value.count
    return HeadGrid(metric, tuple(rows), values, counts)


def latest(tables: tuple[HeadTable, ...]) -> tuple[HeadTable, ...]:
    """The last table of every stage."""
    return tuple({table.stage: table for table in tables}.values())


def color_range(grids: Sequence[HeadGrid]) -> tuple[float, float]:
    """The smallest and largest finite value of all grids: the scale they share. (0, 1) if nothing was measured."""
    finite = [grid.values[np.isfinite(grid.values)] for grid in grids]
    joined = np.concatenate(finite) if finite else np.array([])
    return (float(joined.min()), float(joined.max())) if joined.size else (0.0, 1.0)


def on_scale(value: float, low: float, high: float) -> float:
    """Where the value stands between the ends of the scale, from 0 to 1; the middle if the scale is a single point."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5
