"""What did probes make of a batch? Kept for the records and probes that follow, and forgotten with the batch."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast
from weakref import ref

Made = TypeVar("Made")

_LAST: list[tuple[ref[object], dict[Hashable, object]]] = []


def once(batch: object, key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` gives for this batch: called once, as long as no other batch comes between."""
    if not (_LAST and _LAST[0][0]() is batch):
        _LAST[:] = [(ref(batch), {})]
    kept = _LAST[0][1]
    if key not in kept:
        kept[key] = make()
    return cast(Made, kept[key])
