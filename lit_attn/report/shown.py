"""What does the explorer show of a sample? Streams of items, and maps from one stream to another, whatever the model.

A stream is a list of things that attend or are attended to: words to read, boxes or cells on the picture, steps of reasoning
or of an answer. A map belongs to a part of the network (`decoder · cross`), to a layer of it where it has layers, and to a
call. Maps of one part, layer and call that have the same queries are shown together: a step of MAC reads words and cells, a
step of M4C splits its attention over four streams.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lit_attn.report.answers import AnswerSample, ReadingSample, StepsSample
from lit_attn.report.arrays import Weights
from lit_attn.report.attributions import ANSWER, Attribution, read_attributions
from lit_attn.report.gallery import Box, Sample, read_maps
from lit_attn.report.heads import grid_row
from lit_attn.report.raw import is_raw, used_site

Kind = Literal["text", "boxes", "cells"]
GalleryItem = Sample | AnswerSample

SO_FAR = "answer so far"


@dataclass(frozen=True)
class Stream:
    """Things in order. Those with boxes lie on the picture, the others are read."""

    name: str
    items: tuple[str, ...]
    kind: Kind = "text"
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True)
class ShownMap:
    """Weights `heads queries keys` at one call of a site."""

    site: str
    part: str
    layer: int | None
    call: int
    query: str
    keys: str
    weights: Weights
    shared: bool = False
    """One row of this map is only a share of a distribution: the other maps of its site hold the rest."""


@dataclass(frozen=True)
class Link:
    """These items of one stream belong to those of another, by the gold annotation."""

    source: str
    items: tuple[int, ...]
    target: str
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Shown:
    """One sample, ready for the page."""

    sample_id: str
    title: str
    picture: Path | None
    facts: dict[str, float | str]
    streams: tuple[Stream, ...]
    links: tuple[Link, ...]
    linked: str
    """How the page calls what gold links lead to."""
    maps: tuple[ShownMap, ...]
    attributions: tuple[Attribution, ...]


def shown(item: GalleryItem) -> Shown:
    """Any sample of a gallery, with its arrays."""
    if isinstance(item, Sample):
        return _caption(item)
    return _steps(item) if isinstance(item, StepsSample) else _reading(item)


def title_of(item: GalleryItem) -> str:
    """What a list of samples calls it."""
    if isinstance(item, Sample):
        return item.title or " ".join(item.words) or item.sample_id
    return " ".join(item.words) or item.sample_id


def _caption(sample: Sample) -> Shown:
    arrays = read_maps(sample)
    maps = []
    for name in sorted(sample.maps, key=lambda name: is_raw(name.site)):
        row = grid_row(used_site(name.site))
        mark = ", raw capture" if is_raw(name.site) else ""
        site, part = used_site(name.site) + mark, (row.block or row.site) + mark
        maps.append(ShownMap(site, part, row.layer, name.call, name.query, name.key_stream, arrays[name.key]))
    streams = [Stream("words", sample.words)]
    if sample.boxes:
        streams.append(Stream("regions", sample.labels, "boxes", sample.boxes))
    links = tuple(Link("words", link.words, "regions", link.regions) for link in sample.gold)
    return Shown(
        sample_id=sample.sample_id,
        title=sample.title,
        picture=sample.picture,
        facts=sample.facts,
        streams=tuple(streams),
        links=links,
        linked="named",
        maps=tuple(maps),
        attributions=_attributions(sample.path, streams),
    )


def _steps(sample: StepsSample) -> Shown:
    asked = sample.load()
    count, rows, columns = asked.read.shape
    cells = Stream(
        "cells",
        tuple(f"row {y + 1}, column {x + 1}" for y in range(rows) for x in range(columns)),
        "cells",
        tuple((x / columns, y / rows, (x + 1) / columns, (y + 1) / rows) for y in range(rows) for x in range(columns)),
    )
    steps = Stream("steps", tuple(f"step {step + 1}" for step in range(count)))
    answer = Stream(ANSWER, (sample.answer,))
    streams = (Stream("words", sample.words), steps, cells)
    read = asked.read.reshape(1, count, -1).astype(np.float32)
    control = asked.control[None].astype(np.float32)
    causes = () if asked.causes is None else tuple(np.flatnonzero(asked.causes.ravel()).tolist())
    facts: dict[str, float | str] = {"answer": sample.answer}
    if sample.truth is not None:
        facts["truth"] = sample.truth
    links = tuple(Link(name, tuple(range(size)), "cells", causes) for name, size in (("steps", count), (ANSWER, 1)))
    found = _attributions(sample.path, (*streams, answer))
    return Shown(
        sample_id=sample.sample_id,
        title=" ".join(sample.words),
        picture=sample.picture,
        facts=facts,
        streams=(*streams, answer) if found else streams,
        links=links if causes else (),
        linked="known to matter",
        maps=(
            ShownMap("read", "reasoning", None, 0, "steps", "cells", read),
            ShownMap("control", "reasoning", None, 0, "steps", "words", control),
        ),
        attributions=found,
    )


def _reading(sample: ReadingSample) -> Shown:
    asked = sample.load()
    layers, _, count, _ = asked.question.shape
    written = (*sample.answer.split(), "<end>")
    writes = tuple(written[step] if step < len(written) else f"step {step + 1}" for step in range(count))
    streams = (
        Stream("question", sample.words),
        Stream(ANSWER, writes),
        Stream(SO_FAR, ("<start>", *writes[:-1])),
        Stream("objects", tuple(f"object {place}" for place in range(len(sample.boxes))), "boxes", sample.boxes),
        Stream("ocr", sample.ocr_words, "boxes", sample.ocr_boxes),
    )
    parts = {"question": asked.question, "objects": asked.objects, "ocr": asked.ocr, SO_FAR: asked.decoded}
    maps = [
        ShownMap(f"joint.{layer}.self", "joint · self", layer, 0, ANSWER, keys, weights[layer], shared=True)
        for layer in range(layers)
        for keys, weights in parts.items()
        if weights.shape[-1]
    ]
    facts: dict[str, float | str] = {"answer": sample.answer}
    if sample.people:
        facts["people say"] = ", ".join(dict.fromkeys(sample.people))
    if sample.score is not None:
        facts["accuracy"] = sample.score
    return Shown(
        sample_id=sample.sample_id,
        title=" ".join(sample.words),
        picture=sample.picture,
        facts=facts,
        streams=tuple(stream for stream in streams if stream.items),
        links=(),
        linked="named",
        maps=tuple(maps),
        attributions=_attributions(sample.path, streams, {"decoded": SO_FAR}),
    )


def _attributions(
    path: Path, streams: Sequence[Stream], renamed: Mapping[str, str] | None = None
) -> tuple[Attribution, ...]:
    return read_attributions(path, {stream.name: len(stream.items) for stream in streams}, renamed or {})
