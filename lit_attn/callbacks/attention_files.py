"""What does a validation leave in `attention/`? All that boards found, as tables: heads, steps, findings, maps and lists."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lit_attn.files import written_whole
from lit_attn.probes.board import Board
from lit_attn.probes.probe import HeadValue, StepValue


class Found(NamedTuple):
    """The tables of one validation."""

    heads: Sequence[HeadValue]
    steps: Sequence[StepValue]
    findings: Sequence[NamedTuple]
    cells: Sequence[NamedTuple]

    @classmethod
    def of(cls, board: Board) -> "Found":
        """All that a board has heard; all processes must ask."""
        values = board.values()
        return cls(values, board.steps(), board.findings(values), board.cells())

    def write(self, folder: Path, stage: str, step: int) -> None:
        """One file per table that has rows; that of the heads always."""
        stem = folder / f"{stage}-{step:08d}"
        write_heads(stem.with_suffix(".csv"), self.heads)
        if self.steps:
            write_steps(Path(f"{stem}-steps.csv"), self.steps)
        for name, rows in (("findings", self.findings), ("tables", self.cells)):
            if rows:
                write_rows(Path(f"{stem}-{name}.csv"), rows)


def joined(found: Sequence[Found]) -> Found:
    """The rows of several; what two of them measured is there once."""
    heads = {(v.site, v.head, v.metric): v for one in found for v in one.heads}
    steps = {(v.site, v.head, v.metric, v.step, v.kind): v for one in found for v in one.steps}
    findings, cells = (list(dict.fromkeys(row for one in found for row in one[part])) for part in (2, 3))
    return Found(list(heads.values()), list(steps.values()), findings, cells)


def write_heads(path: Path, values: Sequence[HeadValue]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["site", "head", "metric", "value", "count"])
        writer.writerows(values)  # which writes floats in full


def write_steps(path: Path, values: Sequence[StepValue]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["site", "head", "metric", "step", "kind", "value", "count"])
        writer.writerows(values)


def write_rows(path: Path, rows: Sequence[NamedTuple]) -> None:
    """A table whose columns are the fields of its rows."""
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows(rows)
