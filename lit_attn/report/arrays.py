"""Are the arrays beside a sample what its file promises? Reads `.npz` files of plain numbers and nothing else."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lit_attn.report.errors import ReportError

Weights = NDArray[np.float32]


def read_arrays(sample: Path, keys: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """The arrays of these names in the `.npz` beside a sample's JSON."""
    path = sample.with_suffix(".npz")
    if not path.is_file():
        raise ReportError(f"{path}: missing, but {sample.name} names {len(keys)} maps in it.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            known = list(arrays.files)
            for key in keys:
                if key not in known:
                    raise ReportError(f"{path}: no array {key!r}; it holds {known}.")
            return {key: arrays[key] for key in keys}
    except ReportError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise ReportError(f"{path}: not a readable .npz of plain arrays ({error}).") from error


def checked_weights(
    sample: Path, key: str, array: NDArray[np.generic], expected: Sequence[int | None], names: str
) -> Weights:
    """The array as weights. A value may be nan, never negative.

    Args:
        expected: The size of each axis; None for any but 0.
        names: What the axes are, for the complaint.
    """
    path = sample.with_suffix(".npz")
    fits = array.ndim == len(expected) and all(
        size == wanted if wanted is not None else size > 0 for size, wanted in zip(array.shape, expected, strict=True)
    )
    if not fits:
        raise ReportError(f"{path}, array {key!r}: shape {array.shape}, expected ({names}).")
    if array.dtype.kind != "f":
        raise ReportError(f"{path}, array {key!r}: type {array.dtype}, expected floating point.")
    weights = array.astype(np.float32)
    if (weights < 0).any():
        raise ReportError(f"{path}, array {key!r}: negative weight {float(np.nanmin(weights)):g}; rows must sum to 1.")
    return weights
