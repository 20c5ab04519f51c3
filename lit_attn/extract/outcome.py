"""What became of each picture, and how does a later run know? Shared by everything that goes through many pictures."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from lit_attn.errors import UserError
from lit_attn.extract.pictures import Source
from lit_attn.files import write_text

Setting = str | int | float | bool


class Result(StrEnum):
    """What became of a picture."""

    MADE = "made"
    KEPT = "kept"
    """Its result was there already."""
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """What became of one picture, and why if nothing did."""

    source: Source
    result: Result
    reason: str = ""


def named_once(sources: Sequence[Source]) -> tuple[list[Source], list[Outcome]]:
    """The pictures by name, and those that are left out because an earlier one has the same name."""
    first: dict[str, Source] = {}
    left_out = []
    for source in sources:
        owner = first.setdefault(source.name, source)
        if owner is not source:
            reason = f"{owner.path.name} has the same name, rename one of them"
            left_out.append(Outcome(source, Result.SKIPPED, reason))
    return [first[name] for name in sorted(first)], left_out


def read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"it cannot be opened: {error.strerror}") from error


def append_line(file: Path, line: str) -> None:
    """In one write: a kill leaves the whole line, or none, or the beginning of one."""
    opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(opened, f"{line}\n".encode())
    finally:
        os.close(opened)


def claim_folder(folder: Path, settings: Mapping[str, Setting], note: str, what: str, results: str) -> None:
    """Writes the settings into a folder. Raises if it holds results that were made otherwise.

    Args:
        folder: Made if it is not there.
        settings: Whatever decides what the results are.
        note: Name of the file of settings.
        what: What the results are called, in the plural.
        results: Pattern of the files of results.
    """
    path = folder / note
    if not path.exists():
        if next(folder.rglob(results), None) is not None:
            raise UserError(
                f"{folder} holds {results.rpartition('.')[2]} files, but no {note} that says what made them. "
                "Choose another --out."
            )
        try:
            write_text(path, yaml.safe_dump(dict(settings), sort_keys=False))
        except OSError as error:
            raise UserError(f"Cannot write to {folder}: {error.strerror}. Choose another --out.") from error
        return
    try:
        before = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"Cannot read {path}: {error}. Choose another --out.") from error
    if not isinstance(before, dict):
        raise UserError(f"{path} does not say what made the {what} beside it. Choose another --out.")
    refuse_others(folder, what, before, settings)


def refuse_others(place: Path, what: str, before: Mapping[str, Setting], settings: Mapping[str, Setting]) -> None:
    """Raises if the settings are not those from before."""
    keys = dict.fromkeys([*before, *settings])
    changed = [f"{k} was {before.get(k)}, is {settings.get(k)}" for k in keys if before.get(k) != settings.get(k)]
    if changed:
        raise UserError(
            f"{place} holds {what} that were made otherwise: {'; '.join(changed)}. "
            f"Choose another --out, or delete that {'folder' if place.is_dir() else 'file'}."
        )
