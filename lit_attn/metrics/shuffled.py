"""Could it be by chance? The share of shuffles whose sum is at least as large as the one observed, by head."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

_TOLERANCE = 1e-9
"""Sums that only differ in rounding are equal."""


@final
class Shuffled(Metric):
    """One-sided p of a permutation test, from sums over items; in [1 / (1 + shuffles), 1], and 1 where nothing was seen."""

    full_state_update = False
    is_differentiable = False
    observed: Float[Tensor, " h"]
    shuffled: Float[Tensor, "s h"]
    count: Float[Tensor, " h"]

    def __init__(self, num_heads: int, shuffles: int) -> None:
        super().__init__()
        self.add_state("observed", torch.zeros(num_heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("shuffled", torch.zeros(shuffles, num_heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(num_heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, observed: Float[Tensor, " h"], shuffled: Float[Tensor, "s h"], items: int) -> None:
        """Sums over so many items, which are what is counted."""
        self.observed += observed
        self.shuffled += shuffled
        self.count += items

    def compute(self) -> Float[Tensor, " h"]:
        as_large = (self.shuffled >= self.observed - _TOLERANCE).sum(0)
        return (1 + as_large).double() / (1 + len(self.shuffled))
