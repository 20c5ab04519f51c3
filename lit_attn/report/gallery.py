"""Which samples were kept whole, and where did the model look?

Reads `gallery/<sample>.json`, the picture it names and, only when asked, the arrays in `gallery/<sample>.npz`: a
gallery may hold more weights than fit in memory, so callers take one sample's maps at a time. This file reads captions;
the key `form` says which samples are answers, for `answers.py`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lit_attn.report import fields
from lit_attn.report.arrays import Weights, checked_weights, read_arrays
from lit_attn.report.errors import ReportError
from lit_attn.report.text import natural_key

Stream = Literal["words", "regions"]
Box = tuple[float, float, float, float]

FORMS = ("caption", "steps", "reading")
"""What a sample can be; one that does not say is a caption."""

_PNG_START = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class GoldLink:
    """These words name these regions."""

    words: tuple[int, ...]
    regions: tuple[int, ...]


@dataclass(frozen=True)
class MapName:
    """One attention map of a sample: where it was tapped and what its rows and columns are."""

    key: str
    site: str
    call: int
    query: Stream
    key_stream: Stream


@dataclass(frozen=True)
class Sample:
    """One picture with its text. Boxes are relative to the picture, from 0 to 1."""

    path: Path
    sample_id: str
    title: str
    words: tuple[str, ...]
    boxes: tuple[Box, ...]
    labels: tuple[str, ...]
    picture: Path | None
    facts: dict[str, float | str]
    gold: tuple[GoldLink, ...]
    maps: tuple[MapName, ...]

    @property
    def written(self) -> str | None:
        """What the model itself wrote about the picture, if it writes."""
        fact = self.facts.get("written")
        return fact if isinstance(fact, str) else None

    def size(self, stream: Stream) -> int:
        return len(self.words) if stream == "words" else len(self.boxes)


def gallery_files(folder: Path) -> Iterator[tuple[Path, fields.Json]]:
    """The files of all samples in a `gallery` folder with what they hold, in natural order of their names."""
    for path in sorted(folder.glob("*.json"), key=lambda path: natural_key(path.name)):
        source = fields.read_object(path)
        if source.setdefault("form", "caption") not in FORMS:
            raise fields.complain(path, "form", source["form"], f"one of {', '.join(FORMS)}")
        yield path, source


def read_gallery(folder: Path) -> tuple[Sample, ...]:
    """The captions in a `gallery` folder."""
    return tuple(_sample(path, source) for path, source in gallery_files(folder) if source["form"] == "caption")


def read_sample(path: Path) -> Sample:
    """One caption without its arrays."""
    return _sample(path, fields.read_object(path))


def _sample(path: Path, source: fields.Json) -> Sample:
    words, boxes = fields.texts(path, source, "words"), fields.boxes(path, source, "boxes")
    labels = fields.texts(path, source, "labels")
    if len(labels) != len(boxes):
        raise ReportError(f"{path}, key 'labels': {len(labels)} labels for {len(boxes)} boxes; each box needs one.")
    return Sample(
        path=path,
        sample_id=fields.text(path, source, "sample_id"),
        title=fields.optional_text(path, source, "title") or "",
        words=words,
        boxes=boxes,
        labels=labels,
        picture=picture_path(path, fields.optional_text(path, source, "picture")),
        facts=fields.facts(path, source),
        gold=tuple(_gold(path, link, len(words), len(boxes)) for link in fields.objects(path, source, "gold")),
        maps=tuple(_map_name(path, entry) for entry in fields.objects(path, source, "maps")),
    )


def picture_path(path: Path, name: str | None) -> Path | None:
    """The picture that a sample names, which must lie beside it."""
    if name is None:
        return None
    picture = path.with_name(name) if name not in ("", ".", "..") and "/" not in name and "\\" not in name else None
    if picture is None or not picture.is_file():
        raise fields.complain(path, "picture", name, f"the name of a PNG file in {path.parent}, or null")
    return picture


def _gold(path: Path, link: fields.Json, num_words: int, num_regions: int) -> GoldLink:
    words = fields.positions(path, "gold.words", link.get("words"), num_words)
    return GoldLink(words, fields.positions(path, "gold.regions", link.get("regions"), num_regions))


def _map_name(path: Path, entry: fields.Json) -> MapName:
    return MapName(
        key=fields.text(path, entry, "key"),
        site=fields.text(path, entry, "site"),
        call=fields.optional_integer(path, entry, "call") or 0,
        query=_stream(path, "query", entry.get("query")),
        key_stream=_stream(path, "key_stream", entry.get("key_stream")),
    )


def _stream(path: Path, key: str, value: object) -> Stream:
    if value == "words":
        return "words"
    if value == "regions":
        return "regions"
    raise fields.complain(path, f"maps.{key}", value, "'words' or 'regions'")


def read_maps(sample: Sample) -> dict[str, Weights]:
    """The sample's weights by array name, each `heads queries keys`. A value may be nan, never negative."""
    if not sample.maps:
        return {}
    arrays = read_arrays(sample.path, [entry.key for entry in sample.maps])
    checked = {}
    for entry in sample.maps:
        queries, keys = sample.size(entry.query), sample.size(entry.key_stream)
        names = f"heads, {queries} {entry.query}, {keys} {entry.key_stream}"
        checked[entry.key] = checked_weights(sample.path, entry.key, arrays[entry.key], (None, queries, keys), names)
    return checked


def picture_size(path: Path, content: bytes) -> tuple[int, int]:
    """Width and height from the head of a PNG file."""
    if len(content) < 24 or not content.startswith(_PNG_START):
        raise ReportError(f"{path}: not a PNG picture. Save it as PNG, or set 'picture' to null.")
    width, height = struct.unpack(">II", content[16:24])
    if not width or not height:
        raise ReportError(f"{path}: the picture is {width} by {height} pixels.")
    return width, height
