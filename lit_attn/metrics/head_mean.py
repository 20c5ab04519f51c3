"""How do per-row values become one number per head? The torchmetrics base of all attention metrics.

A value per sample, head and query row comes in; sums and counts per head, in float64, are all that is kept, so memory
does not grow and processes add up exactly. NaN marks rows that say nothing: they are not counted.
"""

from abc import ABC

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric


class HeadMean(Metric, ABC):
    """Mean over rows, one value per head. Subclasses turn weights into row values and call `add`."""

    full_state_update = False
    is_differentiable = False
    total: Tensor
    count: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(num_heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(num_heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def add(self, values: Float[Tensor, "b h q"]) -> None:
        """Count the rows that are not NaN."""
        said = ~values.isnan()
        self.total += torch.where(said, values, 0.0).sum((0, 2), dtype=torch.float64)
        self.count += said.sum((0, 2))

    def compute(self) -> Float[Tensor, " h"]:
        """Mean per head; NaN where nothing was counted."""
        return self.total / self.count
