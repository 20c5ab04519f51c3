"""Do the words of a noun phrase attend to the regions that show what it names?

Works where words meet regions, in either direction: from words, a row is right on the regions of the named objects; from
regions, on the words of the phrases that name what the region shows. The gold links come from the batch.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.grounding import GroundingChance, GroundingMass, PointingAccuracy
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.probes.probe import Probe
from lit_attn.types import CaptionBatch

Align = Literal["predict", "input"]
FIRST_WORD = 1
"""Token position of an annotation's first word: START comes before it."""


def word_region_links(batch: CaptionBatch) -> Bool[Tensor, "c t r"]:
    """Which word of a caption names what which region shows."""
    if batch.region_object is None:
        raise UserError(
            "Grounding needs to know what regions show, and this data set does not say. "
            "Leave the grounding probe out, or use Scenes."
        )
    shown, owner = batch.region_object.tolist(), batch.owner.tolist()
    kept = (batch.token_mask.sum(-1) - 2).tolist()  # a long caption is cut, its annotation is not
    right: list[tuple[int, int, int]] = []
    for c, annotation in enumerate(batch.annotations):
        for phrase in () if annotation is None else annotation.phrases:
            regions = [r for r, thing in enumerate(shown[owner[c]]) if thing in phrase.objects]
            start, end = phrase.span[0], min(phrase.span[1], kept[c])
            right += [(c, word + FIRST_WORD, region) for word in range(start, end) for region in regions]
    device = batch.tokens.device
    links = torch.zeros(*batch.tokens.shape, batch.region_object.shape[1], dtype=torch.bool, device=device)
    if right:
        links[tuple(torch.tensor(right, device=device).T)] = True
    return links


class Grounding(Probe):
    """Mass on the right regions, pointing accuracy, and the chance level of each.

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
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, CaptionBatch)
        gold = word_region_links(batch)
        if record.site.predicts:
            gold = gold[:, 1:] if self.align == "predict" else gold[:, :-1]
        if record.site.query_stream == "regions":
            gold = gold.transpose(1, 2)
        for metric in metrics.values():
            metric.update(record.weights, gold, record.key_mask)
