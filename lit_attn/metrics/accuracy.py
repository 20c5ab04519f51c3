"""Which share of questions is answered right, overall and by kind? Sums in float64, added over processes."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor
from torchmetrics import Metric


class KindAccuracy(Metric):
    """Shares in [0, 1]. Kinds without any question are left out of the result.

    Args:
        kinds: Names of the kinds that are told apart; a question of another kind counts overall only.
    """

    full_state_update = False
    right: Tensor
    count: Tensor

    def __init__(self, kinds: Sequence[str]) -> None:
        super().__init__()
        self.kinds = tuple(kinds)
        zeros = torch.zeros(1 + len(self.kinds), dtype=torch.float64)
        self.add_state("right", zeros.clone(), dist_reduce_fx="sum")
        self.add_state("count", zeros.clone(), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, right: Bool[Tensor, " c"], kinds: Sequence[str]) -> None:
        """Whether each question was answered right, and its kind."""
        belongs = torch.tensor(
            [[True, *(kind == name for name in self.kinds)] for kind in kinds], dtype=torch.bool, device=right.device
        ).view(len(right), -1)
        self.right += (belongs & right.unsqueeze(1)).sum(0)
        self.count += belongs.sum(0)

    def compute(self) -> dict[str, float]:
        """`accuracy`, and `accuracy_<kind>` for the kinds that were asked."""
        names = ("accuracy", *(f"accuracy_{kind}" for kind in self.kinds))
        rows = zip(names, self.right.tolist(), self.count.tolist(), strict=True)
        return {name: right / count for name, right, count in rows if count}
