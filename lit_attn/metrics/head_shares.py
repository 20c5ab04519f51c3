"""How do parts and wholes of attention become one share per head? Sums in float64, added over batches and processes.

Several shares of one kind, such as those of all parts of speech, are one metric with a name for each. The last head that
comes in is no head of the network but even attention over everything that could be attended to: what it scores is the
chance level of the very same rows.
"""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric


@final
class HeadShares(Metric):
    """Part over whole, by name and head.

    Args:
        num_heads: Heads of the site; what comes in has one more.
        names: Of the shares.
        quiet: Those that go to tables, but not into the log of scalars.
    """

    full_state_update = False
    is_differentiable = False
    sums: Float[Tensor, "3 g k"]
    """Of parts, of wholes, and how many rows or items they are of: one state, so that processes exchange it at once."""

    def __init__(self, num_heads: int, names: Sequence[str], quiet: Sequence[str] = ()) -> None:
        super().__init__()
        self.names = tuple(names)
        self.quiet = frozenset(quiet)
        zeros = torch.zeros(3, len(self.names), num_heads + 1, dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, part: Float[Tensor, "g k"], whole: Float[Tensor, "g k"], count: Float[Tensor, "g #k"]) -> None:
        """Sums of a batch, and how many rows or items they are of."""
        for own, more in zip(self.sums, (part, whole, count), strict=True):
            own.add_(more)

    def add_items(self, shares: Float[Tensor, "g i k"]) -> None:
        """Means over items, each with a share of its own; NaN marks items that say nothing."""
        said = ~shares.isnan()
        self.update(torch.where(said, shares, 0.0).sum(1), said.sum(1).double(), said.sum(1).double())

    def compute(self) -> Float[Tensor, "g h"]:
        """Shares by name and head; NaN where nothing was counted."""
        return self._shares()[:, :-1]

    def chance(self) -> Float[Tensor, " g"]:
        """What even attention scores."""
        return self._shares()[:, -1]

    def _shares(self) -> Float[Tensor, "g k"]:
        part, whole, _ = self.sums
        return part / whole
