"""What crosses folders: the axis glossary, annotated text, and the frozen batches that every model shares.

Axes, in every shape of the package: `b` batch, `c` captions or questions, `h` head, `q` query, `k` key, `d` width,
`e` head width, `t` text, `r` region, `o` OCR, `v` vocabulary, `l` layer, `s` step, `y` and `x` rows and columns of a grid
or a picture.
Masks are boolean and True means "may attend".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Span = tuple[int, int]
"""Half-open range of token positions."""


@dataclass(frozen=True)
class Phrase:
    """A noun phrase of a text and the objects it names."""

    span: Span
    head: int
    """Position of the head noun."""
    objects: tuple[int, ...]
    """Indices into the objects of the picture, or into its detections where a linker chose them; empty when the phrase names
    none ("the room", "the left")."""


@dataclass(frozen=True)
class SpatialTriple:
    """What is where: target, relation, landmark, each as a token span."""

    target: Span
    relation: Span
    landmark: Span
    kind: str
    """`region`, `direction` or `distance`."""


@dataclass(frozen=True)
class Annotation:
    """One sentence with its grammar and its references. Token i's head is `heads[i]`; the root's head is itself."""

    tokens: tuple[str, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    """Universal part-of-speech tags."""
    heads: tuple[int, ...]
    deps: tuple[str, ...]
    """Dependency labels in the style of the papers (`det`, `amod`, `nsubj`, `prep`, `pobj`, …)."""
    phrases: tuple[Phrase, ...] = ()
    triples: tuple[SpatialTriple, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.lemmas), len(self.pos), len(self.heads), len(self.deps)}
        if sizes != {len(self.tokens)}:
            raise ValueError(
                f"An annotation needs one lemma, tag, head and label per token; "
                f"got {len(self.tokens)} tokens and sizes {sorted(sizes)}."
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


def joined(sentences: Sequence[Annotation]) -> Annotation:
    """Several sentences as one text; every sentence keeps a root of its own."""
    starts = list(accumulate((len(sentence) for sentence in sentences), initial=0))

    def moved(span: Span, start: int) -> Span:
        return span[0] + start, span[1] + start

    pairs = list(zip(sentences, starts, strict=False))
    return Annotation(
        tokens=tuple(token for sentence in sentences for token in sentence.tokens),
        lemmas=tuple(lemma for sentence in sentences for lemma in sentence.lemmas),
        pos=tuple(tag for sentence in sentences for tag in sentence.pos),
        heads=tuple(head + start for sentence, start in pairs for head in sentence.heads),
        deps=tuple(label for sentence in sentences for label in sentence.deps),
        phrases=tuple(
            Phrase(moved(phrase.span, start), phrase.head + start, phrase.objects)
            for sentence, start in pairs
            for phrase in sentence.phrases
        ),
        triples=tuple(
            SpatialTriple(
                moved(triple.target, start), moved(triple.relation, start), moved(triple.landmark, start), triple.kind
            )
            for sentence, start in pairs
            for triple in sentence.triples
        ),
    )


Batch = TypeVar("Batch", bound="TensorBatch")


class TensorBatch:
    """Moves a frozen dataclass of tensors as a whole. Lightning calls `to`; loaders call `pin_memory`."""

    def to(self: Batch, *args: Any, **kwargs: Any) -> Batch:
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def pin_memory(self: Batch) -> Batch:
        return self.map(torch.Tensor.pin_memory)

    def emptied(self: Batch) -> Batch:
        """The same without any sample: what a process gets when there are fewer samples than processes."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: None if value is None else value[:0] for name, value in values.items()})

    def map(self: Batch, function: Callable[[Tensor], Tensor]) -> Batch:
        """A copy with `function` applied to every tensor; everything else is kept."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: function(v) if isinstance(v, Tensor) else v for name, v in values.items()})


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """Pictures as regions, and captions that each belong to one of them."""

    image_id: Int[Tensor, " b"]
    regions: Float[Tensor, "b r f"]
    boxes: Float[Tensor, "b r 4"]
    """x1, y1, x2, y2 relative to the picture, in [0, 1]."""
    region_mask: Bool[Tensor, "b r"]
    caption_id: Int[Tensor, " c"]
    owner: Int[Tensor, " c"]
    """Which picture of this batch a caption belongs to."""
    tokens: Int[Tensor, "c t"]
    token_mask: Bool[Tensor, "c t"]
    sample_id: tuple[str, ...] = ()
    """One name per caption, stable over runs."""
    annotations: tuple[Annotation | None, ...] = ()
    """One per caption. Position i of an annotation is position i + 1 of `tokens`, which opens with START."""
    region_object: Int[Tensor, "b r"] | None = None
    """Which object of the picture a region shows, -1 for none: known on Scenes. Where phrases are linked to detections, every
    region is an object of its own."""
    region_labels: tuple[tuple[str, ...], ...] = ()
    picture_name: tuple[str, ...] = ()
    """One name per picture, such as its file's."""
    references: tuple[tuple[str, ...], ...] = ()
    """Per picture, all its captions whole: tokens joined by blanks."""

    def __len__(self) -> int:
        """The number of captions."""
        return len(self.caption_id)


