"""How do many pictures become files of regions, one each, in a run that may be killed and started again?

Beside the files the folder holds `regions.yaml`, which says with what they were made, so that a run with other settings is
refused rather than mixed in, and `pictures.jsonl`: the name, sha256 and path of each picture, by which a later run knows
that a file is done, and of which picture.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

from lit_attn.data.regions import Regions, write_npz
from lit_attn.errors import UserError
from lit_attn.extract.outcome import Outcome, Result, Setting, append_line, claim_folder, named_once, read_content
from lit_attn.extract.pictures import Source, open_picture

SETTINGS = "regions.yaml"
RECORD = "pictures.jsonl"


def claim(folder: Path, settings: Mapping[str, Setting]) -> None:
    """Writes the settings into the folder. Raises if it holds regions that were made otherwise."""
    claim_folder(folder, settings, SETTINGS, "regions", "[!.]*.npz")


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
    pictures, left_out = named_once(sources)
    yield from left_out
    for source in pictures:
        target = folder / f"{source.name}.npz"
        try:
            content = read_content(source.path)
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


def _add_to_record(file: Path, source: Source, checksum: str) -> None:
    """Before the regions: a kill in between leaves a line without a file, which means nothing."""
    append_line(file, json.dumps({"name": source.name, "sha256": checksum, "path": str(source.path)}))


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
