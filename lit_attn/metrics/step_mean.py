"""How do per-row values become one number per reasoning step, kind of question and head?

As `head_mean`, with two more axes: sums and counts per step, kind and head, in float64, are all that is kept, so memory does
not grow and processes add up exactly. NaN marks rows that say nothing: they are not counted.
"""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

ALL = "all"
"""Name of the first group, to which every question belongs."""


@final
class StepMean(Metric):
    """Mean over rows by step, kind of question and head.

    Args:
        num_heads: Heads of the site.
        steps: How many steps are told apart; rows of later ones are left out.
        kinds: Kinds of question that are told apart; a question of another kind counts in `all` only.
    """

    full_state_update = False
    is_differentiable = False
    total: Float[Tensor, "s g h"]
    count: Float[Tensor, "s g h"]

    def __init__(self, num_heads: int, steps: int, kinds: Sequence[str] = ()) -> None:
        super().__init__()
        self.groups = (ALL, *kinds)
        zeros = torch.zeros(steps, len(self.groups), num_heads, dtype=torch.float64)
        self.add_state("total", zeros.clone(), dist_reduce_fx="sum")
        self.add_state("count", zeros.clone(), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, values: Float[Tensor, "b h q"], steps: Int[Tensor, " q"], kinds: Sequence[str]) -> None:
        """A value per question, head and row, the step of each row, and the kind of each question."""
        counted = steps < len(self.total)
        values, steps = values[..., counted], steps[counted]
        said = ~values.isnan()
        belongs = torch.tensor(
            [[name in (ALL, kind) for name in self.groups] for kind in kinds], dtype=torch.float64, device=values.device
        ).view(len(values), len(self.groups))
        known = torch.where(said, values.double(), 0.0)
        self.total.index_add_(0, steps, torch.einsum("bhq,bg->qgh", known, belongs))
        self.count.index_add_(0, steps, torch.einsum("bhq,bg->qgh", said.double(), belongs))

    def compute(self) -> Float[Tensor, "s g h"]:
        """Mean by step, kind and head; NaN where nothing was counted."""
        return self.total / self.count
