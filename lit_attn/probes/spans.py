"""Which share of their attention do the words of a span give to some sources? Paper (b)'s Eq. 3, for spans of many texts."""

from collections.abc import Hashable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.ops import shares
from lit_attn.probes.places import joined, table
from lit_attn.probes.words import WordAttention
from lit_attn.types import Span


class Asked(NamedTuple):
    """Words of a span, and the sources that are asked about."""

    span: Span
    sources: Sequence[int]


class TextSpans(NamedTuple):
    """The spans of one text: item and word of all their words; item, word and source of all pairs."""

    words: Int[np.ndarray, "x 2"]
    pairs: Int[np.ndarray, "p 3"]
    items: int


class SpanRows(NamedTuple):
    """The spans of all texts: text and word of all their words, text, word and source of all pairs, each with its span."""

    words: Int[Tensor, "x 2"]
    item: Int[Tensor, " x"]
    pairs: Int[Tensor, "p 3"]
    pair_item: Int[Tensor, " p"]
    items: int


def text_spans(asked: Sequence[Asked], length: int, width: int) -> TextSpans:
    """Spans of one text; words that a long text lost are left out, and sources beyond the width."""
    words: list[tuple[int, int]] = []
    pairs: list[tuple[int, int, int]] = []
    for i, ((start, end), sources) in enumerate(asked):
        own = range(start, min(end, length))
        words += product((i,), own)
        pairs += product((i,), own, sorted({source for source in sources if source < width}))
    return TextSpans(table(words, 2), table(pairs, 3), len(asked))


def span_rows(texts: Sequence[TextSpans], device: torch.device) -> SpanRows:
    """The spans of all texts."""
    first = np.cumsum([0, *(text.items for text in texts)])  # of each text

    def split(rows: Int[np.ndarray, "x w"]) -> tuple[Int[Tensor, "x v"], Int[Tensor, " x"]]:
        """Places, and the span of each."""
        item = rows[:, 1] + first[rows[:, 0]]
        return torch.from_numpy(np.delete(rows, 1, 1)).to(device), torch.from_numpy(item).to(device)

    words, item = split(joined([text.words for text in texts], 2))
    pairs, pair_item = split(joined([text.pairs for text in texts], 3))
    return SpanRows(words, item, pairs, pair_item, int(first[-1]))


def span_sums(
    found: WordAttention, spans: SpanRows, name: Hashable
) -> tuple[Float[Tensor, "i k"], Float[Tensor, "i k"]]:
    """Attention of each span on its sources, and on everything. Spans with the same name are the same."""
    words, item, pairs, pair_item, items = found.shared((name, "with rows"), lambda: _with_rows(spans, found.rows))

    def part(attention: WordAttention) -> Float[Tensor, "i h"]:
        return shares.summed(shares.at_pairs(attention.weights, pairs), pair_item, items)

    def whole(attention: WordAttention) -> Float[Tensor, "i h"]:
        return shares.summed(attention.total[words[:, 0], :, words[:, 1]].double(), item, items)

    return found.with_even((name, "part"), part), found.with_even((name, "whole"), whole)


def _with_rows(spans: SpanRows, has_row: Bool[Tensor, "c n"]) -> SpanRows:
    """The words that have a row."""
    words, item, pairs, pair_item, items = spans
    own, of_pairs = (has_row[places[:, 0], places[:, 1]] for places in (words, pairs))
    return SpanRows(words[own], item[own], pairs[of_pairs], pair_item[of_pairs], items)


def count_spans(
    metric: HeadShares, share: Int[Tensor, " i"], part: Float[Tensor, "i k"], whole: Float[Tensor, "i k"]
) -> None:
    """Adds spans to the shares that they are of. The metric has each share twice: as the mean over spans and, behind all of
    these, as the ratio of sums."""
    said = whole > 0
    each, size = torch.where(said, part / whole, 0.0), len(metric.names) // 2
    rows = torch.cat([each, part, whole, said.double()], 1)
    mean, parts, wholes, counts = shares.summed(rows, share, size).chunk(4, 1)
    metric.update(torch.cat([mean, parts]), torch.cat([counts, wholes]), torch.cat([counts, counts]))
