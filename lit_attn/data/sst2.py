"""Is a sentence praise or blame? SST-2 as a CSV with the columns `label` and `sentence`, as it is passed on with 6,920 rows."""

import csv
from dataclasses import dataclass
from pathlib import Path

from lit_attn.errors import UserError, did_you_mean

COLUMNS = ("label", "sentence")


@dataclass(frozen=True)
class Judged:
    """A sentence and the number of its class."""

    sample_id: str
    text: str
    label: int


def read_sst2(path: Path) -> list[Judged]:
    """All rows of a file in their order."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            for column in COLUMNS:
                if column not in names:
                    near = did_you_mean(column, names)
                    raise UserError(
                        f"{path} has no column {column!r}.{near} Its columns: {', '.join(names) or 'none'}."
                    )
            found = [_judged(row, path, rows.line_num) for row in rows]
    except OSError as error:
        raise UserError(f"Cannot read the sentences {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}.") from error
    if not found:
        raise UserError(f"{path} has no sentences below its header.")
    return found


def _judged(row: dict[str, str], path: Path, line: int) -> Judged:
    text, label = (row["sentence"] or "").strip(), (row["label"] or "").strip()
    if not text:
        raise UserError(f"{path}, line {line} has an empty sentence. Take it out.")
    if not label.isdecimal():
        raise UserError(f"{path}, line {line} has the label {label!r}; expected the number of a class, from 0.")
    return Judged(f"{path.name}:{line}", text, int(label))
