"""Which share of their attention do the words of a span give to some sources? Paper (b)'s Eq. 3, for spans of many texts."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.ops import shares
from lit_attn.probes.memory import marked, table
from lit_attn.probes.text import Text, WordAttention
from lit_attn.types import Span


class Asked(NamedTuple):
    """Words of a span, and the sources that are asked about."""

    text: int
    span: Span
    sources: Sequence[int]


class SpanRows(NamedTuple):
    """All words of all spans in one list."""

    rows: Int[Tensor, "x 2"]
    item: Int[Tensor, " x"]
    columns: Bool[Tensor, "x m"]
    items: int


def span_rows(asked: Sequence[Asked], text: Text, width: int) -> SpanRows:
    """The rows of spans; words that a long text lost are left out."""
    rows = [
        (i, c, word) for i, (c, (start, end), _) in enumerate(asked) for word in range(start, min(end, text.lengths[c]))
    ]
    device = text.word_of.device
    places = table(rows, 3, device)
    hits = [(i, source) for i, one in enumerate(asked) for source in one.sources if source < width]
    sources = marked(hits, (len(asked), width), device)
    return SpanRows(places[:, 1:], places[:, 0], sources[places[:, 0]], len(asked))


def span_sums(
    attention: WordAttention, spans: SpanRows, whole: Float[Tensor, "c k n"]
) -> tuple[Float[Tensor, "i k"], Float[Tensor, "i k"]]:
    """Attention of each span on its sources, and on everything."""
    has_row = attention.rows[spans.rows[:, 0], spans.rows[:, 1]]
    rows, item, columns = spans.rows[has_row], spans.item[has_row], spans.columns[has_row]
    part = shares.summed(shares.on_columns(attention.weights, rows, columns), item, spans.items)
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
