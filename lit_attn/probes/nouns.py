"""Do frequent nouns draw more attention, and which objects does a word look at? Lists by word, as many as there are words.

Paper (a) correlates the frequency of nouns with attention and does not say what its 16 points are. Here a point is a noun (its
lemma); its attention is the mean weight that it gets from a word that can see it, over all heads of a site.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torchmetrics import Metric

from lit_attn.metrics.keyed_sums import KeyedSums
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops.correlation import pearson
from lit_attn.probes.places import table
from lit_attn.probes.probe import Cell, Finding, HeadValue, Probe
from lit_attn.probes.text import Align, Text, attention_of, concerns, text_of

NOUN = ("NOUN",)
USES = 0
"""Number of the label "", which sorts before all others and counts how often a word was used."""


class NounFrequency(Probe):
    """The correlation of how often a noun occurs with the attention it gets: n, r, p and a permutation's p, by site.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
    """

    def __init__(self, align: Align = "predict") -> None:
        self.align = align

    def metrics(self, site: Site) -> dict[str, Metric]:
        return {"nouns": KeyedSums()} if concerns(site, "words") else {}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        at, names, name = _chosen(text, NOUN)
        got = found.weights[:, :-1].mean(1).sum(1, dtype=torch.float64)  # c m
        seen = (found.weights[:, -1] > 0).sum(1).double()
        rows = torch.stack([torch.ones_like(at[0], dtype=torch.float64), seen[at], got[at]], 1).cpu().numpy()
        metrics["nouns"].update([names], name[:, None], rows)

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        found = []
        for site, own in metrics.items():
            _, sums = own["nouns"].compute()
            rows = sums[sums[:, 1] > 0] if len(sums) else np.empty((0, 3))
            weight = rows[:, 2] / rows[:, 1]
            found.append(Finding("noun frequency, attention", site, *pearson(rows[:, 0].tolist(), weight.tolist())))
        return found


class TopObjects(Probe):
    """For every noun (or word of other tags) the labels of regions that it attends to most, as weight per use of the word.

    Args:
        tags: Universal tags of the words.
        most: Labels per word.
        align: As in `NounFrequency`.
    """

    def __init__(self, tags: Sequence[str] = NOUN, most: int = 5, align: Align = "predict") -> None:
        self.tags, self.most, self.align = tuple(tags), most, align

    def metrics(self, site: Site) -> dict[str, Metric]:
        return {"objects": KeyedSums()} if concerns(site, "regions") else {}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        if not text.region_labels:
            return
        found = attention_of(record, text, self.align, "regions")
        (texts, words), names, name = _chosen(text, self.tags)
        usable = found.rows[texts, words]
        picked = found.weights[texts[usable], :, words[usable]]  # x k r
        each = torch.stack([picked[:, :-1].mean(1), picked[:, -1]], -1).double().flatten(0, 1).cpu().numpy()
        labels, label = _labels(text)
        columns = label[texts[usable].cpu().numpy()][:, : picked.shape[-1]]
        lemma = name[usable.cpu().numpy()]
        size = len(labels) + 1
        place = (lemma[:, None] * size + columns).ravel()
        sums = np.stack([np.bincount(place, column, len(names) * size) for column in each.T], 1)
        uses = np.bincount(lemma * size, minlength=len(names) * size)  # the label "" counts uses
        hit = np.flatnonzero(sums.any(1) | (uses > 0))
        index = np.stack(np.divmod(hit, size), 1)
        metrics["objects"].update([names, ("", *labels)], index, np.column_stack([sums, uses])[hit].astype(float))

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        metric = metrics["objects"]
        assert isinstance(metric, KeyedSums)
        names, index, sums = metric.numbered()
        if not names or names[0]:
            return
        used = index[:, 1] == USES
        uses = dict(zip(index[used, 0].tolist(), sums[used, 2].astype(int).tolist(), strict=True))
        index, sums = index[~used], sums[~used]
        order = np.lexsort((-sums[:, 0], index[:, 0]))  # stable: keys come sorted, so ties are in the order of labels
        word = index[order, 0]
        for name in sorted(uses, key=lambda one: (-uses[one], one)):
            best = order[slice(*np.searchsorted(word, (name, name + 1)))][: self.most]
            for label, (value, even) in zip(index[best, 1], (sums[best, :2] / uses[name]).tolist(), strict=True):
                yield Cell("objects", site.name, names[name], names[label], value, even, uses[name])


def _chosen(text: Text, tags: tuple[str, ...]) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[str, ...], np.ndarray]:
    """Text and place of all words with these tags, their different lemmas, and which of them each has."""
    key = ("chosen", tags)
    if key not in text.kept:
        found = [
            (c, i, annotation.lemmas[i])
            for c, annotation in enumerate(text.annotations)
            if annotation is not None
            for i in range(text.lengths[c])
            if annotation.pos[i] in tags
        ]
        places = table([(c, i) for c, i, _ in found], 2, text.word_of.device)
        number: dict[str, int] = {}
        lemmas = np.array([number.setdefault(lemma, len(number)) for _, _, lemma in found], np.int64)
        text.kept[key] = places.unbind(1), tuple(number), lemmas
    kept = text.kept[key]
    assert isinstance(kept, tuple)
    return kept


def _labels(text: Text) -> tuple[tuple[str, ...], np.ndarray]:
    """The different labels of all regions, and which of them, from 1, each region of each text has; 0 behind the last."""
    if "labels" not in text.kept:
        number = {label: i for i, label in enumerate(sorted({one for own in text.region_labels for one in own}), 1)}
        widest = max(map(len, text.region_labels), default=0)
        found = np.zeros((len(text.region_labels), widest), np.int64)
        for row, own in zip(found, text.region_labels, strict=True):
            row[: len(own)] = [number[label] for label in own]
        text.kept["labels"] = tuple(number), found
    kept = text.kept["labels"]
    assert isinstance(kept, tuple)
    return kept
