"""How do many pictures become one HDF5 file of grids, in a run that may be killed and started again?

The file is made whole at once, under another name, with room for every picture: `features` [pictures, channels, rows,
columns], a chunk per picture; `names`, sorted; `sha256` of the pictures; `done`. From then on only numbers are written
into room that is there, and a row is marked as done after it was written. So a kill at any moment leaves a file that can be
read, and at worst a batch that is made again. What made the grids stands in the file's attributes; other settings, or
other pictures, are refused rather than mixed in.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lit_attn.errors import UserError
from lit_attn.extract.outcome import Outcome, Result, Setting, named_once, read_content, refuse_others
from lit_attn.extract.pictures import Source, open_picture
from lit_attn.files import written_whole

Shape = tuple[int, int, int]
"""Channels, rows, columns."""
Describe = Callable[[Sequence[Image.Image]], NDArray[np.float32]]


def claim(path: Path, sources: Sequence[Source], shape: Shape, settings: Mapping[str, Setting], half: bool) -> None:
    """Makes the file, or checks that it is one of these pictures and settings.

    Args:
        path: The file.
        sources: The pictures; of several with one name the first counts.
        shape: Of one grid.
        settings: Whatever decides what the grids are.
        half: Whether to store float16 instead of float32.
    """
    names = [source.name for source in named_once(sources)[0]]
    settings = {**settings, "half": half}
    if path.exists():
        with _opened(path, "r") as file:
            _check(path, file, names, settings)
        return
    try:
        with written_whole(path) as unfinished:
            _create(unfinished, names, shape, settings, half)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}. Choose another --out.") from error


def _create(path: Path, names: list[str], shape: Shape, settings: Mapping[str, Setting], half: bool) -> None:
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        # All room at once and never filled with zeros: later writes change numbers only, no tables of the file.
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((1, *shape))
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        kind = h5py.h5t.py_create(np.dtype(np.float16 if half else np.float32))
        space = h5py.h5s.create_simple((len(names), *shape))
        h5py.h5d.create(file.id, b"features", kind, space, properties)
        file.create_dataset("names", data=np.array(names, object), dtype=h5py.string_dtype())
        file.create_dataset("sha256", data=np.zeros(len(names), "S64"))
        file.create_dataset("done", data=np.zeros(len(names), bool))
        for key, value in settings.items():
            file.attrs[key] = value


def _opened(path: Path, mode: str) -> h5py.File:
    try:
        return h5py.File(path, mode)
    except BlockingIOError as error:
        raise UserError(f"{path} is open elsewhere. Is another extraction writing to it?") from error
    except OSError as error:
        raise UserError(f"{path} is no whole HDF5 file: {error}. Choose another --out, or delete it.") from error


def _check(path: Path, file: h5py.File, names: list[str], settings: Mapping[str, Setting]) -> None:
    if not {"features", "names", "sha256", "done"} <= set(file):
        raise UserError(f"{path} was not made by lit-attn extract grid. Choose another --out.")
    before = {key: value.item() if hasattr(value, "item") else value for key, value in file.attrs.items()}
    refuse_others(path, "grids", before, settings)
    listed = list(file["names"].asstr()[:])
    if listed != names:
        new, gone = sorted(set(names) - set(listed)), sorted(set(listed) - set(names))
        told = [
            f"{what} {some[0]!r}" for what, some in (("it has no row for", new), ("nobody asked for its", gone)) if some
        ]
        raise UserError(
            f"{path} has rows for {len(listed)} pictures, other ones than these {len(names)}: {', and '.join(told)}. "
            "Choose another --out."
        )


def extract(sources: Sequence[Source], describe: Describe, path: Path, batch_size: int) -> Iterator[Outcome]:
    """Fills the rows of the file that are not done; says of each picture what became of it.

    Args:
        sources: The pictures.
        describe: A `Backbone`, or anything else from pictures to their grids.
        path: The file; `claim` it first.
        batch_size: Pictures that go through the network together. The same ones each time, so that a run that was
            stopped ends with the same numbers, to the bit.
    """
    pictures, left_out = named_once(sources)
    yield from left_out
    with _opened(path, "r+") as file:
        for first in range(0, len(pictures), batch_size):
            yield from _extract_batch(file, first, pictures[first : first + batch_size], describe)


def _extract_batch(file: h5py.File, first: int, sources: Sequence[Source], describe: Describe) -> list[Outcome]:
    outcomes: list[Outcome] = []
    made: dict[int, tuple[str, Image.Image]] = {}
    for row, source in enumerate(sources, first):
        try:
            content = read_content(source.path)
            checksum = hashlib.sha256(content).hexdigest()
            if file["done"][row]:
                if file["sha256"][row].decode() != checksum:
                    raise UserError("its row was made from another picture, choose another --out")
                outcomes.append(Outcome(source, Result.KEPT))
                continue
            made[row] = checksum, open_picture(content)
        except UserError as error:
            outcomes.append(Outcome(source, Result.SKIPPED, str(error)))
    if made:
        grids = describe([picture for _, picture in made.values()])
        for (row, (checksum, _)), grid in zip(made.items(), grids, strict=True):
            file["features"][row] = grid
            file["sha256"][row] = checksum.encode()
        file.flush()
        file["done"][list(made)] = True
        file.flush()
        outcomes += [Outcome(sources[row - first], Result.MADE) for row in made]
    return outcomes
