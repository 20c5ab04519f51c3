"""What does W&B get of a report? Its tables, its figures and the page itself, within W&B's limits.

W&B cuts tables at 10,000 rows; wide ones and large pages make its own pages slow. What is cut or left out is said.
"""

import csv
import logging
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

MOST_ROWS, MOST_COLUMNS = 10_000, 200
LARGEST_PAGE = 30_000_000
"""Bytes of a page."""
PARTS = ("*.csv", "tables/*.csv", "figures/*.png", "index.html", "report/*/index.html")
"""Of the folder of a report, or of a study."""


def report_media(folder: Path, name: str) -> dict[str, Any]:
    """Everything to log, by `<name>/<path without suffix>`."""
    found: dict[str, Any] = {}
    for path in (path for part in PARTS for path in sorted(folder.glob(part))):
        value = _media(path)
        if value is not None:
            found[f"{name}/{path.relative_to(folder).with_suffix('').as_posix()}"] = value
    return found


def _media(path: Path) -> Any:
    import wandb

    if path.suffix == ".csv":
        columns, rows = read_table(path)
        return wandb.Table(columns=list(columns), data=rows) if rows else None
    if path.suffix == ".png":
        return wandb.Image(str(path))
    if path.stat().st_size > LARGEST_PAGE:
        log.warning("%s is larger than %d MB and is not sent to W&B.", path, LARGEST_PAGE // 1_000_000)
        return None
    return wandb.Html(str(path), inject=False)


def read_table(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a CSV, as many as W&B shows; a column of numbers as numbers, empty cells as None."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    if len(rows) > MOST_ROWS or len(header) > MOST_COLUMNS:
        log.warning(
            "%s has %d rows and %d columns; W&B gets the first %d and %d.",
            path, len(rows), len(header), MOST_ROWS, MOST_COLUMNS,
        )  # fmt: skip
    kept = [row[:MOST_COLUMNS] for row in rows[:MOST_ROWS]]
    columns = [_numbers(column) for column in zip(*kept, strict=True)]
    return header[:MOST_COLUMNS], [list(row) for row in zip(*columns, strict=True)]


def _numbers(column: tuple[str, ...]) -> list[float | None] | list[str | None]:
    try:
        return [float(cell) if cell else None for cell in column]
    except ValueError:
        return [cell or None for cell in column]
