"""How do batches of different size become one mean? Sums and weights, in float64, added over processes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


class WeightedMean(Metric):
    """Mean of values, each counted as often as its weight says. NaN when nothing was counted."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, value: Float[Tensor, ""], weight: Int[Tensor, ""]) -> None:
        self.total += value.detach().double() * weight
        self.count += weight

    def compute(self) -> Float[Tensor, ""]:
        return self.total / self.count
