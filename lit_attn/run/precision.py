"""How do frozen batches become float64? Lightning's plugins rewrite batches field by field, which frozen ones refuse."""

from typing import Any

import torch
from lightning.pytorch.plugins.precision import DoublePrecision

from lit_attn.types import TensorBatch


class BatchDoublePrecision(DoublePrecision):
    """`--trainer.precision 64-true` for our batches."""

    def convert_input(self, data: Any) -> Any:
        if isinstance(data, TensorBatch):
            return data.map(lambda tensor: tensor.double() if torch.is_floating_point(tensor) else tensor)
        return super().convert_input(data)
