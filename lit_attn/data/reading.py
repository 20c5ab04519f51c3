"""What is a question that needs reading before it is a batch, and how do several become one?"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from lit_attn.data.answer_paths import Lesson, draw, lesson
from lit_attn.data.answer_words import AnswerWords
from lit_attn.data.batched import BatchedData
from lit_attn.data.question_tokens import QuestionTokens
from lit_attn.data.word_vectors import WordVectors, open_word_vectors
from lit_attn.errors import UserError
from lit_attn.ops.phoc import phoc
from lit_attn.types import Annotation, ReadingBatch

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class ReadingSample:
    """One question about one picture, cut to what the model may see of it."""

    question_id: int
    image_id: int
    sample_id: str
    picture_name: str
    ids: tuple[int, ...]
    words: tuple[str, ...]
    regions: Floats
    boxes: Floats
    ocr_words: tuple[str, ...]
    """Clean, as they are copied into answers."""
    ocr_vectors: Floats
    ocr_phoc: Floats
    ocr_regions: Floats
    ocr_boxes: Floats
    answers: tuple[str, ...]
    num_answers: int
    """Answer words, after which ids of OCR tokens begin."""
    lesson: Lesson
    kind: str = ""
    region_causes: Bools | None = None
    ocr_causes: Bools | None = None
    annotation: Annotation | None = None
    region_object: NDArray[np.int64] | None = None
    ocr_object: NDArray[np.int64] | None = None
    labels: tuple[str, ...] = ()
    """What each region is called, where that is known."""
    word_of: NDArray[np.int64] | None = None
    """Of word pieces the word of the annotation, -1 for none."""


def collate(samples: Sequence[ReadingSample]) -> ReadingBatch:
    """Pads everything to the longest of the batch. There is room for one region and one token even where there is none."""
    region_mask = _padded([np.ones(len(sample.regions), bool) for sample in samples], least=1)
    ocr_mask = _padded([np.ones(len(sample.ocr_words), bool) for sample in samples], least=1)
    ids = [np.array(sample.ids, np.int64) for sample in samples]
    previous = torch.tensor([sample.lesson.previous for sample in samples])
    knows_causes = all(sample.region_causes is not None and sample.ocr_causes is not None for sample in samples)
    return ReadingBatch(
        question_id=torch.tensor([sample.question_id for sample in samples]),
        image_id=torch.tensor([sample.image_id for sample in samples]),
        tokens=_padded(ids),
        token_mask=_padded([np.ones(len(own), bool) for own in ids]),
        regions=_padded([sample.regions for sample in samples], least=1),
        boxes=_padded([sample.boxes for sample in samples], least=1),
        region_mask=region_mask,
        ocr_vectors=_padded([sample.ocr_vectors for sample in samples], least=1),
        ocr_phoc=_padded([sample.ocr_phoc for sample in samples], least=1),
        ocr_regions=_padded([sample.ocr_regions for sample in samples], least=1),
        ocr_boxes=_padded([sample.ocr_boxes for sample in samples], least=1),
        ocr_mask=ocr_mask,
        previous=previous,
        targets=_targets(samples, previous.shape[1], ocr_mask.shape[1]),
        step_mask=torch.arange(previous.shape[1]) < torch.tensor([[sample.lesson.counted] for sample in samples]),
        words=tuple(sample.words for sample in samples),
        ocr_words=tuple(sample.ocr_words for sample in samples),
        answers=tuple(sample.answers for sample in samples),
        sample_id=tuple(sample.sample_id for sample in samples),
        kind=tuple(sample.kind for sample in samples),
        region_causes=_padded([_known(sample.region_causes) for sample in samples], least=1) if knows_causes else None,
        ocr_causes=_padded([_known(sample.ocr_causes) for sample in samples], least=1) if knows_causes else None,
        picture_name=tuple(sample.picture_name for sample in samples),
        annotations=tuple(sample.annotation for sample in samples),
        region_object=_numbers([sample.region_object for sample in samples]),
        ocr_object=_numbers([sample.ocr_object for sample in samples]),
        region_labels=tuple(sample.labels for sample in samples),
        word_of=_numbers([sample.word_of for sample in samples]),
    )


def _numbers(rows: Sequence[NDArray[np.int64] | None]) -> Tensor | None:
    """Numbers of objects or words, -1 behind their ends; None where they are not known."""
    known = [numbers + 1 for numbers in rows if numbers is not None]
    return _padded(known, least=1) - 1 if len(known) == len(rows) else None


def _padded(arrays: Sequence[NDArray[np.generic]], least: int = 0) -> Tensor:
    """Arrays of different length as one, zero or False behind their ends."""
    longest = max(least, *(len(array) for array in arrays))
    padded = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(padded)


def _known(causes: Bools | None) -> Bools:
    assert causes is not None
    return causes


def _targets(samples: Sequence[ReadingSample], steps: int, most_tokens: int) -> Tensor:
    targets = np.zeros((len(samples), steps, samples[0].num_answers + most_tokens), np.float32)
    for own, sample in zip(targets, samples, strict=True):
        for place, score in sample.lesson.scores.items():
            own[place] = score
    return torch.from_numpy(targets)


class ReadingData(BatchedData, ABC):
    """Questions that need reading. Data sets say what is asked, what is seen and what is read.

    Args:
        max_question_tokens: With start and end.
        max_objects, max_ocr: Further regions and tokens are not shown to the model.
        max_steps: Words of an answer, the end among them.
        word_vectors: A fastText file, see `word_vectors`.
        mark_duplicates: Mark all ways to say a word at each step, see `answer_paths`.
    """

    collate = staticmethod(collate)
    question_kinds: tuple[str, ...] = ()
    """What questions ask for, where that is known."""

    def __init__(
        self,
        max_question_tokens: int,
        max_objects: int,
        max_ocr: int,
        max_steps: int,
        word_vectors: str | None,
        mark_duplicates: bool,
        batch_size: int,
        eval_batch_size: int,
        num_workers: int,
        seed: int,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        limits = {
            "max_question_tokens": (max_question_tokens, 3),
            "max_objects": (max_objects, 1),
            "max_ocr": (max_ocr, 1),
            "max_steps": (max_steps, 1),
        }
        for name, (value, least) in limits.items():
            if value < least:
                raise UserError(f"data.{name} must be at least {least}, got {value}.")
        self.max_question_tokens = max_question_tokens
        self.max_objects = max_objects
        self.max_ocr = max_ocr
        self.max_steps = max_steps
        self.word_vectors_path = None if word_vectors is None else Path(word_vectors)
        self.mark_duplicates = mark_duplicates

    @property
    @abstractmethod
    def vocabulary(self) -> QuestionTokens:
        """Of questions."""

    @property
    @abstractmethod
    def answer_words(self) -> AnswerWords: ...

    @property
    @abstractmethod
    def region_dim(self) -> int: ...

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[ReadingSample]: ...

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def answers(self) -> tuple[str, ...]:
        """The words that answers are made of besides those read, by number."""
        return self.answer_words.words

    @property
    def num_answers(self) -> int:
        return len(self.answer_words)

    @cached_property
    def word_vectors(self) -> WordVectors:
        return open_word_vectors(self.word_vectors_path)

    @property
    def word_vector_dim(self) -> int:
        return self.word_vectors.dim

    def encode(self, text: str, question_id: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Ids and words of a question, which must have some."""
        ids, words = self.vocabulary.encode(text, self.max_question_tokens)
        if len(ids) <= 2:
            raise UserError(f"Question {question_id} is empty: {text!r}. Ask something, or leave it out.")
        return ids, words

    def describe(self, ocr_words: Sequence[str]) -> tuple[Floats, Floats]:
        """Vectors and PHOC of clean words."""
        return self.word_vectors(ocr_words), phoc(ocr_words)

    def teach(self, question_id: int, answers: Iterable[str], ocr_words: Sequence[str]) -> Lesson:
        """Targets of a question whose picture has these clean words."""
        choose = partial(draw, self.seed, question_id)
        return lesson(tuple(answers), self.answer_words, ocr_words, self.max_steps, choose, self.mark_duplicates)
