"""Do the words of a noun phrase attend to the regions that show what it names?

Works where words meet regions, in either direction: from words, a row is right on the regions of the named objects; from
regions, on the words of the phrases that name what the region shows. The gold links come from the batch.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.grounding import GroundingChance, GroundingMass, PointingAccuracy
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.probes.memory import once
from lit_attn.probes.places import marked, places
from lit_attn.probes.probe import Probe
from lit_attn.types import CaptionBatch

Align = Literal["predict", "input"]
FIRST_WORD = 1
"""Token position of an annotation's first word: START comes before it."""


def word_region_links(batch: CaptionBatch, heads_only: bool = False) -> Bool[Tensor, "c t r"]:
    """Which word of a caption names what which region shows: all words of a phrase, or its head noun alone."""
    if batch.region_object is None:
        raise UserError(
            "Grounding needs to know what regions show, and this data set does not say. "
            "Leave the grounding probe out, use Scenes, or link phrases to detections (data.link lemma)."
        )
    shown, owner = [places(row) for row in batch.region_object.tolist()], batch.owner.tolist()
    kept = (batch.token_mask.sum(-1) - 2).tolist()  # a long caption is cut, its annotation is not
    right: list[tuple[int, int, int]] = []
    for c, annotation in enumerate(batch.annotations):
        for phrase in () if annotation is None else annotation.phrases:
            regions = [r for thing in phrase.objects for r in shown[owner[c]].get(thing, ())]
            start, end = (phrase.head, phrase.head + 1) if heads_only else phrase.span
            end = min(end, kept[c])
            right += [(c, word + FIRST_WORD, region) for word in range(start, end) for region in regions]
    return marked(right, (*batch.tokens.shape, batch.region_object.shape[1]), batch.tokens.device)


def linked_rows(
    record: AttentionRecord, links: Bool[Tensor, "c q k"]
) -> tuple[Float[Tensor, "r h 1 k"], Bool[Tensor, "r 1 k"], Bool[Tensor, "r 1 k"]]:
    """Weights, links and allowed keys of the rows that have a link, one by one: most rows have none."""
    some = links.any(-1)
    weights = record.weights.transpose(1, 2)[some]
    allowed = record.key_mask.expand(links.shape)[some]
    return weights.unsqueeze(2), links[some].unsqueeze(1), allowed.unsqueeze(1)


class Grounding(Probe):
    """Mass on the right regions and pointing accuracy for the words of noun phrases, with the chance level of each.

    `naming_mass` and `naming_chance` are the same for head nouns alone: the word that names the object.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
    """

    def __init__(self, align: Align = "predict") -> None:
        self.align = align

    def metrics(self, site: Site) -> dict[str, Metric]:
        if {site.query_stream, site.key_stream} != {"words", "regions"}:
            return {}
        return {
            "grounding_mass": GroundingMass(site.num_heads),
            "grounding_chance": GroundingChance(site.num_heads),
            "pointing_accuracy": PointingAccuracy(site.num_heads),
            "pointing_chance": GroundingChance(site.num_heads),
            "naming_mass": GroundingMass(site.num_heads),
            "naming_chance": GroundingChance(site.num_heads),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, CaptionBatch)
        for heads_only in (False, True):
            links = once(batch, (word_region_links, heads_only), partial(word_region_links, batch, heads_only))
            rows = linked_rows(record, self._rows(record.site, links))
            for name, metric in metrics.items():
                if name.startswith("naming") == heads_only:
                    metric.update(*rows)

    def _rows(self, site: Site, links: Bool[Tensor, "c t r"]) -> Bool[Tensor, "c q k"]:
        """Gold links in the rows and columns of a site."""
        if site.predicts:
            links = links[:, 1:] if self.align == "predict" else links[:, :-1]
        return links.transpose(1, 2) if site.query_stream == "regions" else links
