"""What do words of one group attend to, by groups of sources? Sums in float64, added over batches and processes."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric


@final
class PairShares(Metric):
    """Share of every group of sources in the attention of every group of targets, by head; even attention comes last."""

    full_state_update = False
    is_differentiable = False
    part: Float[Tensor, "a g k"]
    whole: Float[Tensor, "a k"]
    seen: Float[Tensor, " a"]

    def __init__(self, num_heads: int, targets: int, sources: int) -> None:
        super().__init__()
        heads = num_heads + 1
        for name, shape in (("part", (targets, sources, heads)), ("whole", (targets, heads)), ("seen", (targets,))):
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, part: Float[Tensor, "a g k"], whole: Float[Tensor, "a k"], count: Float[Tensor, " a"]) -> None:
        self.part.add_(part)
        self.whole.add_(whole)
        self.seen.add_(count)

    def compute(self) -> Float[Tensor, "a g k"]:
        """Shares by target, source and head; NaN where nothing was counted."""
        return self.part / self.whole.unsqueeze(1)
