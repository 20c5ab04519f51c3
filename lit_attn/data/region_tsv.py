"""How are the regions of bottom-up attention read as distributed? From tab-separated files of 20 GB and more.

Two layouts, told apart by their number of columns, neither with a header: that of the original features (Anderson et al.
2018), which has no labels, and that of LXMERT (Tan and Bansal 2019), which has them. Arrays are base64 of float32, label ids
of int64.

One pass finds where each line begins and jumps over the arrays, because a line's length follows from its number of
boxes. A line is decoded when it is asked for. Files are memory-mapped; forked workers share the map.
"""

import base64
import logging
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from lit_attn.data.region_base import RegionStore, Size
from lit_attn.data.regions import Regions
from lit_attn.errors import UserError

log = logging.getLogger(__name__)

LAYOUTS: dict[int, tuple[str, ...]] = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    10: ("image_id", "image_h", "image_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf", "num_boxes", "boxes",
         "features"),
}  # fmt: skip
"""Columns by their number."""
LONG = 1 << 28
"""Bytes of a file from which the first pass shows a progress bar."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where the regions of one picture stand."""

    file: "TsvFile"
    number: int
    start: int
    end: int


class TsvFile:
    """One file and what its lines hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        newline = self.data.find(b"\n")
        count = self.data[: None if newline < 0 else newline].count(b"\t") + 1
        if count not in LAYOUTS:
            raise self.broken(1, f"{count} columns, expected 6 (without labels) or 10 (with labels)")
        self.columns = LAYOUTS[count]
        self.dim = 0

    def __getstate__(self) -> dict[str, Any]:
        """A worker that is not forked maps the file itself."""
        return {name: value for name, value in vars(self).items() if name != "data"}

    @cached_property
    def data(self) -> mmap.mmap:
        try:
            with self.path.open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UserError(f"Cannot read the regions {self.path}: {error.strerror}.") from error
        except ValueError as error:
            raise UserError(f"{self.path} is empty.") from error

    def broken(self, line: int, what: str) -> UserError:
        return UserError(f"{self.path}, line {line}: {what}. Extract or download the file again.")

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Every picture's name and place."""
        start, number = 0, 1
        while start < len(self.data):
            end = self._expected_end(start)
            if end is None:
                newline = self.data.find(b"\n", start)
                end = len(self.data) if newline < 0 else newline
                count = self.data[start:end].count(b"\t") + 1
                if count != len(self.columns):
                    raise self.broken(number, f"{count} columns, expected {len(self.columns)}")
            line = Line(self, number, start, end)
            if not self.dim:
                self.dim = self.decode(line).features.shape[1]
            yield self.data[start : self.data.find(b"\t", start)].decode("utf-8", "replace"), line
            start, number = end + 1, number + 1

    def _expected_end(self, start: int) -> int | None:
        """Where a line must end by its number of boxes, if a line ends there."""
        begin, stop = start, start - 1
        for _ in range(self.columns.index("num_boxes") + 1):
            begin, stop = stop + 1, self.data.find(b"\t", stop + 1)
            if stop < 0:
                return None
        count = self.data[begin:stop]
        if not self.dim or not count.isdigit() or b"\n" in self.data[start:stop]:
            return None
        end = stop + 1 + _encoded(int(count) * 4) + 1 + _encoded(int(count) * self.dim)
        return end if self.data[end : end + 1] == b"\n" else None

    def decode(self, line: Line) -> Regions:
        try:
            row = self.data[line.start : line.end].rstrip(b"\r").split(b"\t")
            fields = dict(zip(self.columns, row, strict=True))
            count = int(fields["num_boxes"])
            features = _numbers(fields["features"], np.float32)
            regions = Regions(
                name=fields["image_id"].decode(),
                features=features.reshape(count, -1) if count else np.zeros((0, self.dim), np.float32),
                boxes=_numbers(fields["boxes"], np.float32).reshape(count, 4),
                width=float(fields["image_w"]),
                height=float(fields["image_h"]),
                objects=_labels(fields.get("objects_id"), np.int64, count),
                objects_conf=_labels(fields.get("objects_conf"), np.float32, count),
                attributes=_labels(fields.get("attrs_id"), np.int64, count),
                attributes_conf=_labels(fields.get("attrs_conf"), np.float32, count),
            )
        except ValueError as error:
            raise self.broken(line.number, f"cannot be decoded ({error})") from error
        width = regions.features.shape[1]
        if self.dim and width != self.dim:
            raise self.broken(line.number, f"{width} features per box, where earlier lines have {self.dim}")
        return regions


def _encoded(numbers: int) -> int:
    """How many characters so many float32 take in base64."""
    return (numbers * 4 + 2) // 3 * 4


def _numbers(field: bytes, dtype: type) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(field, validate=True), dtype)


def _labels(field: bytes | None, dtype: type, count: int) -> NDArray[Any] | None:
    return None if field is None else _numbers(field, dtype).reshape(count)


class TsvRegions(RegionStore):
    """One file, or several that share the pictures between them."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self._lines: dict[str, Line] = {}
        widths = {file: self._index(file) for file in files}
        if len(set(widths.values())) > 1:
            told = ", ".join(f"{file.name} {width}" for file, width in widths.items())
            raise UserError(f"The files of {path} differ in the number of features per box: {told}.")
        super().__init__(path, list(self._lines))
        self._dim = widths[files[0]]

    def _index(self, path: Path) -> int:
        file = TsvFile(path)
        size = len(file.data)
        quiet = size < LONG or not sys.stderr.isatty()
        twice = 0
        with Progress(console=Console(stderr=True), transient=True, disable=quiet) as bar:
            task = bar.add_task(f"looking for pictures in {path.name}", total=size)
            for name, line in file.lines():
                twice += name in self._lines
                self._lines.setdefault(name, line)
                if line.number % 100 == 0:
                    bar.update(task, completed=line.end)
        if twice:
            log.warning("%s lists %d pictures again; the first line of each is used.", path, twice)
        return file.dim

    @cached_property
    def dim(self) -> int:
        return self._dim

    def read(self, name: str, size: Size | None = None) -> Regions:
        line = self._lines[name]
        return line.file.decode(line)
