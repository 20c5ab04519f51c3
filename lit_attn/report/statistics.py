"""Which differences are more than noise? Tests for a few seeds, without torch.

Let d_1 … d_n be the differences of two alignments, seed by seed.

- Paired permutation test: under the hypothesis that nothing differs, each d_i might as well have the other sign. p is the
  share of all 2^n sign patterns whose mean is at least as far from zero as the one seen; for many seeds, of random
  patterns. It assumes nothing, but p is never below 2 / 2^n: 0.25 with three seeds.
- Paired bootstrap: percentiles of the mean of n differences drawn with replacement. With few seeds it is too narrow.
- Pooled noise: groups of runs that are the same model give s² = Σ_g Σ_i (x_gi - mean_g)² / Σ_g (n_g - 1). Two models
  are then compared by t = (mean_a - mean_b) / (s √(1/n_a + 1/n_b)) with Σ_g (n_g - 1) degrees of freedom. It assumes
  that all models are equally noisy and that noise is roughly normal.
- Effect size: Hedges' g, (mean_a - mean_b) / s with its correction for few runs, Γ(f/2) / (√(f/2) Γ((f-1)/2)).
- Holm: the k-th smallest of m p-values times m - k + 1, never below one before it: holds the chance of any false
  finding among the m below the level.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MOST_PATTERNS = 2**16
RESAMPLES = 10_000
_CLOSE = 1e-12
"""Means closer than this, relative to the largest difference, count as equal: rounding must not decide."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one run of any model, and how much it rests on. `std` is nan without any repeated run."""

    std: float
    freedom: int
    runs: int
    models: int


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of n points; p by all orders of them up to eight points, else by the t distribution."""

    r: float
    p: float
    n: int


def permutation_test(first: Sequence[float], second: Sequence[float], seed: int = 0) -> float:
    """Two-sided p of the paired permutation test; 1 for no pair at all."""
    differences = _differences(first, second)
    n = len(differences)
    if n == 0:
        return 1.0
    if 2**n <= MOST_PATTERNS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        drawn = np.random.default_rng(seed).choice((1.0, -1.0), size=(MOST_PATTERNS - 1, n))
        signs = np.vstack([np.ones(n), drawn])
    sums = np.abs(signs @ differences)
    return float(np.mean(sums >= abs(differences.sum()) - _CLOSE * max(1e-300, np.abs(differences).max()) * n))


def smallest_p(seeds: int) -> float:
    """What the paired permutation test can reach at best."""
    return min(1.0, 2.0 / 2**seeds)


def bootstrap_interval(
    first: Sequence[float], second: Sequence[float], level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean difference; over all samples where they are few, else over random ones."""
    differences = _differences(first, second)
    n = len(differences)
    if n == 0:
        return math.nan, math.nan
    if n**n <= MOST_PATTERNS:
        places = np.array(list(itertools.product(range(n), repeat=n)))
    else:
        places = np.random.default_rng(seed).integers(0, n, size=(RESAMPLES, n))
    means = differences[places].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _differences(first: Sequence[float], second: Sequence[float]) -> Floats:
    if len(first) != len(second):
        raise ValueError(f"Paired tests need equally many values, got {len(first)} and {len(second)}.")
    return np.asarray(first, np.float64) - np.asarray(second, np.float64)


def pooled_noise(groups: Sequence[Sequence[float]]) -> Noise:
    """The noise of one run, from groups of runs of the same model."""
    squares = sum(float(np.sum((np.asarray(group) - np.mean(group)) ** 2)) for group in groups if len(group))
    freedom = sum(len(group) - 1 for group in groups if len(group))
    std = math.sqrt(squares / freedom) if freedom else math.nan
    return Noise(std, freedom, sum(map(len, groups)), sum(1 for group in groups if len(group)))


def pooled_test(first: Sequence[float], second: Sequence[float], noise: Noise) -> float:
    """Two-sided p of the difference of two models' means; nan where the noise is not known."""
    if not first or not second or not noise.freedom:
        return math.nan
    gap = abs(float(np.mean(first)) - float(np.mean(second)))
    if noise.std == 0:
        return 1.0 if gap == 0 else 0.0
    t = gap / (noise.std * math.sqrt(1 / len(first) + 1 / len(second)))
    return float(2 * stats.t.sf(t, noise.freedom))


def hedges_g(first: Sequence[float], second: Sequence[float], noise: Noise) -> float:
    """How many standard deviations of noise lie between the means; nan where it is not known."""
    if noise.freedom < 2 or not noise.std > 0:
        return math.nan
    half = noise.freedom / 2
    correction = math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)
    return correction * (float(np.mean(first)) - float(np.mean(second))) / noise.std


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number; nan stays nan and is not counted."""
    known = sorted((p, i) for i, p in enumerate(values) if not math.isnan(p))
    corrected, highest = [math.nan] * len(values), 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        corrected[i] = highest
    return corrected


def correlation(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Pearson's r; nan for fewer than three points or without any spread."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if math.isfinite(a) and math.isfinite(b)]
    n = len(pairs)
    x, y = (np.array([pair[i] for pair in pairs], np.float64) for i in (0, 1))
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan, n)
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    r = float(x @ y) / scale
    if n <= 8:
        orders = np.array(list(itertools.permutations(range(n))))
        p = float(np.mean(np.abs(y[orders] @ x) >= abs(float(x @ y)) - _CLOSE * scale))
    else:
        p = float(stats.pearsonr(x, y).pvalue)
    return Correlation(max(-1.0, min(1.0, r)), p, n)
