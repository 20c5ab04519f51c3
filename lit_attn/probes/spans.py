"""Which share of their attention do the words of a span give to some sources? Paper (b)'s Eq. 3, for spans of many texts."""

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.ops import shares
from lit_attn.probes.places import table
from lit_attn.probes.words import WordAttention
from lit_attn.types import Span


class Asked(NamedTuple):
    """Words of a span, and the sources that are asked about, each once."""

    span: Span
    sources: Sequence[int]


class SpanRows(NamedTuple):
    """The spans of all texts: text and word of all their words, text, word and source of all pairs, each with its span."""

    words: Int[Tensor, "x 2"]
    item: Int[Tensor, " x"]
    pairs: Int[Tensor, "p 3"]
    pair_item: Int[Tensor, " p"]
    items: int


def span_rows(asked: Sequence[Sequence[Asked]], lengths: Sequence[int], width: int, device: torch.device) -> SpanRows:
    """The spans of all texts; words that a long text lost are left out, and sources beyond the width."""
    every = [one for own in asked for one in own]
    text = np.repeat(np.arange(len(asked)), [len(own) for own in asked])
    start, end = table([one.span for one in every], 2).T
    words = (np.minimum(end, np.array(lengths, np.int64)[text]) - start).clip(0)
    count = np.array([len(one.sources) for one in every], np.int64)
    sources = np.fromiter(chain.from_iterable(one.sources for one in every), np.int64)
    item, place = _numbered(words)
    pair_item, pair = _numbered(words * count)  # word by word, every source
    source = sources[(np.cumsum(count) - count)[pair_item] + pair % count[pair_item]]
    word = start[pair_item] + pair // count[pair_item]
    inside = source < width

    def told(rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows).to(device)

    return SpanRows(
        words=told(np.stack([text[item], start[item] + place], 1)),
        item=told(item),
        pairs=told(np.stack([text[pair_item], word, source], 1)[inside]),
        pair_item=told(pair_item[inside]),
        items=len(every),
    )


def _numbered(counts: Int[np.ndarray, " i"]) -> tuple[Int[np.ndarray, " x"], Int[np.ndarray, " x"]]:
    """So many rows of every item: the item of each row, and its place among those of its item."""
    item = np.repeat(np.arange(len(counts)), counts)
    return item, np.arange(len(item)) - (np.cumsum(counts) - counts)[item]


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
