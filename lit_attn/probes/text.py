"""Which words does a batch hold, and where do they stand among the rows and columns of its attention?

Words are those of annotations. Every model sees them at places of its own: a captioner after START, a language model in pieces,
M4C inside a joint sequence. `attention_of` gives all probes the same: weights from words to words, to regions or to OCR tokens,
and beside the heads one more, even attention over all that could be attended to, which scores the chance level.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops.pieces import word_attention
from lit_attn.probes.memory import once
from lit_attn.probes.places import places
from lit_attn.types import Annotation, CaptionBatch, ReadingBatch, TextBatch

Align = Literal["predict", "input"]
Sources = Literal["words", "regions", "ocr"]

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
    """Attention of the words of some texts; the last of the `k` heads is even attention."""

    weights: Float[Tensor, "c k n m"]
    total: Float[Tensor, "c k n"]
    """All weight of a row: that on START, and on whatever else is there, included."""
    rows: Bool[Tensor, "c n"]
    """Words that exist and have a row."""

    @cached_property
    def on_all(self) -> Float[Tensor, "c k n"]:
        """Weight on all sources together."""
        return self.weights.sum(-1, dtype=torch.float64)

    @cached_property
    def sees(self) -> Bool[Tensor, "c n"]:
        """Words that could attend to at least one source."""
        return (self.weights[:, -1] > 0).any(-1)

    @cached_property
    def kept(self) -> dict[object, Tensor]:
        """What probes made of it, for others that ask the same."""
        return {}


@dataclass(frozen=True, eq=False)
class Text:
    """The annotated words of a batch."""

    annotations: tuple[Annotation | None, ...]
    sample_id: tuple[str, ...]
    lengths: tuple[int, ...]
    """How many words of each annotation the network saw: a long text is cut. 0 without an annotation."""
    word_of: Int[Tensor, "c t"]
    """Which word each token is, or is a piece of; -1 for START, END, padding and words that are not annotated."""
    region_object: Int[Tensor, "c r"] | None
    region_labels: tuple[tuple[str, ...], ...]
    ocr_object: Int[Tensor, "c o"] | None = None
    whole: bool = False
    """Whether tokens are START, then word by word."""
    drop_first: bool = False
    """Whether the first token is no source: a language model without START keeps what it does not need there."""
    views: dict[tuple[int, Align, Sources], tuple[AttentionRecord, WordAttention]] = field(default_factory=dict)
    """Of the record that was heard last."""
    kept: dict[object, object] = field(default_factory=dict)
    """What probes made of the annotations, for the records that follow."""

    @property
    def longest(self) -> int:
        return max(self.lengths, default=0)

    @property
    def exists(self) -> Bool[Tensor, "c n"]:
        lengths = torch.tensor(self.lengths, device=self.word_of.device)
        return torch.arange(self.longest, device=lengths.device) < lengths.unsqueeze(1)

    def regions_of(self, text: int, objects: tuple[int, ...], sources: Sources = "regions") -> list[int]:
        """The regions that show any of these objects, or the OCR tokens on them."""
        if not objects:
            return []
        known = self.region_object if sources == "regions" else self.ocr_object
        if known is None:
            raise UserError(
                "This probe needs to know what regions show, and this data set does not say. Leave it out, "
                "use Scenes, or link phrases to detections (data.link lemma)."
            )
        if ("shown", sources) not in self.kept:
            self.kept["shown", sources] = [places(row) for row in known.tolist()]
        shown = self.kept["shown", sources]
        assert isinstance(shown, list)
        return sorted({r for thing in objects for r in shown[text].get(thing, ())})


def text_of(batch: object) -> Text:
    """The words of a batch; made once."""
    return once(batch, Text, lambda: _read(batch))


def _read(batch: object) -> Text:
    if isinstance(batch, CaptionBatch):
        owner = batch.owner.tolist()
        shown = None if batch.region_object is None else batch.region_object[batch.owner]
        labels = tuple(batch.region_labels[i] for i in owner) if batch.region_labels else ()
        word_of, lengths = _whole_words(batch.tokens, batch.token_mask, batch.annotations, batch.sample_id)
        return Text(batch.annotations, batch.sample_id, lengths, word_of, shown, labels, whole=True)
    if isinstance(batch, ReadingBatch):
        word_of, lengths = _whole_words(batch.tokens, batch.token_mask, batch.annotations, batch.sample_id)
        ocr = batch.ocr_object
        return Text(batch.annotations, batch.sample_id, lengths, word_of, batch.region_object, (), ocr, whole=True)
    if isinstance(batch, TextBatch):
        found = tuple(int(n) + 1 for n in batch.word_of.amax(-1).tolist())
        for i, (annotation, words) in enumerate(zip(batch.annotations, found, strict=True)):
            if annotation is None or words > len(annotation):
                raise UserError(_disagreement(batch.sample_id[i], words, annotation))
        shown, drop = batch.region_object, batch.drop_first
        return Text(batch.annotations, batch.sample_id, found, batch.word_of, shown, (), drop_first=drop)
    raise UserError(f"Probes of words cannot read a {type(batch).__name__}: it carries no annotated text.")


def _whole_words(
    tokens: Int[Tensor, "c t"],
    token_mask: Bool[Tensor, "c t"],
    annotations: tuple[Annotation | None, ...],
    sample_id: tuple[str, ...],
) -> tuple[Int[Tensor, "c t"], tuple[int, ...]]:
    """Tokens between START and END are the words of the annotation, one by one; the last ones of a long text are cut."""
    if all(annotation is None for annotation in annotations):
        named = f", for example {sample_id[0]}" if sample_id else ""
        raise UserError(
            f"No text of this batch is annotated{named}. Probes of words need annotations: use Scenes, which has gold ones, or "
            "annotate the text."
        )
    held = (token_mask.sum(-1) - 2).clamp_min(0).tolist()
    lengths = []
    for i, (annotation, words) in enumerate(zip(annotations, held, strict=True)):
        if annotation is not None and (words > len(annotation) or (words < len(annotation) and words < max(held))):
            raise UserError(_disagreement(sample_id[i] if sample_id else str(i), words, annotation))
        lengths.append(0 if annotation is None else words)
    place = torch.arange(tokens.shape[1], device=tokens.device) - 1
    inside = place < torch.tensor(lengths, device=tokens.device).unsqueeze(1)
    return torch.where(inside & (place >= 0), place, -1), tuple(lengths)


def _disagreement(sample: str, words: int, annotation: Annotation | None) -> str:
    if annotation is None:
        return f"The text {sample} has no annotation. Annotate it, or leave it out."
    return (
        f"The annotation of {sample} does not fit its text: the network sees {words} words and the annotation has "
        f"{len(annotation)} ({annotation.text[:60]!r}). Annotate the tokens that the data set gives."
    )


def attention_of(record: AttentionRecord, text: Text, align: Align, sources: Sources) -> WordAttention:
    """The attention of words at one site. At sites that predict, `predict` takes a word's row to be the one that produces it,
    `input` the one that has read it; elsewhere both are the word's own row."""
    key = (id(record), align, sources)  # the record is kept with its view, so that no other can have its id
    if key not in text.views:
        if any(known[0] != key[0] for known in text.views):
            text.views.clear()
        text.views[key] = record, _view(record, text, align, sources)
    return text.views[key][1]


