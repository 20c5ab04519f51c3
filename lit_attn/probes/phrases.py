"""Do the words of a noun phrase attend to what it names? Paper (b), question 1, with the chance level that it lacks.

Per phrase the mean over its words of the weight on the regions of its objects; `macro` is the mean over phrases, `micro` the
ratio of sums. Even attention is one baseline. The other keeps the attention and gives a phrase the objects of another phrase of
the same text: `phrase_swapped`, the mean over all that name other things. The test shuffles objects among the phrases of a text.
In a joint sequence with OCR tokens, as M4C's, the same is asked of the tokens that are printed on what a phrase names.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.shuffled import Shuffled
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import joined, table
from lit_attn.probes.probe import Probe
from lit_attn.probes.spans import Asked, SpanRows, count_spans, span_rows, span_sums
from lit_attn.probes.text import Sources, Text, text_of
from lit_attn.probes.words import JOINT, Align, attention_of, concerns
from lit_attn.types import Annotation, Phrase


class PhraseGrounding(Probe):
    """`phrase_grounding` (macro) and `phrase_grounding_micro` with their chance levels; `phrase_swapped`, and `phrase_p`, the
    share of shuffles that ground as well. Texts with one linked phrase have no part in the last two. `phrase_ocr` (macro): on the
    OCR tokens of what a phrase names.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
        shuffles: How often objects are shuffled. The same text is always shuffled in the same way.
    """

    def __init__(self, align: Align = "predict", shuffles: int = 99) -> None:
        if shuffles < 1:
            raise UserError(f"PhraseGrounding needs at least one shuffle for its test, got shuffles={shuffles}.")
        self.align, self.shuffles = align, shuffles

    def metrics(self, site: Site) -> dict[str, Metric]:
        if not concerns(site, "regions"):
            return {}
        micro = "phrase_grounding_micro"
        joint = {"ocr": HeadShares(site.num_heads, ["phrase_ocr"])} if site.query_stream == JOINT else {}
        return {
            **joint,
            "grounding": HeadShares(site.num_heads, ["phrase_grounding", micro], quiet=[micro]),
            "swapped": HeadShares(site.num_heads, ["phrase_swapped"], quiet=["phrase_swapped"]),
            "phrase_p": Shuffled(site.num_heads, self.shuffles),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        if "ocr" in metrics and text.ocr_object is not None:
            self._read(metrics["ocr"], record, text)
        found = attention_of(record, text, self.align, "regions")
        asked = self._asked(text, found.weights.shape[-1])
        if not asked.spans.items:
            return
        part, whole = span_sums(found, asked.spans, "phrases")
        grounding, swapped, test = (metrics[name] for name in ("grounding", "swapped", "phrase_p"))
        assert isinstance(grounding, HeadShares)
        assert isinstance(swapped, HeadShares)
        count_spans(grounding, torch.zeros_like(asked.own), part[asked.own], whole[asked.own])
        each = shares.ratio(part, whole)
        swapped.add_items(each[asked.other].unsqueeze(0))
        shuffles, phrases = asked.orders.shape
        shuffled = each.nan_to_num(nan=0.0)[:, :-1].index_select(0, asked.orders.flatten())
        sums = shuffled.unflatten(0, (shuffles, phrases)).sum(1)
        test.update(sums[0], sums[1:], phrases)

    def _read(self, metric: Metric, record: AttentionRecord, text: Text) -> None:
        """Of phrases on OCR tokens."""
        assert isinstance(metric, HeadShares)
        found = attention_of(record, text, self.align, "ocr")
        width = found.weights.shape[-1]

        def made() -> SpanRows:
            asked = text.each(lambda c, a: [Asked(p.span, tokens) for p, tokens in _linked(text, c, a, "ocr")])
            return span_rows(asked, text.lengths, width, text.device)

        spans = text.table(("phrases on OCR", width), made)
        if spans.items:
            metric.add_items(shares.ratio(*span_sums(found, spans, "phrases on OCR")).unsqueeze(0))

    def _asked(self, text: Text, width: int) -> "_Asked":
        """Every phrase with the regions of every linked phrase of its text."""

        def made() -> _Asked:
            each = text.each(partial(self._of_text, text))
            first = np.cumsum([0, *(len(one.asked) for one in each)])
            own, other = (
                rows[:, 1] + first[rows[:, 0]]
                for rows in (joined([one.own for one in each], 1), joined([one.other for one in each], 1))
            )
            nothing = np.empty((1 + self.shuffles, 0), np.int64)
            orders = np.concatenate([nothing, *(first[c] + one.orders for c, one in enumerate(each))], 1)
            found = (torch.from_numpy(one).to(text.device) for one in (own, other, orders))
            return _Asked(span_rows([one.asked for one in each], text.lengths, width, text.device), *found)

        return text.table(("phrases", width, self.shuffles), made)

    def _of_text(self, text: Text, c: int, annotation: Annotation) -> "_OfText":
        linked = _linked(text, c, annotation, "regions")
        pairs = [(p, q) for p, _ in linked for q, _ in linked]
        asked = [Asked(p.span, regions) for p, _ in linked for _, regions in linked]
        size, name = len(linked), text.sample_id[c] if text.sample_id else annotation.text
        shuffled = _orders(name, size if size > 1 else 0, self.shuffles)
        orders = np.arange(shuffled.shape[1]) * size + shuffled
        other = [i for i, (p, q) in enumerate(pairs) if not set(p.objects) & set(q.objects)]
        return _OfText(asked, table([(i * size + i,) for i in range(size)], 1), table([(i,) for i in other], 1), orders)


class _Asked(NamedTuple):
    """Spans: which are a phrase with its own objects, which one with things that it does not name, and which every shuffle takes
    (the first: none)."""

    spans: SpanRows
    own: Int[Tensor, " i"]
    other: Int[Tensor, " j"]
    orders: Int[Tensor, "s n"]


class _OfText(NamedTuple):
    """The same for one text. Where only one phrase is linked, there is nothing to shuffle."""

    asked: list[Asked]
    own: Int[np.ndarray, "i 1"]
    other: Int[np.ndarray, "j 1"]
    orders: Int[np.ndarray, "s i"]


def _linked(text: Text, c: int, annotation: Annotation, sources: Sources) -> list[tuple[Phrase, list[int]]]:
    """The phrases of a text that name something among the sources, and these sources."""
    inside = (p for p in annotation.phrases if p.span[0] < text.lengths[c])
    return [(p, regions) for p in inside if (regions := text.regions_of(c, p.objects, sources))]


def _orders(name: str, size: int, shuffles: int) -> Int[np.ndarray, "s i"]:
    """The order as it is, then shuffled ones that depend on the text alone."""
    rng = np.random.default_rng(crc32(name.encode()))
    drawn = rng.permuted(np.tile(np.arange(size), (shuffles, 1)), axis=1)
    return np.concatenate([np.arange(size)[None], drawn])