QUESTION_KINDS = ("exist", "count", "query_attribute", "compare_attribute", "compare_integer")
"""The five kinds of CLEVR's questions."""


@dataclass(frozen=True)
class QuestionBatch(TensorBatch):
    """Pictures as grids of features, and questions that each belong to one of them."""

    image_id: Int[Tensor, " b"]
    grid: Float[Tensor, "b f y x"]
    question_id: Int[Tensor, " c"]
    owner: Int[Tensor, " c"]
    """Which picture of this batch a question belongs to."""
    tokens: Int[Tensor, "c t"]
    token_mask: Bool[Tensor, "c t"]
    answer: Int[Tensor, " c"]
    """Number of the answer; -1 where it is not known."""
    kind: tuple[str, ...]
    """One of QUESTION_KINDS per question; empty where it is not known."""
    words: tuple[tuple[str, ...], ...]
    """The question's words as they were asked, one per position of `tokens`."""
    sample_id: tuple[str, ...] = ()
    """One name per question, stable over runs."""
    causes: Bool[Tensor, "c k"] | None = None
    """Cells, row by row, that show what the answer rests on: known on Scenes only."""
    spokesmen: Bool[Tensor, "c k"] | None = None
    """Of these the one cell that speaks for each thing, so that there are as many as things."""
    picture_name: tuple[str, ...] = ()
    """One name per picture, such as its file's."""

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.question_id)


@dataclass(frozen=True)
class ReadingBatch(TensorBatch):
    """Questions that need reading, each with the objects and the OCR tokens of its picture."""

    question_id: Int[Tensor, " b"]
    image_id: Int[Tensor, " b"]
    tokens: Int[Tensor, "b t"]
    token_mask: Bool[Tensor, "b t"]
    regions: Float[Tensor, "b r f"]
    boxes: Float[Tensor, "b r 4"]
    """x1, y1, x2, y2 relative to the picture, in [0, 1]; so are `ocr_boxes`."""
    region_mask: Bool[Tensor, "b r"]
    ocr_vectors: Float[Tensor, "b o w"]
    """Word vectors of the tokens."""
    ocr_phoc: Float[Tensor, "b o p"]
    ocr_regions: Float[Tensor, "b o f"]
    """Detector features at the tokens."""
    ocr_boxes: Float[Tensor, "b o 4"]
    ocr_mask: Bool[Tensor, "b o"]
    previous: Int[Tensor, "b s"]
    """What the decoder reads at each step when it is taught: below v an answer word, from v on an OCR token."""
    targets: Float[Tensor, "b s n"]
    """Scores of the v answer words and then the o OCR tokens at each step."""
    step_mask: Bool[Tensor, "b s"]
    """Steps that count in the loss."""
    words: tuple[tuple[str, ...], ...]
    """The question's words or word pieces, one per position of `tokens`."""
    ocr_words: tuple[tuple[str, ...], ...]
    answers: tuple[tuple[str, ...], ...]
    """What people answered; empty where it is not known."""
    sample_id: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    """What is asked for, where it is known."""
    region_causes: Bool[Tensor, "b r"] | None = None
    """Regions that show what the answer rests on, and `ocr_causes` the tokens on it: known on Scenes only."""
    ocr_causes: Bool[Tensor, "b o"] | None = None
    picture_name: tuple[str, ...] = ()
    annotations: tuple[Annotation | None, ...] = ()
    """One per question. Position i of an annotation is position i + 1 of `tokens`, unless `word_of` is there."""
    region_object: Int[Tensor, "b r"] | None = None
    """Which object of the picture a region shows, -1 for none: known on Scenes. Where phrases are linked to detections, every
    region is an object of its own."""
    ocr_object: Int[Tensor, "b o"] | None = None
    """Which object carries an OCR token, -1 for none: known on Scenes only."""
    region_labels: tuple[tuple[str, ...], ...] = ()
    """Per question what each region is called; empty where that is not known."""
    word_of: Int[Tensor, "b t"] | None = None
    """Where annotated questions are read in word pieces: which word of its annotation a token is a piece of, -1 for none."""

    def __len__(self) -> int:
        return len(self.question_id)


