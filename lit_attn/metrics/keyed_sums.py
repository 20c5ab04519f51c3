"""How is something added up by word? Sums by key, which all processes exchange; as many as there are different words."""

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from torchmetrics import Metric

from lit_attn.metrics.gather import gathered

Key = tuple[str, ...]


@final
class KeyedSums(Metric):
    """Rows of numbers, added up by key."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[Key, np.ndarray] = {}

    def update(self, keys: Sequence[Key], values: Float[np.ndarray, "x s"]) -> None:
        for key, row in zip(keys, values, strict=True):
            known = self.sums.get(key)
            self.sums[key] = row.copy() if known is None else known + row

    def compute(self) -> dict[Key, np.ndarray]:
        """The sums of all processes by sorted key, so that nothing depends on who saw what first; all must ask."""
        found: dict[Key, np.ndarray] = {}
        for key, row in gathered(list(self.sums.items())):
            found[key] = found[key] + row if key in found else row
        return dict(sorted(found.items()))

    def reset(self) -> None:
        super().reset()
        self.sums = {}
