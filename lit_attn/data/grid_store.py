"""Where are the grids of pictures? In an HDF5 file [pictures, channels, rows, columns], which is read one picture at a time.

Public files hold them as `features` or `data`, float32 or float16, and a picture's row is its `image_index`. Files of
`lit-attn extract grid` also list `names`, by which pictures are found then, and `done`, which rows are filled.
"""

import os
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from lit_attn.errors import UserError

DATASETS = ("features", "data")


class GridStore:
    """One file of grids. It is opened when it is first read, in each process anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[int, h5py.File] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_files": {}}

    @property
    def _file(self) -> h5py.File:
        """Open in this very process: HDF5 must not read from a file that a parent process opened."""
        process = os.getpid()
        if process not in self._files:
            if not self.path.is_file():
                raise UserError(f"There is no file of grids {self.path}. Make one with lit-attn extract grid.")
            try:
                self._files[process] = h5py.File(self.path, "r")
            except OSError as error:
                raise UserError(f"{self.path} is no complete HDF5 file of grids: {error}.") from error
        return self._files[process]

    @cached_property
    def _dataset(self) -> str:
        """Which of `DATASETS` the file has, checked."""
        name = next((name for name in DATASETS if isinstance(self._file.get(name), h5py.Dataset)), None)
        if name is None:
            has = ", ".join(self._file) or "nothing"
            raise UserError(f"{self.path} has no dataset {' or '.join(map(repr, DATASETS))}; it holds {has}.")
        found = self._file[name]
        channels_last = len(found.shape) == 4 and found.shape[1] == found.shape[2] != found.shape[3]
        if len(found.shape) != 4 or found.dtype.kind != "f" or 0 in found.shape or channels_last:
            raise UserError(
                f"{self.path}: {name!r} holds {found.dtype} of shape {found.shape}; "
                "expected floats [pictures, channels, rows, columns]."
            )
        return name

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of each grid."""
        channels, rows, columns = self._file[self._dataset].shape[1:]
        return int(channels), int(rows), int(columns)

    def __len__(self) -> int:
        """The number of rows, filled or not."""
        return int(self._file[self._dataset].shape[0])

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """The names of the pictures, row by row, where the file lists them."""
        if "names" not in self._file:
            return None
        names = tuple(self._file["names"].asstr()[:])
        if len(names) != len(self):
            raise UserError(f"{self.path} has {len(self)} rows, but {len(names)} names. Extract the grids again.")
        return names

    @cached_property
    def _done(self) -> NDArray[np.bool_]:
        return self._file["done"][:].astype(bool) if "done" in self._file else np.ones(len(self), bool)

    @cached_property
    def _rows_by_name(self) -> dict[str, list[int]]:
        """Rows by whole name, and by its last part: `val/CLEVR_val_000000` is `CLEVR_val_000000`, too."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(self.names or ()):
            for key in {name, name.rpartition("/")[2]}:
                rows[key].append(row)
        return dict(rows)

    def row(self, index: int, name: str) -> int:
        """The row of a picture.

        Args:
            index: Its `image_index`, which counts where the file lists no names.
            name: Its name without suffix, which counts where it does.
        """
        if self.names is None:
            if not 0 <= index < len(self):
                raise UserError(
                    f"{self.path} has {len(self)} rows, none for image_index {index} ({name}). "
                    "Do the questions belong to these features?"
                )
            return index
        rows = self._rows_by_name.get(name, [])
        if len(rows) != 1:
            says = "several grids" if rows else "no grid"
            raise UserError(
                f"{self.path} has {says} of the picture {name!r} among its {len(self)}, such as {self.names[0]!r}. "
                "Extract the pictures of one split into one file."
            )
        if not self._done[rows[0]]:
            raise UserError(
                f"{self.path}: the grid of the picture {name!r} is not there yet. "
                "The same lit-attn extract grid goes on where it stopped, and lists pictures that it cannot read."
            )
        return rows[0]

    def read(self, row: int) -> NDArray[np.float32]:
        """The grid of one row: channels, rows, columns."""
        grid = self._file[self._dataset][row].astype(np.float32)
        if not np.isfinite(grid).all():
            raise UserError(f"{self.path}: row {row} holds NaN or infinity. Extract or download the file again.")
        return grid
