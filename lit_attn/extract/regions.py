"""How do many pictures become files of regions, one each, in a run that may be killed and started again?

Beside the files the folder holds `regions.yaml`, which says with what they were made, so that a run with other settings is
refused rather than mixed in, and `pictures.jsonl`: the name, sha256 and path of each picture, by which a later run knows
that a file is done, and of which picture.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml
from PIL import Image

from lit_attn.data.regions import Regions, write_npz
from lit_attn.errors import UserError
from lit_attn.extract.pictures import Source, open_picture
from lit_attn.files import write_text

SETTINGS = "regions.yaml"
RECORD = "pictures.jsonl"

Setting = str | int | float | bool


class Result(StrEnum):
    """What became of a picture."""

    MADE = "made"
    KEPT = "kept"
    """Its file was there already."""
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """What became of one picture, and why if nothing did."""

    source: Source
    result: Result
    reason: str = ""


def claim(folder: Path, settings: Mapping[str, Setting]) -> None:
    """Writes the settings into the folder. Raises if it holds regions that were made otherwise."""
    note = folder / SETTINGS
    if not note.exists():
        if next(folder.rglob("[!.]*.npz"), None) is not None:
            raise UserError(
                f"{folder} holds npz files, but no {SETTINGS} that says what made them. Choose another --out."
            )
        try:
            write_text(note, yaml.safe_dump(dict(settings), sort_keys=False))
        except OSError as error:
            raise UserError(f"Cannot write to {folder}: {error.strerror}. Choose another --out.") from error
        return
    try:
        before = yaml.safe_load(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"Cannot read {note}: {error}. Choose another --out.") from error
    if not isinstance(before, dict):
        raise UserError(f"{note} does not say what made the regions beside it. Choose another --out.")
    keys = dict.fromkeys([*before, *settings])
    changed = [f"{k} was {before.get(k)}, is {settings.get(k)}" for k in keys if before.get(k) != settings.get(k)]
    if changed:
        raise UserError(
            f"{folder} holds regions that were made otherwise: {'; '.join(changed)}. "
            "Choose another --out, or delete that folder."
        )


def extract(
    sources: Sequence[Source],
    detect: Callable[[Image.Image, str], Regions],
    folder: Path,
    half: bool = False,
    overwrite: bool = False,
) -> Iterator[Outcome]:
    """Writes `<folder>/<name>.npz` for each picture; says after each what became of it.

    Args:
        sources: The pictures.
        detect: A `Detector`, or anything else from a picture and its name to its regions.
        folder: Where to write; `claim` it first.
        half: Whether to write features as float16.
        overwrite: Whether to make those again that are there.
    """
    made = _read_record(folder / RECORD)
    owners: dict[str, Path] = {}
    for source in sources:
        target = folder / f"{source.name}.npz"
        if source.name in owners:
            yield Outcome(source, Result.SKIPPED, f"{owners[source.name].name} has the same name, rename one of them")
            continue
        owners[source.name] = source.path
        try:
            content = _read(source.path)
            checksum = hashlib.sha256(content).hexdigest()
            if target.exists() and not overwrite and source.name in made:
                if made[source.name] != checksum:
                    raise UserError(f"{target} was made from another picture, choose another --out or --overwrite")
                yield Outcome(source, Result.KEPT)
                continue
            regions = detect(open_picture(content), source.name)
        except UserError as error:
            yield Outcome(source, Result.SKIPPED, str(error))
            continue
        _add_to_record(folder / RECORD, source, checksum)
        write_npz(regions, target, half)
        yield Outcome(source, Result.MADE)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"it cannot be opened: {error.strerror}") from error


def _add_to_record(file: Path, source: Source, checksum: str) -> None:
    """One line in one write, before the regions: a kill in between leaves a line without a file, which means nothing."""
    line = json.dumps({"name": source.name, "sha256": checksum, "path": str(source.path)})
    opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(opened, f"{line}\n".encode())
    finally:
        os.close(opened)


def _read_record(file: Path) -> dict[str, str]:
    """Name to sha256; of several lines on one name the last counts, and a line cut off by a kill does not."""
    made = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            entry = json.loads(line)
            made[entry["name"]] = entry["sha256"]
        except (ValueError, TypeError, KeyError):
            continue
    return made
