"""Which words does a batch hold, what does each of them show, and where do they stand among its tokens?"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.probes.memory import Store, once, store_of
from lit_attn.probes.places import joined, marked, places_in_rows, table
from lit_attn.types import Annotation, CaptionBatch, ReadingBatch, TextBatch

Sources = Literal["words", "regions", "ocr"]

NOTHING = Annotation((), (), (), (), ())
"""In place of an annotation that is missing."""

Made = TypeVar("Made")


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
    kept: Store = field(default_factory=dict)
    """What was made of it, for the records and probes that follow."""

    @property
    def device(self) -> torch.device:
        return self.word_of.device

    @cached_property
    def longest(self) -> int:
        return max(self.lengths, default=0)

    @cached_property
    def exists(self) -> Bool[Tensor, "c n"]:
        lengths = torch.tensor(self.lengths, device=self.device)
        return torch.arange(self.longest, device=lengths.device) < lengths.unsqueeze(1)

    @cached_property
    def tables(self) -> Store:
        """What was made of the annotations, also for the next time that the network sees them."""
        shown = [
            None if known is None else known.cpu().numpy().tobytes() for known in (self.region_object, self.ocr_object)
        ]
        return store_of(
            "words", self.annotations, (self.sample_id, self.lengths, self.region_labels, *shown, str(self.device))
        )

    def table(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """One of them, made when it is first asked for."""
        if key not in self.tables:
            self.tables[key] = make()
        return cast(Made, self.tables[key])

    def each(self, make: Callable[[int, Annotation], Made]) -> list[Made]:
        """What `make` gives for every text, by its number and annotation."""
        return [make(c, annotation or NOTHING) for c, annotation in enumerate(self.annotations)]

    @property
    def tags(self) -> tuple[tuple[str, ...], Bool[Tensor, "c n t"]]:
        """The tags that occur, and which word of each text has which."""
        return self.table("tags", self._tagged)

    def _tagged(self) -> tuple[tuple[str, ...], Bool[Tensor, "c n t"]]:
        own = self.each(lambda c, annotation: annotation.pos[: self.lengths[c]])
        names = tuple(sorted(set().union(*own)))
        number = {name: i for i, name in enumerate(names)}
        found = joined([table([(i, number[tag]) for i, tag in enumerate(tags)], 2) for tags in own], 2)
        return names, marked(found, (len(own), self.longest, len(names)), self.device)

    @cached_property
    def grouped(self) -> Bool[Tensor, "c n g"]:
        """Which word has which tag; last, all words."""
        return torch.cat([self.tags[1], self.exists.unsqueeze(-1)], -1)

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
            self.kept["shown", sources] = places_in_rows(known.cpu().numpy())
        shown = cast(list[dict[int, list[int]]], self.kept["shown", sources])[text]
        return sorted({r for thing in objects for r in shown.get(thing, ())})


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
        whole = batch.word_of is None
        if batch.word_of is None:
            word_of, lengths = _whole_words(batch.tokens, batch.token_mask, batch.annotations, batch.sample_id)
        else:
            _refuse_bare(batch.annotations, batch.sample_id)
            word_of, lengths = batch.word_of, _words_in(batch.word_of)
        shown, labels, ocr = batch.region_object, batch.region_labels, batch.ocr_object
        return Text(batch.annotations, batch.sample_id, lengths, word_of, shown, labels, ocr, whole=whole)
    if isinstance(batch, TextBatch):
        found = _words_in(batch.word_of)
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
    _refuse_bare(annotations, sample_id)
    held = (token_mask.sum(-1) - 2).clamp_min(0).tolist()
    lengths = []
    for i, (annotation, words) in enumerate(zip(annotations, held, strict=True)):
        if annotation is not None and (words > len(annotation) or (words < len(annotation) and words < max(held))):
            raise UserError(_disagreement(sample_id[i] if sample_id else str(i), words, annotation))
        lengths.append(0 if annotation is None else words)
    place = torch.arange(tokens.shape[1], device=tokens.device) - 1
    inside = place < torch.tensor(lengths, device=tokens.device).unsqueeze(1)
    return torch.where(inside & (place >= 0), place, -1), tuple(lengths)


def _words_in(word_of: Int[Tensor, "c t"]) -> tuple[int, ...]:
    """How many words each text of pieces has."""
    return tuple(int(last) + 1 for last in word_of.amax(-1).tolist())


def _refuse_bare(annotations: tuple[Annotation | None, ...], sample_id: tuple[str, ...]) -> None:
    if all(annotation is None for annotation in annotations):
        named = f", for example {sample_id[0]}" if sample_id else ""
        raise UserError(
            f"No text of this batch is annotated{named}. Probes of words need annotations: use Scenes, which has gold ones, or "
            "annotate the text with --data.annotate, by the name of a spaCy pipeline or a CoNLL-U file."
        )


def _disagreement(sample: str, words: int, annotation: Annotation | None) -> str:
    if annotation is None:
        return f"The text {sample} has no annotation. Annotate it, or leave it out."
    return (
        f"The annotation of {sample} does not fit its text: the network sees {words} words and the annotation has "
        f"{len(annotation)} ({annotation.text[:60]!r}). Annotate the tokens that the data set gives."
    )
