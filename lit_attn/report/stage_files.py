"""What was written beside the tables of heads? The last `<stage>-<step>-<name>.csv` of every stage, row by row.

Gold texts and a model's own are stages of one validation (`val`, `val_own`), so none of them stands for the others.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lit_attn.report.errors import ReportError
from lit_attn.report.runs import Run
from lit_attn.report.text import natural_key, plain

_FILE = re.compile(r"(?P<stage>.+)-\d+-[a-z]+\.csv")


class Listed(NamedTuple):
    """The last file of one stage of a run."""

    run: Run
    stage: str
    """Empty where all files are of one stage and need not say which."""
    rows: list[list[str]]
    """Header first."""


def last_files(runs: Sequence[Run], name: str) -> list[Listed]:
    """By run and stage the last file of this name. Files with other names are passed over."""
    paths = [(run, stage, path) for run in runs for stage, path in _last_paths(run.folder / "attention", name).items()]
    found = [Listed(run, stage, rows) for run, stage, path in paths if (rows := _read(path))]
    several = len({one.stage for one in found}) > 1
    return found if several else [one._replace(stage="") for one in found]


def _last_paths(folder: Path, name: str) -> dict[str, Path]:
    paths = sorted(folder.glob(f"*-{name}.csv"), key=lambda path: natural_key(path.name))
    return {plain(match["stage"]): path for path in paths if (match := _FILE.fullmatch(path.name))}


def _read(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [[plain(cell) for cell in row] for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error