def _view(record: AttentionRecord, text: Text, align: Align, sources: Sources) -> WordAttention:
    rows, columns = _place(record, "words"), _place(record, sources)
    weights = record.weights[:, :, rows]
    allowed = record.key_mask.expand(-1, record.weights.shape[2], -1)[:, rows]
    even = allowed.to(weights.dtype) / allowed.sum(-1, keepdim=True).clamp_min(1)
    total = torch.cat([weights.sum(-1), allowed.any(-1, keepdim=True).transpose(1, 2).to(weights.dtype)], 1)
    weights, even = weights[..., columns], even[..., columns]
    produces = record.site.predicts and align == "predict"
    first, words = 0 if produces else 1, text.longest
    keys = words + 1 if sources == "words" else 0
    if text.whole and first + words <= weights.shape[2] and keys <= weights.shape[3]:
        return _of_whole_words(weights, even, total, text, first, sources)
    weights = torch.cat([weights, even.unsqueeze(1)], 1)
    row_word = text.word_of
    if produces:
        row_word = torch.nn.functional.pad(row_word[:, 1:], (0, 1), value=-1)
    row_word = row_word[:, : weights.shape[2]]
    exists = (row_word.unsqueeze(-1) == torch.arange(words, device=row_word.device)).any(1)
    sums = word_attention(total.unsqueeze(-1), row_word, torch.zeros_like(row_word[:, :1]), words, 1)[..., 0]
    if sources != "words":
        every = torch.arange(weights.shape[-1], device=row_word.device).expand(len(weights), -1)
        return WordAttention(word_attention(weights, row_word, every, words, weights.shape[-1]), sums, exists)
    column_word = text.word_of[:, : weights.shape[-1]].clone()
    if text.drop_first:
        column_word[:, 0] = -1
        first_one = word_attention(weights[..., :1], row_word, torch.zeros_like(row_word[:, :1]), words, 1)[..., 0]
        sums = sums - first_one
    return WordAttention(word_attention(weights, row_word, column_word, words, words), sums, exists)


def _of_whole_words(
    weights: Float[Tensor, "c h q m"],
    even: Float[Tensor, "c q m"],
    total: Float[Tensor, "c k q"],
    text: Text,
    first: int,
    sources: Sources,
) -> WordAttention:
    """The same where every word is one token: rows and columns are cut out, and those behind the last word are 0."""
    rows = slice(first, first + text.longest)
    columns = slice(1, 1 + text.longest) if sources == "words" else slice(None)
    exists = text.exists
    inside = exists.unsqueeze(2).to(weights.dtype)
    if sources == "words":
        inside = inside * exists.unsqueeze(1)
    cut = weights.new_empty(len(weights), weights.shape[1] + 1, text.longest, even[..., columns].shape[-1])
    torch.mul(weights[:, :, rows, columns], inside.unsqueeze(1), out=cut[:, :-1])
    torch.mul(even[:, rows, columns], inside, out=cut[:, -1])
    return WordAttention(cut, total[:, :, rows] * exists.unsqueeze(1), exists)


def _place(record: AttentionRecord, stream: Sources) -> slice:
    if record.site.query_stream != JOINT:
        return slice(None)
    return record.part(next(name for name in STREAMS[stream] if any(part.stream == name for part in record.parts)))
