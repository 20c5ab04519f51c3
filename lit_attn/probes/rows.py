"""Which rows of a record count? Chosen rows of all samples in one list, head by head: many rows are padding."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.nn.tape import AttentionRecord


class Rows(NamedTuple):
    """Rows of a record, as if they were those of a single sample."""

    weights: Float[Tensor, "1 h x k"]
    allowed: Bool[Tensor, "1 x k"]


FEW = 4
"""Masks that are known: those of the streams of a network, in one batch."""


class Chosen(NamedTuple):
    """Where chosen rows stand."""

    row: Int[Tensor, " x"]
    """Among those of all samples."""
    sample: Int[Tensor, " x"]
    by_head: Int[Tensor, "h x"]
    """Among those of all samples and heads."""


class _Existing(NamedTuple):
    mask: Bool[Tensor, "b q"]
    heads: int
    rows: Chosen | None


_LAST: list[_Existing] = []


def chosen(mask: Bool[Tensor, "b q"], heads: int) -> Chosen:
    """The rows of a mask."""
    queries = mask.shape[1]
    row = mask.flatten().nonzero()[:, 0]
    sample = row // queries
    head = torch.arange(heads, device=row.device).unsqueeze(1)
    return Chosen(row, sample, row + (sample * (heads - 1) + head) * queries)


def existing(record: AttentionRecord) -> Chosen | None:
    """The rows that exist; None if all do. Layers with the same mask have the same."""
    mask, heads = record.query_mask, record.site.num_heads
    for known in _LAST:
        if known.heads == heads and known.mask.device == mask.device and torch.equal(known.mask, mask):
            return known.rows
    rows = None if mask.all() else chosen(mask, heads)
    _LAST[:] = [_Existing(mask.clone(), heads, rows), *_LAST[: FEW - 1]]
    return rows


def chosen_rows(record: AttentionRecord, rows: Chosen) -> Rows:
    """These rows. Whole rows are copied from where they stand in memory, five times as fast as by a mask."""
    _, heads, queries, keys = record.weights.shape
    weights = record.weights.reshape(-1, keys).index_select(0, rows.by_head.flatten()).view(1, heads, -1, keys)
    by_row = record.key_mask.shape[1] == queries
    allowed = record.key_mask.reshape(-1, keys).index_select(0, rows.row if by_row else rows.sample)
    return Rows(weights, allowed.unsqueeze(0))
