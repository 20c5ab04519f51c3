"""How concentrated is attention, and do heads differ? One torchmetrics class per question.

All take weights `b h q k`, the rows that exist and the keys that were allowed, and give one value per head.
"""

from abc import abstractmethod
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.metrics.head_mean import HeadMean
from lit_attn.ops import distribution

Weights = Float[Tensor, "b h q k"]
QueryMask = Bool[Tensor, "b q"]
KeyMask = Bool[Tensor, "b #q k"]
Allowed = Bool[Tensor, "b 1 #q k"]
Values = Float[Tensor, "b h q"]


class RowMetric(HeadMean):
    """Mean over the rows that exist. Subclasses say what is asked of a row."""

    def update(self, weights: Weights, query_mask: QueryMask, key_mask: KeyMask, entropy: Values | None = None) -> None:
        """The entropy of `weights` is computed unless given."""
        entropy = distribution.entropy(weights) if entropy is None else entropy
        values = self.values(weights, key_mask.unsqueeze(1), entropy)
        self.add(torch.where(query_mask.unsqueeze(1), values, torch.nan))

    @abstractmethod
    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values: ...


@final
class NormalizedEntropy(RowMetric):
    """Entropy over the log of the number of allowed keys, in [0, 1]: 0 one key, 1 uniform. Rows with one key are out."""

    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values:
        return distribution.normalized_entropy(weights, allowed, entropy)


@final
class EffectiveKeys(RowMetric):
    """exp(entropy): the number of keys that share the attention, from 1 to the number of keys."""

    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values:
        return distribution.effective_keys(weights, entropy)


@final
class LargestWeight(RowMetric):
    """Weight of the strongest key, in [0, 1]."""

    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values:
        return distribution.largest_weight(weights)


@final
class PaddingMass(RowMetric):
    """Weight on keys that were not allowed. Anything but 0 is a bug in a mask."""

    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values:
        return torch.zeros_like(entropy) if allowed.all() else distribution.mass(weights, ~allowed)


@final
class HeadDiversity(RowMetric):
    """Mean Jensen-Shannon divergence from the other heads, in [0, 1]: 0 all agree. NaN with a single head."""

    def values(self, weights: Weights, allowed: Allowed, entropy: Values) -> Values:
        return distribution.head_divergence(weights, entropy)
