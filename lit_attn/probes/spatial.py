"""Do target, relation and landmark of a spatial relation attend to each other? Paper (b), question 3, in every direction.

Between words: from the relation to the target, from the landmark to the relation, to the target, and to both, for relations that
are told in this order. From words to regions: from the relation to what the target or the landmark names, from the landmark to
the target's, from the target to the landmark's. The denominator is all attention of a row, START included. In a joint sequence
both are asked, and the names of the second end with `_regions`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.probes.probe import Probe
from lit_attn.probes.spans import Asked, SpanRows, count_spans, span_rows, span_sums
from lit_attn.probes.text import Sources, Text, text_of
from lit_attn.probes.words import Align, attention_of, concerns
from lit_attn.types import Annotation, Span

Directions = dict[str, tuple[str, tuple[str, ...]]]
"""By name: whose words are asked, and about what."""

BETWEEN_WORDS: Directions = {
    "spatial_relation_target": ("relation", ("target",)),
    "spatial_landmark_relation": ("landmark", ("relation",)),
    "spatial_landmark_target": ("landmark", ("target",)),
    "spatial_landmark_both": ("landmark", ("relation", "target")),
}
TO_REGIONS: Directions = {
    "spatial_relation_target": ("relation", ("target",)),
    "spatial_relation_landmark": ("relation", ("landmark",)),
    "spatial_landmark_target": ("landmark", ("target",)),
    "spatial_target_landmark": ("target", ("landmark",)),
}

PARTS = ("target", "relation", "landmark")
DIRECTIONS: dict[Sources, Directions] = {"words": BETWEEN_WORDS, "regions": TO_REGIONS}


class SpatialRelations(Probe):
    """The directions above (`spatial_relation_target` …) as means over relations, and with `_micro` as ratios of sums.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
    """

    def __init__(self, align: Align = "predict") -> None:
        self.align = align

    def metrics(self, site: Site) -> dict[str, Metric]:
        found: dict[str, Metric] = {}
        for sources, directions in DIRECTIONS.items():
            if not concerns(site, sources):
                continue
            end = "_regions" if found else ""
            names, micro = [name + end for name in directions], [f"{name}{end}_micro" for name in directions]
            found[sources] = HeadShares(site.num_heads, names + micro, quiet=micro)
        return found

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        for sources, directions in DIRECTIONS.items():
            if not concerns(record.site, sources):
                continue
            found = attention_of(record, text, self.align, sources)
            metric = metrics[sources]
            assert isinstance(metric, HeadShares)
            spans, direction = _spans(text, directions, sources, found.weights.shape[-1])
            if spans.items:
                count_spans(metric, direction, *span_sums(found, spans, "spatial"))


def _spans(text: Text, directions: Directions, sources: Sources, width: int) -> tuple[SpanRows, Int[Tensor, " i"]]:
    """The spans of all relations in all directions, and the direction of each."""

    def made() -> tuple[SpanRows, Int[Tensor, " i"]]:
        asked = text.each(lambda c, annotation: _asked(text, c, annotation, directions, sources))
        spans = span_rows([[one for _, one in own] for own in asked], text.lengths, width, text.device)
        which = [number for own in asked for number, _ in own]
        return spans, torch.tensor(which, dtype=torch.long, device=text.device)

    return text.table(("spatial", sources, width), made)


def _asked(
    text: Text, c: int, annotation: Annotation, directions: Directions, sources: Sources
) -> list[tuple[int, Asked]]:
    """The spans of the relations of one text, each with the number of its direction."""
    found = []
    for triple in annotation.triples:
        spans = [triple.target, triple.relation, triple.landmark]
        told = all(a[1] <= b[0] for a, b in pairwise(spans))
        if (sources == "words" and not told) or max(end for _, end in spans) > text.lengths[c]:
            continue
        columns = {name: _columns(text, c, annotation, span, sources) for name, span in zip(PARTS, spans, strict=True)}
        for number, (start, ends) in enumerate(directions.values()):
            if wanted := {column for name in ends for column in columns[name]}:
                found.append((number, Asked(spans[PARTS.index(start)], sorted(wanted))))
    return found


def _columns(text: Text, c: int, annotation: Annotation, span: Span, sources: Sources) -> Sequence[int]:
    """What a span is as a source: its words, or the regions of what it names."""
    return range(*span) if sources == "words" else text.regions_of(c, _objects(annotation, span))


def _objects(annotation: Annotation, span: Span) -> tuple[int, ...]:
    """What the phrase with this span names; if there is none, what the phrases name whose heads are in it."""
    exact = [p.objects for p in annotation.phrases if p.span == span]
    inside = exact or [p.objects for p in annotation.phrases if span[0] <= p.head < span[1]]
    return tuple(thing for objects in inside for thing in objects)
