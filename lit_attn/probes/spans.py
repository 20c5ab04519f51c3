"""Which share of their attention do the words of a span give to some sources? Paper (b)'s Eq. 3, for spans of many texts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.ops import shares
from lit_attn.probes.text import Text, WordAttention
from lit_attn.types import Span


class Asked(NamedTuple):
    """Words of a span, and the sources that are asked about."""

    text: int
    span: Span
    sources: Sequence[int]


class SpanRows(NamedTuple):
    """All words of all spans in one list, and all pairs of a word and a source in another, each with the span that it is of."""

    rows: Int[Tensor, "x 2"]
    item: Int[Tensor, " x"]
    pairs: Int[Tensor, "p 3"]
    pair_item: Int[Tensor, " p"]
    items: int


def span_rows(asked: Sequence[Asked], text: Text, width: int) -> SpanRows:
    """The rows of spans; words that a long text lost are left out, and sources beyond the width."""
    rows = [
        (i, c, word) for i, (c, (start, end), _) in enumerate(asked) for word in range(start, min(end, text.lengths[c]))
    ]
    listed = [sorted({source for source in one.sources if source < width}) for one in asked]
    device = text.word_of.device
    places = np.array(rows, np.int64).reshape(-1, 3)
    sizes = np.array([len(own) for own in listed], np.int64)
    sources = np.array([source for own in listed for source in own], np.int64)
    item = places[:, 0]
    row = np.repeat(np.arange(len(places)), sizes[item])  # of each pair
    within = np.arange(len(row)) - _begins(sizes[item])[row]
    pairs = np.column_stack([places[row], sources[_begins(sizes)[item[row]] + within]])
    words, found = (torch.from_numpy(one).to(device) for one in (places, pairs))
    return SpanRows(words[:, 1:], words[:, 0], found[:, 1:], found[:, 0], len(asked))


def _begins(sizes: np.ndarray) -> np.ndarray:
    """Where each of several lists begins if they are joined."""
    return np.cumsum(sizes) - sizes


def span_sums(
    attention: WordAttention, spans: SpanRows, whole: Float[Tensor, "c k n"]
) -> tuple[Float[Tensor, "i k"], Float[Tensor, "i k"]]:
    """Attention of each span on its sources, and on everything."""
    rows, item, pairs, pair_item = spans[:4]
    has_row = attention.rows[rows[:, 0], rows[:, 1]]
    if not has_row.all():
        of_pairs = attention.rows[pairs[:, 0], pairs[:, 1]]
        rows, item, pairs, pair_item = rows[has_row], item[has_row], pairs[of_pairs], pair_item[of_pairs]
    part = shares.summed(shares.at_pairs(attention.weights, pairs), pair_item, spans.items)
    everything = shares.summed(whole[rows[:, 0], :, rows[:, 1]].double(), item, spans.items)
    return part, everything


def count_spans(
    macro: HeadShares,
    micro: HeadShares,
    share: Int[Tensor, " i"],
    part: Float[Tensor, "i k"],
    whole: Float[Tensor, "i k"],
) -> None:
    """Adds spans to the shares that they are of: to `macro` the mean of their shares, to `micro` their sums."""
    said = whole > 0
    each, size = torch.where(said, part / whole, 0.0), len(macro.names)
    mean, parts, wholes, counts = (shares.summed(rows, share, size) for rows in (each, part, whole, said.double()))
    macro.update(mean, counts, counts)
    micro.update(parts, wholes, counts)
