"""Which rows of a record count? Chosen rows of all samples in one list, head by head: many rows are padding."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.nn.tape import AttentionRecord


class Rows(NamedTuple):
    """Rows of a record, as if they were those of a single sample."""

    weights: Float[Tensor, "1 h x k"]
    allowed: Bool[Tensor, "1 x k"]


def chosen_rows(record: AttentionRecord, chosen: Bool[Tensor, "b q"]) -> Rows:
    """These rows. Whole rows are copied from where they stand in memory, five times as fast as by a mask."""
    _, heads, queries, keys = record.weights.shape
    row = chosen.flatten().nonzero()[:, 0]
    sample = row // queries
    head = torch.arange(heads, device=row.device).unsqueeze(1)
    at = row + (sample * (heads - 1) + head) * queries  # h x
    weights = record.weights.reshape(-1, keys).index_select(0, at.flatten()).view(1, heads, -1, keys)
    by_row = record.key_mask.shape[1] == queries
    allowed = record.key_mask.reshape(-1, keys).index_select(0, row if by_row else sample)
    return Rows(weights, allowed.unsqueeze(0))
