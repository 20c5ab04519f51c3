"""Which parts of speech does attention between words go to, and from which? Paper (a), Eq. 3 and its maps.

P(tag) is the attention on words with this tag over the attention on all words, summed over words and texts. START has no
part in either, unless asked for, and rows are not renormalised: the ratio does that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.pair_shares import PairShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import marked
from lit_attn.probes.probe import Cell, Probe
from lit_attn.probes.text import Align, Text, WordAttention, attention_of, concerns, text_of
from lit_attn.types import Annotation

TAGS = ("DET", "NOUN", "ADJ", "VERB", "ADP")
"""Those of the paper."""
UNIVERSAL = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X",
)  # fmt: skip


def tags_in(text: Text) -> tuple[tuple[str, ...], Bool[Tensor, "c n t"]]:
    """The tags that occur, and which word of each text has which."""
    if "tags" not in text.kept:
        seen = {tag for annotation in text.annotations if annotation is not None for tag in annotation.pos}
        names = tuple(sorted(seen))
        text.kept["tags"] = names, _grouped(text, names, lambda annotation: annotation.pos)
    kept = text.kept["tags"]
    assert isinstance(kept, tuple)
    return kept


def worded(text: Text, words: tuple[str, ...]) -> Bool[Tensor, "c n g"]:
    """Which word of each text is which of these."""
    if ("words", words) not in text.kept:
        text.kept["words", words] = _grouped(text, words, lambda annotation: annotation.tokens)
    kept = text.kept["words", words]
    assert isinstance(kept, Tensor)
    return kept


def _grouped(
    text: Text, names: Sequence[str], labels: Callable[[Annotation], tuple[str, ...]]
) -> Bool[Tensor, "c n g"]:
    place = {name: g for g, name in enumerate(names)}
    hits = [
        (c, i, place[label])
        for c, annotation in enumerate(text.annotations)
        if annotation is not None
        for i, label in enumerate(labels(annotation)[: text.lengths[c]])
        if label in place
    ]
    return marked(hits, (len(text.lengths), text.longest, len(names)), text.word_of.device)


def by_tag(found: WordAttention, text: Text) -> Float[Tensor, "c k n t"]:
    """Attention of every word on those of each tag that occurs; several probes ask for it."""
    if "by_tag" not in found.kept:
        found.kept["by_tag"] = shares.by_group(found.weights, tags_in(text)[1])
    return found.kept["by_tag"]


def _members(text: Text, sets: Sequence[Sequence[str]]) -> Float[Tensor, "t g"]:
    """Which of the tags that occur belongs to which set."""
    names = tags_in(text)[0]
    member = torch.tensor([[name in chosen for chosen in sets] for name in names], dtype=torch.float64)
    return member.reshape(len(names), len(sets)).to(text.word_of.device)


def on_tags(found: WordAttention, text: Text, sets: Sequence[Sequence[str]]) -> Float[Tensor, "c k n g"]:
    """Attention of every word on words with one of the tags of each set."""
    return by_tag(found, text) @ _members(text, sets)


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
        part = (by_tag(found, text).sum((0, 2)) @ _members(text, [[tag] for tag in self.tags])).T  # g k
        whole = found.total.double() if self.include_start else found.on_all
        metrics["pos"].update(part, whole.sum((0, 2)).expand_as(part), found.sees.sum().double().expand(len(part), 1))


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
        names, tags = tags_in(text)
        place = [UNIVERSAL.index(name) for name in names if name in UNIVERSAL]
        known = [name in UNIVERSAL for name in names]
        self._add(metrics["map_pos"], by_tag(found, text)[..., known], found, tags[..., known], place)
        if self.words:
            chosen = worded(text, self.words)
            by_word = shares.by_group(found.weights, chosen)
            self._add(metrics["map_words"], by_word, found, chosen, list(range(len(self.words))))

    def _add(
        self,
        metric: Metric,
        by_source: Float[Tensor, "c k n g"],
        found: WordAttention,
        groups: Bool[Tensor, "c n g"],
        place: Sequence[int],
    ) -> None:
        """Groups stand at these rows and columns of the map."""
        assert isinstance(metric, PairShares)
        targets = groups & found.sees.unsqueeze(-1)
        part, whole, seen = (torch.zeros_like(state) for state in (metric.part, metric.whole, metric.seen))
        at = torch.tensor(place, dtype=torch.long, device=part.device)
        part[at.unsqueeze(1), at] = shares.from_groups(by_source, targets)
        whole[at] = shares.from_groups(found.on_all.unsqueeze(-1), targets)[:, 0]
        seen[at] = targets.sum((0, 1)).double()
        metric.update(part, whole, seen)

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        for name, names in self._groups().items():
            metric = metrics[f"map_{name}"]
            assert isinstance(metric, PairShares)
            with metric.sync_context():
                found, seen = metric.part / metric.whole.unsqueeze(1), metric.seen.tolist()
            mean, even = found[..., :-1].mean(-1).tolist(), found[..., -1].tolist()
            for a, target in enumerate(names):
                for g, source in enumerate(names) if seen[a] else ():
                    yield Cell(f"map_{name}", site.name, target, source, mean[a][g], even[a][g], int(seen[a]))
