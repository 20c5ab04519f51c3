"""Does attention fall on what a word means? Mass and pointing accuracy against gold links, with their chance levels.

`gold` says, for every row, which keys are right; rows without any right key are not counted. The chance level is what
uniform attention over the allowed keys would score on the very same rows.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.metrics.head_mean import HeadMean
from lit_attn.ops import distribution

Weights = Float[Tensor, "b h q k"]
Gold = Bool[Tensor, "b q k"]
KeyMask = Bool[Tensor, "b #q k"]


def linked(values: Float[Tensor, "b h q"], gold: Gold) -> Float[Tensor, "b h q"]:
    """NaN for rows that nothing is right for."""
    return torch.where(gold.any(-1).unsqueeze(1), values, torch.nan)


@final
class GroundingMass(HeadMean):
    """Weight on the right keys, in [0, 1]."""

    def update(self, weights: Weights, gold: Gold, key_mask: KeyMask) -> None:
        self.add(linked(distribution.mass(weights, gold.unsqueeze(1).expand(weights.shape)), gold))


@final
class PointingAccuracy(HeadMean):
    """Share of rows whose strongest key is right; exact ties count by the share of right ones among them."""

    def update(self, weights: Weights, gold: Gold, key_mask: KeyMask) -> None:
        self.add(linked(distribution.points_at(weights, gold.unsqueeze(1).expand(weights.shape)), gold))


@final
class GroundingChance(HeadMean):
    """What uniform attention scores on the same rows: right keys over allowed keys. Holds for mass and pointing alike."""

    def update(self, weights: Weights, gold: Gold, key_mask: KeyMask) -> None:
        share = (gold & key_mask).sum(-1).double() / key_mask.expand(gold.shape).sum(-1).clamp_min(1)  # b q
        self.add(linked(share.unsqueeze(1).expand(weights.shape[:3]), gold))
