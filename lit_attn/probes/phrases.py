"""Do the words of a noun phrase attend to what it names? Paper (b), question 1, with the chance level that it lacks.

Per phrase the mean over its words of the weight on the regions of its objects; `macro` is the mean over phrases, `micro` the
ratio of sums. Even attention is one baseline. The other keeps the attention and gives a phrase the objects of another phrase of
the same text: `phrase_swapped`, the mean over all that name other things. The test shuffles objects among the phrases of a text.
In a joint sequence with OCR tokens, as M4C's, the same is asked of the tokens that are printed on what a phrase names.
"""

from collections.abc import Mapping
from functools import lru_cache
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.shuffled import Shuffled
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import numbers
from lit_attn.probes.probe import Probe
from lit_attn.probes.spans import Asked, count_spans, span_rows, span_sums
from lit_attn.probes.text import JOINT, Align, Text, attention_of, concerns, text_of


class PhraseGrounding(Probe):
    """`phrase_grounding` (macro) and `phrase_grounding_micro` with their chance levels; `phrase_swapped`, and `phrase_p`, the
    share of shuffles that ground as well. Texts with one linked phrase have no part in the last two. `phrase_ocr` (macro): on the
    OCR tokens of what a phrase names.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
        shuffles: How often objects are shuffled. The same text is always shuffled in the same way.
    """

    def __init__(self, align: Align = "predict", shuffles: int = 99) -> None:
        self.align, self.shuffles = align, shuffles

    def metrics(self, site: Site) -> dict[str, Metric]:
        if not concerns(site, "regions"):
            return {}
        micro = "phrase_grounding_micro"
        joint = {"ocr": HeadShares(site.num_heads, ["phrase_ocr"])} if site.query_stream == JOINT else {}
        return {
            **joint,
            "macro": HeadShares(site.num_heads, ["phrase_grounding"]),
            "micro": HeadShares(site.num_heads, [micro], quiet=[micro]),
            "swapped": HeadShares(site.num_heads, ["phrase_swapped"], quiet=["phrase_swapped"]),
            "phrase_p": Shuffled(site.num_heads, self.shuffles),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        if "ocr" in metrics and text.ocr_object is not None:
            self._read(metrics["ocr"], record, text)
        found = attention_of(record, text, self.align, "regions")
        width = found.weights.shape[-1]
        spans, own, other, taken = self._asked(text, width)
        if not spans.items:
            return
        part, whole = span_sums(found, spans, found.total)
        macro, micro, swapped, test = (metrics[name] for name in ("macro", "micro", "swapped", "phrase_p"))
        assert isinstance(macro, HeadShares)
        assert isinstance(micro, HeadShares)
        assert isinstance(swapped, HeadShares)
        count_spans(macro, micro, torch.zeros_like(own), part[own], whole[own])
        each = shares.ratio(part, whole)
        swapped.add_items(each[other].unsqueeze(0))
        heads: Float[Tensor, "i h"] = torch.where(each.isnan(), 0.0, each)[:, :-1]
        sums = taken @ heads
        test.update(sums[0], sums[1:], int(taken[0].sum()))

    def _read(self, metric: Metric, record: AttentionRecord, text: Text) -> None:
        """Of phrases on OCR tokens."""
        assert isinstance(metric, HeadShares)
        found = attention_of(record, text, self.align, "ocr")
        asked = [
            Asked(c, p.span, tokens)
            for c, annotation in enumerate(text.annotations)
            for p in (annotation.phrases if annotation else ())
            if p.span[0] < text.lengths[c] and (tokens := text.regions_of(c, p.objects, "ocr"))
        ]
        if asked:
            spans = span_rows(asked, text, found.weights.shape[-1])
            metric.add_items(shares.ratio(*span_sums(found, spans, found.total)).unsqueeze(0))

    def _asked(self, text: Text, width: int):  # type: ignore[no-untyped-def]
        """Every phrase with the regions of every linked phrase of its text: spans, which are a phrase with its own, which are
        one with things that it does not name, and per shuffle (the first: none) how often to take each."""
        key = ("phrases", width, self.shuffles)
        if key not in text.kept:
            asked: list[Asked] = []
            own, other, shuffled = [], [], []
            for c, annotation in enumerate(text.annotations):
                inside = [p for p in annotation.phrases if p.span[0] < text.lengths[c]] if annotation else []
                linked = [(p, regions) for p in inside if (regions := text.regions_of(c, p.objects))]
                start, size = len(asked), len(linked)
                asked += [Asked(c, p.span, regions) for p, _ in linked for _, regions in linked]
                own += [start + i * size + i for i in range(size)]
                other += [
                    start + i * size + j
                    for i, (p, _) in enumerate(linked)
                    for j, (q, _) in enumerate(linked)
                    if not set(p.objects) & set(q.objects)
                ]
                if size > 1:
                    name = text.sample_id[c] if text.sample_id else annotation.text if annotation else ""
                    orders = _orders(name, size, self.shuffles)
                    shuffled.append(start + np.arange(size) * size + orders)  # 1 + shuffles, size
            device = text.word_of.device
            taken = np.zeros((1 + self.shuffles, len(asked)))
            for chosen in shuffled:
                np.put_along_axis(taken, chosen, 1.0, 1)
            listed = (numbers(rows, device) for rows in (own, other))
            text.kept[key] = span_rows(asked, text, width), *listed, torch.from_numpy(taken).to(device)
        return text.kept[key]


@lru_cache(maxsize=16384)
def _orders(name: str, size: int, shuffles: int) -> np.ndarray:
    """The order as it is, then shuffled ones that depend on the text alone."""
    rng = np.random.default_rng(crc32(name.encode()))
    drawn = rng.permuted(np.tile(np.arange(size), (shuffles, 1)), axis=1)
    return np.concatenate([np.arange(size)[None], drawn])
