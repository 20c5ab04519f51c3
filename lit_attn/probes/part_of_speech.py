"""Which parts of speech does attention between words go to, and from which? Paper (a), Eq. 3 and its maps.

P(tag) is the attention on words with this tag over the attention on all words, summed over words and texts. START has no
part in either, unless asked for, and rows are not renormalised: the ratio does that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.pair_shares import PairShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.probe import Cell, Probe
from lit_attn.probes.text import Align, Text, attention_of, concerns, text_of
from lit_attn.types import Annotation

TAGS = ("DET", "NOUN", "ADJ", "VERB", "ADP")
"""Those of the paper."""
UNIVERSAL = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X",
)  # fmt: skip


def tagged(text: Text, tags: Sequence[str]) -> Bool[Tensor, "c n g"]:
    """Which word of each text has which tag."""
    return _grouped(text, ("tags", *tags), tags, lambda annotation: annotation.pos)


def worded(text: Text, words: Sequence[str]) -> Bool[Tensor, "c n g"]:
    """Which word of each text is which of these."""
    return _grouped(text, ("words", *words), words, lambda annotation: annotation.tokens)


def _grouped(
    text: Text, key: tuple[str, ...], names: Sequence[str], labels: Callable[[Annotation], tuple[str, ...]]
) -> Bool[Tensor, "c n g"]:
    if key not in text.kept:
        place = {name: g for g, name in enumerate(names)}
        found = torch.zeros(len(text.lengths), text.longest, len(names), dtype=torch.bool)
        hits = [
            (c, i, place[label])
            for c, annotation in enumerate(text.annotations)
            if annotation is not None
            for i, label in enumerate(labels(annotation)[: text.lengths[c]])
            if label in place
        ]
        if hits:
            found[tuple(torch.tensor(hits).T)] = True
        text.kept[key] = found.to(text.word_of.device)
    kept = text.kept[key]
    assert isinstance(kept, Tensor)
    return kept


class PartOfSpeech(Probe):
    """`pos_noun` and its like: the share of attention on words with a tag, with its chance level.

    Args:
        tags: Universal tags to ask about.
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
        include_start: Count START, and whatever else is no word, in the denominator.
    """

    def __init__(self, tags: Sequence[str] = TAGS, align: Align = "predict", include_start: bool = False) -> None:
        self.tags, self.align, self.include_start = tuple(tags), align, include_start

    def metrics(self, site: Site) -> dict[str, Metric]:
        names = [f"pos_{tag.lower()}" for tag in self.tags]
        return {"pos": HeadShares(site.num_heads, names)} if concerns(site, "words") else {}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        part = shares.received(found.weights, tagged(text, self.tags))
        whole = found.total if self.include_start else found.weights.sum(-1)
        rows = (found.weights[:, -1] > 0).any(-1).sum().double()
        everything = whole.sum((0, 2), dtype=torch.float64).expand_as(part)
        metrics["pos"].update(part, everything, rows.expand(len(part), 1))


class AttentionMaps(Probe):
    """Tables of targets by sources, the mean over heads: what words with a tag attend to, by tag, and the same for single words.

    A row is the share of each group of sources in all attention on words; START has no part.

    Args:
        words: Single words to tell apart.
        align: As in `PartOfSpeech`.
    """

    def __init__(self, words: Sequence[str] = (), align: Align = "predict") -> None:
        self.words, self.align = tuple(words), align

    def metrics(self, site: Site) -> dict[str, Metric]:
        if not concerns(site, "words"):
            return {}
        return {f"map_{name}": PairShares(site.num_heads, len(of), len(of)) for name, of in self._groups().items()}

    def _groups(self) -> dict[str, tuple[str, ...]]:
        return {"pos": UNIVERSAL} | ({"words": self.words} if self.words else {})

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        for name, names in self._groups().items():
            groups = tagged(text, names) if name == "pos" else worded(text, names)
            targets = groups & (found.weights[:, -1] > 0).any(-1).unsqueeze(-1)
            part = shares.exchanged(found.weights, targets, groups)
            whole = torch.einsum("ckn,cna->ak", found.weights.sum(-1).double(), targets.double())
            metrics[f"map_{name}"].update(part, whole, targets.sum((0, 1)).double())

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        for name, names in self._groups().items():
            metric = metrics[f"map_{name}"]
            assert isinstance(metric, PairShares)
            with metric.sync_context():
                found, seen = metric.part / metric.whole.unsqueeze(1), metric.seen.tolist()
            for a, target in enumerate(names):
                for g, source in enumerate(names):
                    if seen[a]:
                        value, even = float(found[a, g, :-1].mean()), float(found[a, g, -1])
                        yield Cell(f"map_{name}", site.name, target, source, value, even, int(seen[a]))
