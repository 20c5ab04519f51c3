"""Which detections do the noun phrases of annotated texts name? Linked once, and kept beside the data.

A detection is an object of its own here: a phrase's objects are the numbers of its detections. Links are found again by what
they rest on: the words of the phrases, and the descriptions of the detections. So a change of texts, labels, thresholds or
rules links anew what it concerns, and nothing else.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from lit_attn.data.kept_lines import beside, read_lines, write_lines
from lit_attn.data.linking.linker import Linker, PhraseWords, phrase_words
from lit_attn.ops.linking import linked
from lit_attn.progress import shown
from lit_attn.types import Annotation

log = logging.getLogger(__name__)

FORMAT = 1
"""Counts changes of the file, and of the linkers."""

AT_ONCE = 200
"""Texts that a linker reads ahead."""

Regions = tuple[int, ...]
Asked = tuple[Sequence[PhraseWords], Sequence[str]]
Name = TypeVar("Name")
"""What texts are known by."""


def link(
    annotations: Mapping[str, Annotation], descriptions: Mapping[str, Sequence[str]], linker: Linker, data: Path
) -> dict[str, Annotation]:
    """Annotations by sample id, with the detections that every noun phrase is linked to.

    Args:
        descriptions: By sample id what each detection of the text's picture shows.
        data: The file or folder that the texts come from: links are kept beside it.
    """
    path = beside(data, f"links.{linker.identity.split()[0]}")
    maker: dict[str, str | int] = {"format": FORMAT, "linker": linker.identity}
    lines = read_lines(path, maker, "links")
    known = {line["key"]: line["links"] for line in lines if isinstance(line, dict) and {"key", "links"} == line.keys()}
    asked = _asked(annotations, descriptions)
    keys = {name: _key(*item) for name, item in asked.items()}
    missing = {keys[name]: item for name, item in asked.items() if keys[name] not in known}
    if missing:
        log.info("%s links %d texts, once, into %s.", linker.identity.split()[0], len(missing), path)
        try:
            for key, item in shown(_read_ahead(missing, linker), len(missing), "texts linked"):
                known[key] = link_phrases(*item, linker)
        finally:
            write_lines(path, maker, ({"key": key, "links": links} for key, links in known.items()))
    return {name: _with_links(text, known[keys[name]]) for name, text in annotations.items()}


def link_once(
    annotations: Mapping[Name, Annotation], descriptions: Mapping[Name, Sequence[str]], linker: Linker
) -> dict[Name, Annotation]:
    """The same for texts that do not come again, such as those that a model wrote: nothing is kept."""
    found = _read_ahead(_asked(annotations, descriptions), linker)
    return {name: _with_links(annotations[name], link_phrases(*item, linker)) for name, item in found}


def _asked(annotations: Mapping[Name, Annotation], descriptions: Mapping[Name, Sequence[str]]) -> dict[Name, Asked]:
    return {
        name: ([phrase_words(text, phrase) for phrase in text.phrases], descriptions[name])
        for name, text in annotations.items()
    }


def _read_ahead(asked: Mapping[Name, Asked], linker: Linker) -> Iterator[tuple[Name, Asked]]:
    """The same texts, some of them shown to the linker together."""
    items = iter(asked.items())
    while some := list(islice(items, AT_ONCE)):
        linker.read_ahead(
            (p for _, (phrases, _) in some for p in phrases), {d for _, (_, texts) in some for d in texts}
        )
        yield from some


def link_phrases(phrases: Sequence[PhraseWords], descriptions: Sequence[str], linker: Linker) -> list[Regions]:
    """For every phrase the detections with the best score."""
    if not phrases:
        return []
    return [tuple(np.flatnonzero(row).tolist()) for row in linked(linker.scores(phrases, descriptions))]


def _with_links(text: Annotation, links: Sequence[Sequence[int]]) -> Annotation:
    pairs = zip(text.phrases, links, strict=True)
    return replace(text, phrases=tuple(replace(phrase, objects=tuple(regions)) for phrase, regions in pairs))


def _key(phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> str:
    said = json.dumps([phrases, list(descriptions)], ensure_ascii=True).encode()
    return hashlib.blake2b(said, digest_size=16).hexdigest()
