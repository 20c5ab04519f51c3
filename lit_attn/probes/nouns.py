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
from lit_attn.probes.probe import Cell, Finding, HeadValue, Probe
from lit_attn.probes.text import Align, Text, attention_of, concerns, text_of

NOUN = ("NOUN",)


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
        words, lemmas = _chosen(text, NOUN)
        got = found.weights[:, :-1].sum(2, dtype=torch.float64).mean(1)  # c m
        seen = (found.weights[:, -1] > 0).sum(1).double()
        c, j = words[:, 0], words[:, 1]
        rows = torch.stack([torch.ones(len(c), dtype=torch.float64), seen[c, j].cpu(), got[c, j].cpu()], 1).numpy()
        names, place = np.unique(np.array(lemmas, dtype=str), return_inverse=True)
        sums = np.zeros((len(names), 3))
        np.add.at(sums, place, rows)
        metrics["nouns"].update([(str(name),) for name in names], sums)

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        found = []
        for site, own in metrics.items():
            rows = [row for row in own["nouns"].compute().values() if row[1] > 0]
            often, weight = [float(row[0]) for row in rows], [float(row[2] / row[1]) for row in rows]
            found.append(Finding("noun frequency, attention", site, *pearson(often, weight)))
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
        words, lemmas = _chosen(text, self.tags)
        usable = found.rows[words[:, 0], words[:, 1]].cpu().numpy()
        at = words[torch.from_numpy(usable).to(words.device)]
        names, lemma = np.unique(np.array(lemmas, dtype=str)[usable], return_inverse=True)
        kinds, kind = _labels(text)
        place = lemma[:, None] * (len(kinds) + 1) + kind[at[:, 0].cpu().numpy()]  # x r
        each = (found.weights[:, :-1].mean(1), found.weights[:, -1])
        size = len(names) * (len(kinds) + 1)
        sums = np.zeros((size, 3))
        for column, weights in enumerate(each):
            rows = weights[at[:, 0], at[:, 1]].double().cpu().numpy()
            sums[:, column] = np.bincount(place[:, : rows.shape[1]].ravel(), rows.ravel(), size)
        sums[:: len(kinds) + 1, 2] = np.bincount(lemma, minlength=len(names))  # the label "" counts uses
        hit = np.flatnonzero(sums.any(1))
        keys = [(str(names[i // (len(kinds) + 1)]), ("", *kinds)[i % (len(kinds) + 1)]) for i in hit.tolist()]
        metrics["objects"].update(keys, sums[hit])

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        found = metrics["objects"].compute()
        uses = {word: row[2] for (word, label), row in found.items() if not label}
        by_word: dict[str, list[tuple[np.ndarray, str]]] = {word: [] for word in uses}
        for (word, label), row in found.items():
            if label:
                by_word[word].append((row, label))
        for word in sorted(uses, key=lambda word: (-uses[word], word)):
            rows = by_word[word]
            for row, label in sorted(rows, key=lambda one: (-one[0][0], one[1]))[: self.most]:
                shares = row[:2] / uses[word]
                yield Cell("objects", site.name, word, label, float(shares[0]), float(shares[1]), int(uses[word]))


def _chosen(text: Text, tags: tuple[str, ...]) -> tuple[torch.Tensor, list[str]]:
    """Text and place of all words with these tags, and their lemmas."""
    key = ("chosen", tags)
    if key not in text.kept:
        found = [
            (c, i, annotation.lemmas[i])
            for c, annotation in enumerate(text.annotations)
            if annotation is not None
            for i in range(text.lengths[c])
            if annotation.pos[i] in tags
        ]
        places = torch.tensor([(c, i) for c, i, _ in found], dtype=torch.long).reshape(-1, 2)
        text.kept[key] = places.to(text.word_of.device), [lemma for _, _, lemma in found]
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
