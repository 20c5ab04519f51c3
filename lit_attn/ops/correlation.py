"""Do two lists of numbers go together? Pearson's and Spearman's correlation, each with n, the usual p and a permutation's p.

The usual p is two-sided and assumes a normal distribution; with few points or odd ones it is not to be trusted. The other one
shuffles the second list: the share of shuffles, the list itself among them, whose correlation is at least as far from 0.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import special, stats

SHUFFLES = 9999
_TOLERANCE = 1e-12
"""Shuffles that only differ in rounding are as far from 0 as the list itself."""

_KEPT = 2**21
"""Numbers in a table of orders that is kept; a larger one is drawn anew."""

Listed = Sequence[float | int] | np.ndarray
Numbers = Float[np.ndarray, " n"]


class Correlation(NamedTuple):
    """NaN where it is not defined: fewer than three points, or a list whose numbers are all equal."""

    n: int
    r: float
    p: float
    permutation_p: float


def pearson(x: Listed, y: Listed, shuffles: int = SHUFFLES, seed: int = 0) -> Correlation:
    """Linear correlation. Pairs with a NaN are left out."""
    return _correlate(*_known(x, y), shuffles, seed)


def spearman(x: Listed, y: Listed, shuffles: int = SHUFFLES, seed: int = 0) -> Correlation:
    """Correlation of ranks; ties share their mean rank. Pairs with a NaN are left out."""
    first, second = _known(x, y)
    return _correlate(stats.rankdata(first), stats.rankdata(second), shuffles, seed)


def _known(x: Listed, y: Listed) -> tuple[Numbers, Numbers]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"Correlation needs lists of equal length, got {len(first)} and {len(second)}.")
    known = np.isfinite(first) & np.isfinite(second)
    return first[known], second[known]


def _correlate(x: Numbers, y: Numbers, shuffles: int, seed: int) -> Correlation:
    n = len(x)
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(n, np.nan, np.nan, np.nan)
    a, b = _centred(x), _centred(y)
    r = float(np.clip(a @ b, -1.0, 1.0))
    p = float(2 * special.betainc(n / 2 - 1, n / 2 - 1, 0.5 * (1 - abs(r))))
    orders = _orders(n, shuffles, seed) if n * shuffles <= _KEPT else _drawn(n, shuffles, seed)
    shuffled = np.einsum("sn,n->s", b[orders], a)  # not by BLAS: its threads wait busily, longer than this takes
    extreme = int((np.abs(shuffled) >= abs(r) - _TOLERANCE).sum())
    return Correlation(n, r, p, (1 + extreme) / (1 + shuffles))


def _drawn(n: int, shuffles: int, seed: int) -> Int[np.ndarray, "s n"]:
    """Random orders of n points."""
    return np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(n), (shuffles, n)), axis=1)


_orders = lru_cache(maxsize=4)(_drawn)
"""The same, kept: the sites of a network ask with the same n, at every validation."""


def _centred(numbers: Numbers) -> Numbers:
    centred = numbers - numbers.mean()
    return centred / np.linalg.norm(centred)
