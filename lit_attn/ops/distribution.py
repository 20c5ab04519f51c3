"""What is the shape of an attention row? Statistics of one distribution over keys; never reduced over the batch.

Logarithms are natural; entropies are divided by the log of the number of allowed keys, so they lie in [0, 1] whatever
the base. Rows that say nothing (no key, or a single key where a choice is asked for) come back as NaN and are left out
by the metrics that average rows.
"""

import math
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Weights = Float[Tensor, "*batch q k"]
Rows = Float[Tensor, "*batch q"]
Allowed = Bool[Tensor, "*#batch #q k"]

LANES = 32
"""Keys that torch's maximum compares at once on a CPU."""


def entropy(weights: Weights) -> Rows:
    """Shannon entropy in nats, with 0 log 0 = 0. Faster on a CPU than `torch.special.entr`."""
    return _information(weights, weights.clamp_min(torch.finfo(weights.dtype).tiny))


def _information(weights: Weights, positive: Weights) -> Rows:
    """-Σ w log p. On a CPU by numpy's logarithms, which take a third of the time of torch's."""
    if positive.device.type != "cpu" or positive.requires_grad or positive.dtype not in (torch.float32, torch.float64):
        logs = positive.log()
    else:
        logs = torch.from_numpy(np.log(positive.numpy()))
    return logs.mul_(weights).sum(-1).neg_()


def normalized_entropy(weights: Weights, allowed: Allowed) -> Rows:
    """Entropy over log(number of allowed keys): 0 is one key, 1 is uniform. NaN with fewer than two allowed keys."""
    return normalized(entropy(weights), allowed.sum(-1))


def normalized(nats: Rows, keys: Int[Tensor, "*#batch #q"]) -> Rows:
    """The same, of rows with this entropy that may attend to so many keys."""
    return torch.where(keys > 1, nats / keys.to(nats.dtype).log(), torch.nan)


def effective_keys(nats: Rows) -> Rows:
    """How many keys a uniform row with this entropy would have."""
    return nats.exp()


def largest_weight(weights: Weights) -> Rows:
    """The weight of the strongest key, in [0, 1]. NaN for an empty row."""
    largest = _largest(weights)
    return torch.where(largest > 0, largest, torch.nan)


def _largest(weights: Weights) -> Rows:
    """On a CPU, torch compares the keys that are left one by one, so that none are left: up to five times as fast."""
    left = weights.shape[-1] % LANES
    if weights.device.type == "cpu" and left > LANES // 4:
        weights = torch.nn.functional.pad(weights, (0, LANES - left))  # with zeros, as weights are never negative
    return weights.amax(-1)


def mass(weights: Weights, chosen: Bool[Tensor, "*#batch #q k"]) -> Rows:
    """Weight on a set of keys, in [0, 1]."""
    return (weights * chosen.to(weights.dtype)).sum(-1)  # much faster than a choice by a mask


def points_at(weights: Weights, chosen: Bool[Tensor, "*#batch #q k"]) -> Rows:
    """The chance that a key drawn from the strongest ones is chosen: 1 or 0, a fraction only for exact ties."""
    strongest = (weights == _largest(weights).unsqueeze(-1)).to(weights.dtype)
    return mass(strongest, chosen) / strongest.sum(-1)


def head_divergence(
    weights: Float[Tensor, "*batch h q k"], own_entropy: Float[Tensor, "*batch h q"] | None = None
) -> Float[Tensor, "*batch h q"]:
    """Mean Jensen-Shannon divergence of a head's row from the same row of every other head, over log 2: in [0, 1].

    0 when all heads agree, 1 when their weights do not overlap. NaN with a single head.
    """
    heads = weights.shape[-3]
    if heads == 1:
        return weights.sum(-1) * torch.nan
    own = (entropy(weights) if own_entropy is None else own_entropy).unbind(-2)
    rows = (weights / 2).clamp_min_(torch.finfo(weights.dtype).tiny).unbind(-3)
    found = [torch.zeros_like(row) for row in own]
    for a, b in combinations(range(heads), 2):  # one pair at a time stays in the processor's cache: three times as fast
        both = rows[a] + rows[b]
        js = _information(both, both).sub((own[a] + own[b]) / 2).clamp_min(0)
        found[a], found[b] = found[a] + js, found[b] + js
    return torch.stack(found, -2) / ((heads - 1) * math.log(2))


def rank_of(weights: Weights, chosen: Bool[Tensor, "*#batch #q k"], allowed: Allowed) -> Rows:
    """Place of the best chosen key among the allowed ones by weight, from 1; expected place under exact ties.

    NaN for a row without a chosen key that is allowed. A row that knows nothing, with all weights equal, has the place
    of `chance_rank`.
    """
    chosen = (chosen & allowed).expand(weights.shape)
    others = allowed & ~chosen
    best = weights.masked_fill(~chosen, -torch.inf).amax(-1, keepdim=True)
    ahead = (others & (weights > best)).sum(-1).to(weights.dtype)
    tied = (others & (weights == best)).sum(-1).to(weights.dtype) / ((chosen & (weights == best)).sum(-1) + 1)
    return torch.where(chosen.any(-1), 1 + ahead + tied, torch.nan)


def chance_rank(chosen: Bool[Tensor, "*batch k"], allowed: Bool[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
    """Expected place of the best of m chosen keys among n allowed ones in random order: (n + 1) / (m + 1)."""
    right = (chosen & allowed).sum(-1).double()
    return torch.where(right > 0, (allowed.sum(-1) + 1) / (right + 1), torch.nan)
