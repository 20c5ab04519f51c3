"""How good are generated pictures, as a set? Inception score, Fréchet distance and R-precision, from arrays alone.

Sources: Salimans et al. 2016 (Inception score), Heusel et al. 2017 (Fréchet Inception distance), Xu et al. 2018
(R-precision). Logarithms are natural; all arithmetic is in float64. Sets are cut into parts as in the published code: part
i of n reaches from i * rows // n to (i + 1) * rows // n. With fewer rows than parts, every row is a part of its own.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.linalg.lapack import dpstrf
from torch import Tensor


class Spread(NamedTuple):
    """A mean, and the standard deviation of the parts that it was measured in (divided by their number, not one less)."""

    mean: float
    std: float


def parts(rows: int, count: int) -> list[slice]:
    """Consecutive parts of almost the same size, none of them empty."""
    count = min(count, rows)
    return [slice(i * rows // count, (i + 1) * rows // count) for i in range(count)]


def inception_score(probabilities: Float[Tensor, "n k"], splits: int = 10) -> Spread:
    """exp of the mean divergence KL(picture || mean of the split), then mean and deviation over the splits.

    From 1 (all pictures look alike to the classifier, or it cannot tell) to k (sure about each, and all classes as
    frequent); higher is better. It grows with the size of the splits. NaN without pictures; a single one scores 1.
    """
    return _spread([_divergence_score(probabilities[part].double()) for part in parts(len(probabilities), splits)])


def _divergence_score(probabilities: Float[Tensor, "n k"]) -> float:
    """KL to the mean, averaged over rows, is the entropy of the mean less the mean of the entropies."""
    marginal = torch.special.entr(probabilities.mean(0)).sum()
    return float((marginal - torch.special.entr(probabilities).sum(-1).mean()).clamp_min(0).exp())


def fold_precision(hits: Bool[Tensor, " n"], folds: int = 10) -> Spread:
    """Share of hits among all rows, in [0, 1], and the deviation of the shares of the folds. NaN without rows."""
    if not len(hits):
        return Spread(float("nan"), float("nan"))
    shares = hits.double()
    return Spread(float(shares.mean()), _spread([float(shares[part].mean()) for part in parts(len(hits), folds)]).std)


def _spread(values: list[float]) -> Spread:
    return Spread(float(np.mean(values)), float(np.std(values))) if values else Spread(float("nan"), float("nan"))


def frechet_distance(
    mean1: Float[Tensor, " f"], cov1: Float[Tensor, "f f"], mean2: Float[Tensor, " f"], cov2: Float[Tensor, "f f"]
) -> float:
    """Squared distance of two normal distributions: |m1 - m2|² + tr(C1 + C2 - 2 (C1 C2)^½). At least 0; lower is better.

    The trace of the root is the sum of the singular values of R1ᵀ R2, with C = R Rᵀ. That holds for singular covariances,
    too: directions without any spread are left out instead of adding the root of a rounding error each. NaN if any number
    is not finite.
    """
    moments = [moment.detach().double().cpu() for moment in (mean1, cov1, mean2, cov2)]
    if not all(bool(moment.isfinite().all()) for moment in moments):
        return float("nan")
    m1, c1, m2, c2 = moments
    overlap = torch.linalg.svdvals(_root(c1).mT @ _root(c2)).sum()
    return max(0.0, float((m1 - m2).square().sum() + c1.trace() + c2.trace() - 2 * overlap))


def _root(covariance: Float[Tensor, "f f"]) -> Float[Tensor, "f r"]:
    """R with R Rᵀ = covariance, with as many columns as its rank: Cholesky's, the largest spread first."""
    factor, order, rank, _ = dpstrf(covariance.numpy(), lower=1)
    root = np.empty((len(factor), rank))
    root[order - 1] = np.tril(factor)[:, :rank]
    return torch.from_numpy(root)


def covariance(
    total: Float[Tensor, " f"], products: Float[Tensor, "f f"], count: int
) -> tuple[Float[Tensor, " f"], Float[Tensor, "f f"]]:
    """Mean and covariance (divided by n - 1) from sums of vectors and of their outer products; one vector has no spread."""
    mean = total / count
    spread = products - count * torch.outer(mean, mean)
    return mean, spread / (count - 1) if count > 1 else torch.zeros_like(spread)


def drawn(
    allowed: Bool[np.ndarray, "b n"], ids: Int[np.ndarray, " b"], count: int, seed: int = 0
) -> Int[np.ndarray, "b m"]:
    """For each row `count` different columns among those allowed, by chance, in rising order.

    The chance depends on (seed, id, column) alone: neither on the other rows nor on the machine.
    """
    fewest = int(allowed.sum(1).min(initial=allowed.shape[1]))
    if fewest < count:
        raise ValueError(f"{count} columns are to be drawn, but a row allows only {fewest}.")
    rows = _scrambled(ids.astype(np.uint64) + _scrambled(np.array([seed]).astype(np.uint64)))
    keys = _scrambled(rows[:, None] + np.arange(allowed.shape[1], dtype=np.uint64)) >> np.uint64(1)
    keys[~allowed] = np.iinfo(np.uint64).max
    if not count:
        return np.zeros((len(allowed), 0), np.int64)
    return np.sort(np.argpartition(keys, count - 1, axis=1)[:, :count], axis=1)


def _scrambled(numbers: np.ndarray) -> np.ndarray:
    """Steele et al. 2014, SplitMix64: neighbouring numbers become unrelated ones."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
