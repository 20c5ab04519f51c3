"""How do per-row values become one number per head? The torchmetrics class of all means over rows.

A value per sample, head and query row comes in; sums and counts per head, in float64, are all that is kept, so memory
does not grow and processes add up exactly. NaN marks rows that say nothing: they are not counted. Several values of the
same rows, such as entropy and largest weight, are one metric with a name for each.
"""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric


@final
class HeadMean(Metric):
    """Mean over rows, by name and head.

    Args:
        num_heads: Heads of the site.
        names: Of the values.
    """

    full_state_update = False
    is_differentiable = False
    total: Float[Tensor, "g h"]
    count: Float[Tensor, "g h"]

    def __init__(self, num_heads: int, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)
        for state in ("total", "count"):
            zeros = torch.zeros(len(self.names), num_heads, dtype=torch.float64)
            self.add_state(state, zeros, dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, values: Float[Tensor, "g b h q"]) -> None:
        """Counts the rows that are not NaN."""
        self.total.add_(values.nansum((1, 3), dtype=torch.float64))
        self.count.add_((~values.isnan()).sum((1, 3)))

    def compute(self) -> Float[Tensor, "g h"]:
        """Mean by name and head; NaN where nothing was counted."""
        return self.total / self.count
