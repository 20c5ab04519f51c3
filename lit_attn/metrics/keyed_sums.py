"""How is something added up by word? Sums by key, which all processes exchange; as many as there are different keys.

A key is a word, or what occurs together of two or three, such as a noun and the label of a region: there may be many of these.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, Shaped
from torchmetrics import Metric

from lit_attn.metrics.gather import gathered

BITS = 21
"""Of a word's number: three words make one key of 63 bits."""
WAITING = 2**16
"""Rows that may wait until they are added up; more of them, as many as there are sums, if these are many."""


class Numbered(NamedTuple):
    """Words, the numbers of those that make up each key, and the sums by key.

    Words are an array, because torchmetrics looks at every element of a list that a metric computes.
    """

    names: Shaped[np.ndarray, " n"]
    places: Int[np.ndarray, "x p"]
    sums: Float[np.ndarray, "x s"]

    @property
    def keys(self) -> np.ndarray:
        """The words of each key."""
        return self.names[self.places]


@final
class KeyedSums(Metric):
    """Rows of numbers, added up by key: one to three words."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._parts = 1
        self._rows: list[tuple[Int[np.ndarray, " x"], Float[np.ndarray, "x s"]]] = []

    def update(
        self, names: Sequence[Sequence[str]], index: Int[np.ndarray, "x p"], values: Float[np.ndarray, "x s"]
    ) -> None:
        """Key p of a row is `names[p][index[row, p]]`."""
        if not len(values):
            return
        known, self._parts = self._numbers, len(names)
        numbers = [np.array([known.setdefault(name, len(known)) for name in own], np.int64) for own in names]
        assert self._parts <= 3
        assert len(known) < 2**BITS
        self._rows.append((_coded(numbers, index), values))
        if sum(len(codes) for codes, _ in self._rows[1:]) > max(WAITING, len(self._rows[0][0])):
            self._rows = [_added(self._rows)]

    def compute(self) -> Numbered:
        """The sums of all processes; all must ask. Sorted by key, so that nothing depends on who saw what first."""
        words = np.array(list(self._numbers), object)
        own = [Numbered(words, _decoded(codes, self._parts), values) for codes, values in self._rows]
        return added_up(gathered(own), self._parts)

    def reset(self) -> None:
        super().reset()
        self._forget()


def added_up(shares: Sequence[Numbered], parts: int) -> Numbered:
    """Several sums by key as one."""
    if not shares:
        return Numbered(np.empty(0, object), np.empty((0, parts), np.int64), np.empty((0, 0)))
    names = sorted({name for share in shares for name in share.names})
    place = {name: i for i, name in enumerate(names)}
    rows = []
    for words, index, sums in shares:
        numbers = [np.array([place[word] for word in words], np.int64)] * index.shape[1]
        rows.append((_coded(numbers, index), sums))
    codes, sums = _added(rows)
    return Numbered(np.array(names, object), _decoded(codes, shares[0].places.shape[1]), sums)


def _coded(numbers: Sequence[np.ndarray], index: Int[np.ndarray, "x p"]) -> Int[np.ndarray, " x"]:
    codes = np.zeros(len(index), np.int64)
    for own, place in zip(numbers, index.T, strict=True):
        codes = codes << BITS | own[place]
    return codes


def _decoded(codes: Int[np.ndarray, " x"], parts: int) -> Int[np.ndarray, "x p"]:
    shifts = BITS * np.arange(parts - 1, -1, -1)
    return (codes[:, None] >> shifts) & (2**BITS - 1)


def _added(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[Int[np.ndarray, " x"], Float[np.ndarray, "x s"]]:
    """One row per key."""
    codes, place = np.unique(np.concatenate([own for own, _ in rows]), return_inverse=True)
    values = np.concatenate([own for _, own in rows])
    return codes, np.stack([np.bincount(place, column, len(codes)) for column in values.T], 1)