@dataclass(frozen=True)
class SynthesisBatch(TensorBatch):
    """Pictures, each with one caption; or captions alone, from which pictures are to be made."""

    caption_id: Int[Tensor, " b"]
    image_id: Int[Tensor, " b"]
    tokens: Int[Tensor, "b t"]
    token_mask: Bool[Tensor, "b t"]
    class_id: Int[Tensor, " b"]
    """Pictures of one class are no wrong match for each other's captions. Without classes: the picture's own id."""
    words: tuple[tuple[str, ...], ...]
    """The caption's words as they were said, one per position of `tokens`."""
    sample_id: tuple[str, ...] = ()
    picture_name: tuple[str, ...] = ()
    image: Float[Tensor, "b 3 y x"] | None = None
    """In [-1, 1], at the largest resolution. None where there are captions alone."""
    word_cells: Bool[Tensor, "b t y x"] | None = None
    """Where the things lie that a word is about, on a coarse grid: known on Scenes only."""
    main_kind: Int[Tensor, " b"] | None = None
    """Kind and colour of the largest thing that the caption names with its colour, -1 for none: known on Scenes only."""
    main_color: Int[Tensor, " b"] | None = None
    looks: Int[Tensor, "b n"] | None = None
    """Per kind the colour of its largest thing in the picture, the number of colours where there is none: known on Scenes
    only, and so is `main_thing`."""
    main_thing: Int[Tensor, " b"] | None = None
    """Kind of the largest thing of the picture."""

    def __len__(self) -> int:
        return len(self.caption_id)


@dataclass(frozen=True)
class SentenceBatch(TensorBatch):
    """Sentences, each of which belongs to a class."""

    sentence_id: Int[Tensor, " b"]
    tokens: Int[Tensor, "b t"]
    """The first one is the classifier's own, the last one ends the sentence."""
    token_mask: Bool[Tensor, "b t"]
    answer: Int[Tensor, " b"]
    """Number of the class; -1 where it is not known."""
    kind: tuple[str, ...]
    """What sentences are told apart by in scores, such as how many attractors they have; empty where it is not known."""
    words: tuple[tuple[str, ...], ...]
    """One word or word piece per position of `tokens`."""
    sample_id: tuple[str, ...] = ()
    causes: Bool[Tensor, "b t"] | None = None
    """Positions that the class rests on: known where sentences come from a grammar of ours."""

    def __len__(self) -> int:
        return len(self.sentence_id)


@dataclass(frozen=True)
class TextBatch(TensorBatch):
    """Annotated texts in the word pieces of some model, perhaps with what the regions of their pictures show."""

    tokens: Int[Tensor, "c t"]
    token_mask: Bool[Tensor, "c t"]
    word_of: Int[Tensor, "c t"]
    """Which word of its annotation a token is a piece of; -1 for none, such as [CLS] and padding."""
    annotations: tuple[Annotation, ...]
    sample_id: tuple[str, ...]
    drop_first: bool = False
    """Whether the first token is no source: a language model without START leaves there what it does not need."""
    region_object: Int[Tensor, "c r"] | None = None

    def __len__(self) -> int:
        return len(self.tokens)
