"""Do frequent nouns draw more attention, and which objects does a word look at? Lists by word, as many as there are words.

Paper (a) correlates the frequency of nouns with attention and does not say what its 16 points are. Here a point is a noun (its
lemma); its attention is the mean weight that it gets from a word that can see it, over all heads of a site.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.keyed_sums import KeyedSums, Numbered, added_up
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops.correlation import pearson
from lit_attn.probes.part_of_speech import known_tags
from lit_attn.probes.places import joined, table
from lit_attn.probes.probe import Cell, Finding, HeadValue, Probe, stack_of
from lit_attn.probes.text import Text, text_of
from lit_attn.probes.words import Align, WordAttention, attention_of, concerns
from lit_attn.types import Annotation

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
        got = (found.rows[:, None, None].to(found.weights.dtype) @ found.weights)[:, :, 0].mean(1)  # c m
        rows = torch.stack([torch.ones_like(at[0], dtype=torch.float64), _seen(found)[at], got[at].double()], 1)
        metrics["nouns"].update([names], name[:, None], rows.cpu().numpy())

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        found = []
        for site, own in metrics.items():
            sums = own["nouns"].compute().sums
            rows = sums[sums[:, 1] > 0] if len(sums) else np.empty((0, 3))
            weight = rows[:, 2] / rows[:, 1]
            found.append(Finding("noun frequency, attention", site, *pearson(rows[:, 0].tolist(), weight.tolist())))
        return found


class TopObjects(Probe):
    """For every noun (or word of other tags) the labels of regions that it attends to most, as weight per use of the word: at
    every site, and as the mean over the sites of a stack.

    Args:
        tags: Universal tags of the words.
        most: Labels per word.
        align: As in `NounFrequency`.
    """

    def __init__(self, tags: Sequence[str] = NOUN, most: int = 5, align: Align = "predict") -> None:
        if most < 1:
            raise UserError(f"TopObjects needs at least one label per word, got most={most}.")
        self.tags, self.most, self.align = known_tags(tags), most, align

    def metrics(self, site: Site) -> dict[str, Metric]:
        return {"objects": KeyedSums()} if concerns(site, "regions") else {}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        if not text.region_labels:
            return
        found = attention_of(record, text, self.align, "regions")
        (texts, words), names, name = _chosen(text, self.tags)
        usable = found.rows[texts, words]
        at, lemma = (texts[usable], words[usable]), name[usable.cpu().numpy()]
        each = found.with_even(("objects of", self.tags), lambda attention: _on_regions(attention, *at)).cpu().numpy()
        labels, label = _labels(text)
        size = len(labels) + 1
        place = (lemma[:, None] * size + label[at[0].cpu().numpy()][:, : each.shape[1]]).ravel()
        sums = [np.bincount(place, each[..., column].ravel(), len(names) * size) for column in (0, 1)]
        uses = np.bincount(lemma * size, minlength=len(names) * size)  # the label "" counts uses
        hit = np.flatnonzero((sums[0] != 0) | (sums[1] != 0) | (uses > 0))
        index = np.stack(np.divmod(hit, size), 1)
        values = np.stack([sums[0][hit], sums[1][hit], uses[hit]], 1).astype(np.float64)
        metrics["objects"].update([names, ("", *labels)], index, values)

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        return self._most(site.name, [_numbered(metrics)])

    def cells_of_stacks(self, metrics: Mapping[str, Mapping[str, Metric]]) -> Iterable[Cell]:
        stacks: dict[str, list[Numbered]] = {}
        for site, own in metrics.items():
            stacks.setdefault(stack_of(site), []).append(_numbered(own))
        return [cell for name, sites in stacks.items() if len(sites) > 1 for cell in self._most(name, sites)]

    def _most(self, site: str, shares: Sequence[Numbered]) -> Iterable[Cell]:
        """Of each word the labels with most weight, the mean over sites."""
        known = [share for share in shares if len(share.names)]
        if not known:
            return
        names, index, sums = known[0] if len(known) == 1 else added_up(known, 2)
        used = index[:, 1] == USES
        uses = np.zeros(len(names))
        uses[index[used, 0]] = sums[used, 2]
        index, sums = index[~used], sums[~used]  # sorted by word, then by label
        starts = np.searchsorted(index[:, 0], np.arange(len(names) + 1)).tolist()
        words = np.argsort(-uses, kind="stable")[: np.count_nonzero(uses)].tolist()  # ties in the order of the alphabet
        own = [slice(starts[word], starts[word + 1]) for word in words]
        best = [one.start + np.argsort(-sums[one, 0], kind="stable")[: self.most] for one in own]
        at = np.concatenate(best)
        word, label = index[at].T
        each = (sums[at, :2] / uses[word, None]).tolist()
        counts = (uses[word] // len(known)).astype(int).tolist()
        for target, source, (value, even), n in zip(names[word], names[label], each, counts, strict=True):
            yield Cell("objects", site, target, source, value, even, n)


def _numbered(metrics: Mapping[str, Metric]) -> Numbered:
    found = metrics["objects"].compute()
    assert isinstance(found, Numbered)
    return found


def _seen(found: WordAttention) -> Float[Tensor, "c m"]:
    """How many words could attend to each word."""
    even = found.even
    assert even is not None
    return found.shared("seen", lambda: ((even.weights[:, 0] > 0) & even.rows.unsqueeze(-1)).sum(1).double())


def _on_regions(found: WordAttention, texts: Int[Tensor, " x"], words: Int[Tensor, " x"]) -> Float[Tensor, "x r 1"]:
    """What words give to regions, the mean over heads."""
    return found.weights[texts, :, words].mean(1).double().unsqueeze(-1)


def _chosen(text: Text, tags: tuple[str, ...]) -> tuple[tuple[Tensor, Tensor], tuple[str, ...], np.ndarray]:
    """Text and place of all words with these tags, their different lemmas, and which of them each has."""

    def own(c: int, annotation: Annotation) -> tuple[np.ndarray, list[str]]:
        found = [i for i, tag in enumerate(annotation.pos[: text.lengths[c]]) if tag in tags]
        return table([(i,) for i in found], 1), [annotation.lemmas[i] for i in found]

    def made() -> tuple[tuple[Tensor, Tensor], tuple[str, ...], np.ndarray]:
        words, lemmas = zip(*text.each(own), strict=True)
        number: dict[str, int] = {}
        which = np.array([number.setdefault(lemma, len(number)) for own in lemmas for lemma in own], np.int64)
        at, word = torch.from_numpy(joined(words, 1)).to(text.device).unbind(1)
        return (at, word), tuple(number), which

    return text.table(("chosen", tags), made)


def _labels(text: Text) -> tuple[tuple[str, ...], np.ndarray]:
    """The different labels of all regions, and which of them, from 1, each region of each text has; 0 behind the last."""

    def made() -> tuple[tuple[str, ...], np.ndarray]:
        pictures = {id(own): own for own in text.region_labels}  # many texts are about the same one
        number = {label: i for i, label in enumerate(sorted({one for own in pictures.values() for one in own}), 1)}
        widest = max(map(len, text.region_labels), default=0)
        rows = {key: [number[one] for one in own] + [0] * (widest - len(own)) for key, own in pictures.items()}
        return tuple(number), table([rows[id(own)] for own in text.region_labels], widest)

    return text.table("labels", made)
