"""How concentrated is attention, and do heads differ? One torchmetrics class per question.

All take weights `b h q k`, the rows that exist and the keys that were allowed, and give one value per head.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.metrics.head_mean import HeadMean
from lit_attn.ops import distribution

Weights = Float[Tensor, "b h q k"]
QueryMask = Bool[Tensor, "b q"]
KeyMask = Bool[Tensor, "b #q k"]


def existing(values: Float[Tensor, "b h q"], query_mask: QueryMask) -> Float[Tensor, "b h q"]:
    """NaN for rows of padding."""
    return torch.where(query_mask.unsqueeze(1), values, torch.nan)


@final
class NormalizedEntropy(HeadMean):
    """Entropy over the log of the number of allowed keys, in [0, 1]: 0 one key, 1 uniform. Rows with one key are out."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask) -> None:
        allowed = key_mask.unsqueeze(1).expand(weights.shape)
        self.add(existing(distribution.normalized_entropy(weights, allowed), query_mask))


@final
class EffectiveKeys(HeadMean):
    """exp(entropy): the number of keys that share the attention, from 1 to the number of keys."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask) -> None:
        self.add(existing(distribution.effective_keys(weights), query_mask))


@final
class LargestWeight(HeadMean):
    """Weight of the strongest key, in [0, 1]."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask) -> None:
        self.add(existing(distribution.largest_weight(weights), query_mask))


@final
class PaddingMass(HeadMean):
    """Weight on keys that were not allowed. Anything but 0 is a bug in a mask."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask) -> None:
        forbidden = ~key_mask.unsqueeze(1).expand(weights.shape)
        self.add(existing(distribution.mass(weights, forbidden), query_mask))


@final
class HeadDiversity(HeadMean):
    """Mean Jensen-Shannon divergence from the other heads, in [0, 1]: 0 all agree. NaN with a single head."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask) -> None:
        self.add(existing(distribution.head_divergence(weights), query_mask))
