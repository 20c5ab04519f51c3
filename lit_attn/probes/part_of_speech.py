"""Which parts of speech does attention between words go to, and from which? Paper (a), Eq. 3 and its maps.

P(tag) is the attention on words with this tag over the attention on all words, summed over words and texts. START has no
part in either, unless asked for, and rows are not renormalised: the ratio does that.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError, did_you_mean
from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.pair_shares import PairShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import joined, marked, table
from lit_attn.probes.probe import Cell, Probe
from lit_attn.probes.text import Text, text_of
from lit_attn.probes.words import Align, WordAttention, attention_of, concerns
from lit_attn.types import Annotation

TAGS = ("DET", "NOUN", "ADJ", "VERB", "ADP")
"""Those of the paper."""
UNIVERSAL = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X",
)  # fmt: skip


def known_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """These tags, if they are universal ones."""
    for tag in tags:
        if tag not in UNIVERSAL:
            hint = did_you_mean(tag.upper(), UNIVERSAL)
            raise UserError(f"{tag!r} is no universal part-of-speech tag.{hint} There are {', '.join(UNIVERSAL)}.")
    return tuple(tags)


def members(names: Sequence[str], sets: Sequence[Sequence[str]], like: Tensor) -> Float[Tensor, "g t"]:
    """Which of the tags that occur belongs to which set."""
    member = [[name in chosen for name in names] for chosen in sets]
    return torch.tensor(member, dtype=like.dtype, device=like.device).reshape(len(sets), len(names))


class PartOfSpeech(Probe):
    """`pos_noun` and its like: the share of attention on words with a tag, with its chance level.

    Args:
        tags: Universal tags to ask about.
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
        include_start: Count START, and whatever else is no word, in the denominator.
    """

    def __init__(self, tags: Sequence[str] = TAGS, align: Align = "predict", include_start: bool = False) -> None:
        self.tags, self.align, self.include_start = known_tags(tags), align, include_start

    def metrics(self, site: Site) -> dict[str, Metric]:
        names = [f"pos_{tag.lower()}" for tag in self.tags]
        return {"pos": HeadShares(site.num_heads, names)} if concerns(site, "words") else {}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        sums = found.with_even("tags", _from_all)
        part = members(text.tags[0], [[tag] for tag in self.tags], sums) @ sums[:-1]
        whole = found.with_even("total", _total) if self.include_start else sums[-1]
        metrics["pos"].update(part, whole.expand_as(part), found.sees.sum().double().expand(len(part), 1))


def _from_all(found: WordAttention) -> Float[Tensor, "g h"]:
    return found.between_tags.sum(0)


def _total(found: WordAttention) -> Float[Tensor, " h"]:
    return (found.total.double() * found.rows.unsqueeze(1)).sum((0, 2))


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
        return {f"map_{name}": PairShares(site.num_heads, len(of)) for name, of in self._groups().items()}

    def _groups(self) -> dict[str, tuple[str, ...]]:
        return {"pos": UNIVERSAL} | ({"words": self.words} if self.words else {})

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        tag, group = text.table("universal tags", partial(_universal, text))
        between = found.with_even("between tags", _between).index_select(0, tag)
        seen = found.shared("seen by tag", lambda: _counts(found, text.tags[1][..., tag]))
        metrics["map_pos"].update(between.index_select(1, tag), between[:, -1], seen, group)
        if self.words:
            chosen = _worded(text, self.words)
            by_word = found.with_even(("by word", self.words), partial(_between_words, chosen=chosen))
            seen = found.shared(("seen by word", self.words), lambda: _counts(found, chosen))
            group = torch.arange(len(self.words), device=seen.device)
            metrics["map_words"].update(by_word[:, :-1], by_word[:, -1], seen, group)

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


def _between(found: WordAttention) -> Float[Tensor, "t g h"]:
    return found.between_tags


def _between_words(found: WordAttention, chosen: Bool[Tensor, "c n g"]) -> Float[Tensor, "g s h"]:
    """From chosen words to chosen words and, last, to all."""
    groups = torch.cat([chosen, found.text.exists.unsqueeze(-1)], -1)
    return shares.from_groups(shares.by_group(found.weights, groups), chosen & found.rows.unsqueeze(-1))


def _worded(text: Text, words: tuple[str, ...]) -> Bool[Tensor, "c n g"]:
    """Which word of each text is which of these."""
    number = {word: g for g, word in enumerate(words)}

    def own(c: int, annotation: Annotation) -> Int[np.ndarray, "x 2"]:
        tokens = annotation.tokens[: text.lengths[c]]
        return table([(i, number[token]) for i, token in enumerate(tokens) if token in number], 2)

    shape = (len(text.lengths), text.longest, len(words))
    return text.table(("words", words), lambda: marked(joined(text.each(own), 2), shape, text.device))


def _universal(text: Text) -> tuple[Int[Tensor, " x"], Int[Tensor, " x"]]:
    """Which of the tags that occur are universal ones, and which."""
    known = [(g, UNIVERSAL.index(name)) for g, name in enumerate(text.tags[0]) if name in UNIVERSAL]
    tag, group = torch.from_numpy(table(known, 2)).to(text.device).unbind(1)
    return tag, group


def _counts(found: WordAttention, groups: Bool[Tensor, "c n g"]) -> Float[Tensor, " g"]:
    """How many words of each group see a word."""
    return (groups & found.sees.unsqueeze(-1)).sum((0, 1)).double()
