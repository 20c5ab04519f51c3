"""What do words of one group attend to, by groups of words? Sums in float64, added over batches and processes."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


@final
class PairShares(Metric):
    """Share of every group in the attention of every group, by head; even attention comes last."""

    full_state_update = False
    is_differentiable = False
    part: Float[Tensor, "a a k"]
    whole: Float[Tensor, "a k"]
    seen: Float[Tensor, " a"]

    def __init__(self, num_heads: int, groups: int) -> None:
        super().__init__()
        heads = num_heads + 1
        for name, shape in (("part", (groups, groups, heads)), ("whole", (groups, heads)), ("seen", (groups,))):
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(
        self,
        part: Float[Tensor, "x x k"],
        whole: Float[Tensor, "x k"],
        count: Float[Tensor, " x"],
        group: Int[Tensor, " x"],
    ) -> None:
        """Sums of some groups: which these are."""
        self.part.index_put_((group.unsqueeze(1), group), part, accumulate=True)
        self.whole.index_add_(0, group, whole)
        self.seen.index_add_(0, group, count)

    def compute(self) -> Float[Tensor, "a a k"]:
        """Shares by target, source and head; NaN where nothing was counted."""
        return self.part / self.whole.unsqueeze(1)
