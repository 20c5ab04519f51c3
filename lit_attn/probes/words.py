"""Where do words stand among the rows and columns of attention?

Words are those of annotations. Every model sees them at places of its own: a captioner after START, a language model in pieces,
M4C inside a joint sequence. `attention_of` gives all probes the same: weights from words to words, to regions or to OCR tokens,
and beside the heads even attention over all that could be attended to, which scores the chance level.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, NamedTuple, TypeVar, cast
from weakref import ref

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.ops.pieces import word_attention
from lit_attn.probes.memory import Store
from lit_attn.probes.text import Sources, Text

Made = TypeVar("Made")
Align = Literal["predict", "input"]

STREAMS = {"words": ("words", "text", "question"), "regions": ("regions", "image", "objects"), "ocr": ("ocr",)}
"""What the streams of annotated words and of their sources are called at sites and in parts of joint sequences."""
JOINT = "joint"


def concerns(site: Site, sources: Sources) -> bool:
    """Whether words attend to such sources there."""
    if site.query_stream == JOINT:
        return True
    return site.query_stream in STREAMS["words"] and site.key_stream in STREAMS[sources]


@dataclass(frozen=True, eq=False)
class WordAttention:
    """Attention of the words of some texts. What stands behind the last word of a text means nothing."""

    text: Text
    weights: Float[Tensor, "c h n m"]
    total: Float[Tensor, "c h n"]
    """All weight of a row: that on START, and on whatever else is there, included."""
    rows: Bool[Tensor, "c n"]
    """Words that exist and have a row."""
    even: "WordAttention | None" = None
    """One head with even attention over all that could be attended to; None if this is that one."""
    kept: Store = field(default_factory=dict)
    """What was made for it; used of even attention alone, which many sites share."""

    @cached_property
    def by_tag(self) -> Float[Tensor, "c n g h"]:
        """Attention on the words of each tag that occurs and, last, on all words."""
        return shares.by_group(self.weights, self.text.grouped).mul_(self.rows[..., None, None])

    @cached_property
    def between_tags(self) -> Float[Tensor, "t g h"]:
        """The same, added up by the tags of the words that attend."""
        return shares.from_groups(self.by_tag, self.text.tags[1])

    @property
    def on_all(self) -> Float[Tensor, "c n h"]:
        """Weight on all words together."""
        return self.by_tag[:, :, -1]

    @cached_property
    def sees(self) -> Bool[Tensor, "c n"]:
        """Words that could attend to at least one word."""
        return (self.on_all > 0)[..., 0] if self.even is None else self.even.sees

    def with_even(
        self, key: Hashable, ask: Callable[["WordAttention"], Float[Tensor, "*g h"]]
    ) -> Float[Tensor, "*g k"]:
        """What is asked of the heads and, as one more head, of even attention: that is the chance level. Questions with the same
        key are the same, so that even attention is asked once for all sites."""
        assert self.even is not None
        return torch.cat([ask(self), self.shared(key, partial(ask, self.even))], -1)

    def shared(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What depends on the texts and on what may be attended to alone: made once for all sites where that is the same."""
        assert self.even is not None
        kept = self.even.kept
        if key not in kept:
            kept[key] = make()
        return cast(Made, kept[key])


class _Even(NamedTuple):
    """Even attention over the allowed keys of a site, and what it depends on."""

    key: tuple[object, ...]
    key_mask: Bool[Tensor, "c _ k"]
    attention: WordAttention


class _Last(NamedTuple):
    """The record that is heard now, and the attention of words in it, which is forgotten with it."""

    record: ref[AttentionRecord]
    views: dict[tuple[Align, Sources], WordAttention]


def attention_of(record: AttentionRecord, text: Text, align: Align, sources: Sources) -> WordAttention:
    """The attention of words at one site. At sites that predict, `predict` takes a word's row to be the one that produces it,
    `input` the one that has read it; elsewhere both are the word's own row."""
    last = cast(_Last | None, text.kept.get("heard"))
    if last is None or last.record() is not record:
        last = text.kept["heard"] = _Last(ref(record, lambda _: text.kept.pop("heard", None)), {})
    if (align, sources) not in last.views:
        even = _even(record, text, align, sources)
        words = _words(record.weights, record, text, align, sources)
        last.views[align, sources] = WordAttention(text, *words, even.rows, even)
    return last.views[align, sources]


def _even(record: AttentionRecord, text: Text, align: Align, sources: Sources) -> WordAttention:
    """Even attention at a site: the same at all sites with the same mask, as those of all layers of a decoder."""
    site, queries = record.site, record.weights.shape[2]
    key = (align, sources, site.predicts, site.query_stream, site.key_stream, queries, record.parts)
    evens = cast(list[_Even], text.kept.setdefault("even", []))
    for known in evens:
        if known.key == key and torch.equal(known.key_mask, record.key_mask):
            return known.attention
    allowed = record.key_mask.expand(-1, queries, -1).unsqueeze(1).double()
    weights, total = _words(allowed / allowed.sum(-1, keepdim=True).clamp_min(1), record, text, align, sources)
    rows = _row_words(record, text, align)
    exists = (rows.unsqueeze(-1) == torch.arange(text.longest, device=rows.device)).any(1)
    found = WordAttention(text, weights, total, exists)
    evens.append(_Even(key, record.key_mask, found))
    return found


def _produces(record: AttentionRecord, align: Align) -> bool:
    return record.site.predicts and align == "predict"


def _row_words(record: AttentionRecord, text: Text, align: Align) -> Int[Tensor, "c q"]:
    """The word that each row is about."""
    words = text.word_of
    if _produces(record, align):
        words = torch.nn.functional.pad(words[:, 1:], (0, 1), value=-1)
    queries = len(range(*_place(record, "words").indices(record.weights.shape[2])))
    return words[:, :queries]


def _words(
    weights: Float[Tensor, "c h q k"], record: AttentionRecord, text: Text, align: Align, sources: Sources
) -> tuple[Float[Tensor, "c h n m"], Float[Tensor, "c h n"]]:
    """Weights from words to sources, and all weight of a word's row. Where every word is one token, they are cut out."""
    weights, columns, words = weights[:, :, _place(record, "words")], _place(record, sources), text.longest
    first, behind = 0 if _produces(record, align) else 1, words + 1 if sources == "words" else 0
    if text.whole and first + words <= weights.shape[2] and behind <= weights[..., columns].shape[3]:
        rows = weights[:, :, first : first + words]
        found = rows[..., columns]
        return found[..., 1:behind] if sources == "words" else found, rows.sum(-1)
    row_word = _row_words(record, text, align)
    one = torch.zeros_like(row_word[:, :1])
    total = word_attention(weights.sum(-1, keepdim=True), row_word, one, words, 1)[..., 0]
    weights = weights[..., columns]
    if sources != "words":
        every = torch.arange(weights.shape[-1], device=row_word.device).expand(len(weights), -1)
        return word_attention(weights, row_word, every, words, weights.shape[-1]), total
    column_word = text.word_of[:, : weights.shape[-1]].clone()
    if text.drop_first:
        column_word[:, 0] = -1
        total = total - word_attention(weights[..., :1], row_word, one, words, 1)[..., 0]
    return word_attention(weights, row_word, column_word, words, words), total


def _place(record: AttentionRecord, stream: Sources) -> slice:
    if record.site.query_stream != JOINT:
        return slice(None)
    return record.part(next(name for name in STREAMS[stream] if any(part.stream == name for part in record.parts)))
