"""What is a picture with its questions before it is a batch, and how do several become one?"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from lit_attn.data.batched import BatchedData
from lit_attn.data.question_words import QuestionWords
from lit_attn.errors import UserError
from lit_attn.types import QUESTION_KINDS, QuestionBatch


@dataclass(frozen=True)
class AskedPicture:
    """The grid of one picture."""

    image_id: int
    grid: NDArray[np.float32]
    """f y x."""
    name: str = ""


@dataclass(frozen=True)
class Asked:
    """One question about one picture."""

    question_id: int
    sample_id: str
    words: tuple[str, ...]
    ids: tuple[int, ...]
    answer: int
    """Number of the answer; -1 where it is not known, the number of answers where training knows no such answer."""
    kind: str = ""
    causes: NDArray[np.bool_] | None = None
    """Which cells, row by row, show what the answer rests on."""
    spokesmen: NDArray[np.bool_] | None = None
    """Of these the one cell that speaks for each thing."""

    def __post_init__(self) -> None:
        if not self.ids:
            raise UserError(f"The question {self.sample_id} has no words. Leave it out, or ask something.")


Sample = tuple[AskedPicture, list[Asked]]
"""A picture with some of its questions."""


def collate(samples: Sequence[Sample]) -> QuestionBatch:
    """Pads questions to the longest of the batch."""
    pictures = [picture for picture, _ in samples]
    asked = [question for _, own in samples for question in own]
    shapes = {picture.grid.shape for picture in pictures}
    if len(shapes) > 1:
        raise UserError(f"Grids of one batch must have one shape, got {', '.join(map(str, sorted(shapes)))}.")
    longest = max((len(question.ids) for question in asked), default=0)
    tokens = np.zeros((len(asked), longest), np.int64)
    token_mask = np.zeros((len(asked), longest), bool)
    for i, question in enumerate(asked):
        tokens[i, : len(question.ids)], token_mask[i, : len(question.ids)] = question.ids, True
    return QuestionBatch(
        image_id=torch.tensor([picture.image_id for picture in pictures]),
        grid=torch.from_numpy(np.stack([picture.grid for picture in pictures])),
        question_id=torch.tensor([question.question_id for question in asked], dtype=torch.long),
        owner=torch.tensor([i for i, (_, own) in enumerate(samples) for _ in own], dtype=torch.long),
        tokens=torch.from_numpy(tokens),
        token_mask=torch.from_numpy(token_mask),
        answer=torch.tensor([question.answer for question in asked], dtype=torch.long),
        kind=tuple(question.kind for question in asked),
        words=tuple(question.words for question in asked),
        sample_id=tuple(question.sample_id for question in asked),
        causes=_stacked([question.causes for question in asked]),
        spokesmen=_stacked([question.spokesmen for question in asked]),
        picture_name=tuple(picture.name for picture in pictures),
    )


def _stacked(cells: Sequence[NDArray[np.bool_] | None]) -> torch.Tensor | None:
    """None unless every question knows its own."""
    known = [own for own in cells if own is not None]
    return torch.from_numpy(np.stack(known)) if known and len(known) == len(cells) else None


def majority_scores(asked: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Share of right answers of somebody who knows the kind of a question and nothing else, overall and by kind.

    The most frequent answer of each kind is counted on the very questions, given as kinds and answers.
    """
    answers: dict[str, Counter[str]] = {}
    for kind, answer in asked:
        answers.setdefault(kind, Counter())[answer] += 1
    best = {kind: max(counted.values()) for kind, counted in answers.items()}
    totals = {kind: counted.total() for kind, counted in answers.items()}
    scores = {f"majority_accuracy_{kind}": best[kind] / totals[kind] for kind in QUESTION_KINDS if kind in totals}
    return {"majority_accuracy": sum(best.values()) / sum(totals.values())} | scores if totals else {}


class QuestionData(BatchedData, ABC):
    """A data set of questions about grids."""

    collate = staticmethod(collate)

    @property
    @abstractmethod
    def vocabulary(self) -> QuestionWords: ...

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """What can be answered, by number."""

    @property
    @abstractmethod
    def grid_dim(self) -> int:
        """Channels of a grid."""

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[Sample]: ...

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def num_answers(self) -> int:
        return len(self.answers)
