"""What did probes make of a batch, or of a text? Kept for those that ask again, and forgotten with it.

The records of a batch ask for the same of it one after the other; the texts of a validation set come back in every validation.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast
from weakref import ref

from lit_attn.types import Annotation

Made = TypeVar("Made")

MOST = 8192
"""Texts that something is kept of: memory does not grow with the set. Of further ones it is made anew."""

_LAST: list[tuple[ref[object], dict[Hashable, object]]] = []
_TEXTS: dict[int, tuple[ref[Annotation], dict[Hashable, object]]] = {}


def once(batch: object, key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` gives for this batch: called once, as long as no other batch comes between."""
    if not (_LAST and _LAST[0][0]() is batch):
        _LAST[:] = [(ref(batch), {})]
    kept = _LAST[0][1]
    if key not in kept:
        kept[key] = make()
    return cast(Made, kept[key])


def store_of(text: Annotation) -> dict[Hashable, object]:
    """What was made of this very annotation, as long as it lives. Equal ones are others."""
    number = id(text)
    known = _TEXTS.get(number)
    if known is None or known[0]() is not text:
        if len(_TEXTS) >= MOST:
            return {}
        known = _TEXTS[number] = ref(text, lambda _: _TEXTS.pop(number, None)), {}
    return known[1]


def once_of_text(text: Annotation, key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` gives for this very annotation: called once, as long as it lives."""
    store = store_of(text)
    if key not in store:
        store[key] = make()
    return cast(Made, store[key])
