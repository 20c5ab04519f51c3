"""What does each attribution method say of a sample? Reads `gallery/attribution/<sample>.npz`, if it is there.

Each array is named `<method>.<query stream>.<key stream>` and holds a score for every query and key, of either sign; a row
of nan was not asked for. Streams are those of the sample: `words` and `regions` of a caption; `answer`, `words` and `cells`
of a question answered in steps; `answer`, `question`, `objects`, `ocr` and `decoded` of one answered by reading.
`lit_attn.callbacks.gallery_files.write_attribution` writes these files.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lit_attn.report.arrays import Weights
from lit_attn.report.errors import ReportError
from lit_attn.report.text import plain

FOLDER = "attribution"
ANSWER = "answer"


@dataclass(frozen=True)
class Attribution:
    """Scores `queries keys` by one method."""

    method: str
    query: str
    keys: str
    scores: Weights


def read_attributions(sample: Path, sizes: Mapping[str, int], renamed: Mapping[str, str]) -> tuple[Attribution, ...]:
    """All of a sample, in the order of the file.

    Args:
        sample: The JSON file of the sample.
        sizes: Items of each stream of the sample.
        renamed: Names of key streams in the file that the sample calls otherwise.
    """
    path = sample.parent / FOLDER / f"{sample.stem}.npz"
    if not path.is_file():
        return ()
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise ReportError(f"{path}: not a readable .npz of plain arrays ({error}).") from error
    return tuple(
        found for name, array in arrays.items() if (found := _read(path, name, array, sizes, renamed)) is not None
    )


def _read(
    path: Path, name: str, array: np.ndarray, sizes: Mapping[str, int], renamed: Mapping[str, str]
) -> Attribution | None:
    parts = name.split(".")
    if len(parts) != 3 or array.dtype.kind != "f":
        raise ReportError(
            f"{path}, array {name!r} of type {array.dtype}: expected numbers under a name <method>.<query>.<keys>."
        )
    method, query, keys = plain(parts[0]), parts[1], renamed.get(parts[2], parts[2])
    for stream in (query, keys):
        if stream not in sizes:
            raise ReportError(f"{path}, array {name!r}: no stream {stream!r}; the sample has {', '.join(sizes)}.")
    expected = (sizes[query], sizes[keys])
    if array.shape != expected:
        raise ReportError(f"{path}, array {name!r}: shape {array.shape}, expected {expected}, {query} by {keys}.")
    return Attribution(method, query, keys, array.astype(np.float32)) if array.size else None
