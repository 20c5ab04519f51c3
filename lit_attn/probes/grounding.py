"""Do the words of a noun phrase attend to the regions that show what it names?

Works where words meet regions, in either direction: from words, a row is right on the regions of the named objects; from
regions, on the words of the phrases that name what the region shows. The gold links come from the batch.
"""

from collections.abc import Hashable, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.head_mean import HeadMean
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.memory import once, store_of
from lit_attn.probes.places import joined, marked, places, table
from lit_attn.probes.probe import Probe
from lit_attn.probes.rows import Chosen, chosen, chosen_rows
from lit_attn.probes.text import NOTHING
from lit_attn.probes.words import Align
from lit_attn.types import Annotation, CaptionBatch

FIRST_WORD = 1
"""Token position of an annotation's first word: START comes before it."""


def word_region_links(batch: CaptionBatch, heads_only: bool = False) -> Bool[Tensor, "c t r"]:
    """Which word of a caption names what which region shows: all words of a phrase, or its head noun alone."""
    if batch.region_object is None:
        raise UserError(
            "Grounding needs to know what regions show, and this data set does not say. "
            "Leave the grounding probe out, use Scenes, or link phrases to detections (data.link lemma)."
        )
    regions, owner = batch.region_object.cpu().numpy(), batch.owner.tolist()
    shown = [places(row.tolist()) for row in regions]
    kept = (batch.token_mask.sum(-1) - 2).tolist()  # a long caption is cut, its annotation is not
    links = [
        _links_of(annotation or NOTHING, kept[c], shown[owner[c]], heads_only)
        for c, annotation in enumerate(batch.annotations)
    ]
    return marked(joined(links, 2), (*batch.tokens.shape, regions.shape[1]), batch.tokens.device)


def _links_of(
    annotation: Annotation, words: int, shown: dict[int, list[int]], heads_only: bool
) -> Int[np.ndarray, "x 2"]:
    """Token and region of all links of one caption, given where its picture shows what."""
    found: list[tuple[int, int]] = []
    for phrase in annotation.phrases:
        start, end = (phrase.head, phrase.head + 1) if heads_only else phrase.span
        named = range(start + FIRST_WORD, min(end, words) + FIRST_WORD)
        found += product(named, (region for thing in phrase.objects for region in shown.get(thing, ())))
    return table(found, 2)


class Linked(NamedTuple):
    """The rows of a site that have a link, and the keys that are right for them."""

    rows: Chosen
    right: Bool[Tensor, "1 x k"]


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
            "phrases": HeadMean(
                site.num_heads, ["grounding_mass", "grounding_chance", "pointing_accuracy", "pointing_chance"]
            ),
            "heads": HeadMean(site.num_heads, ["naming_mass", "naming_chance"]),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, CaptionBatch)
        site = record.site
        for name, metric in metrics.items():
            key = (Grounding, name, self.align, site.predicts, site.query_stream, site.num_heads)
            rows, right = once(batch, key, partial(self._kept, key, site, batch, name == "heads"))
            weights, allowed = chosen_rows(record, rows)
            found = [distribution.mass(weights, right.unsqueeze(1)), grounding_chance(right, allowed, weights)]
            if name == "phrases":
                found += [distribution.points_at(weights, right.unsqueeze(1)), found[1]]
            metric.update(torch.stack(found))

    def _kept(self, key: Hashable, site: Site, batch: CaptionBatch, heads_only: bool) -> "Linked":
        """Links of the last time that the network saw these captions of these regions."""
        shown = None if batch.region_object is None else batch.region_object.cpu().numpy().tobytes()
        words, owner = (tuple(one.tolist()) for one in (batch.token_mask.sum(-1), batch.owner))
        store = store_of(
            "links", batch.annotations, (batch.tokens.shape, words, owner, shown, str(batch.tokens.device))
        )
        if key not in store:
            store[key] = self._linked(site, batch, heads_only)
        return cast(Linked, store[key])

    def _linked(self, site: Site, batch: CaptionBatch, heads_only: bool) -> Linked:
        """Gold links in the rows and columns of a site."""
        links = word_region_links(batch, heads_only)
        if site.predicts:
            links = links[:, 1:] if self.align == "predict" else links[:, :-1]
        if site.query_stream == "regions":
            links = links.transpose(1, 2)
        rows = links.any(-1)
        return Linked(chosen(rows, site.num_heads), links[rows].unsqueeze(0))


def grounding_chance(
    right: Bool[Tensor, "b q k"], allowed: Bool[Tensor, "b q k"], weights: Float[Tensor, "b h q k"]
) -> Float[Tensor, "b h q"]:
    """What even attention over the allowed keys scores, in mass and in pointing: right keys over allowed keys."""
    share = (right & allowed).sum(-1).to(weights.dtype) / allowed.sum(-1).clamp_min(1)
    return share.unsqueeze(1).expand(weights.shape[:3])
