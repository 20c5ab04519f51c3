"""What is a sentence with a class, and how do several become a batch? Shared by the verb-number and the sentiment task.

Words have ids as CLEVR's tools give them: 0 is padding, 1 the unknown word, 2 opens a sentence and is the classifier's own
token, 3 ends it. In the verb-number task the end stands in the place of the verb.
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from lit_attn.data.batched import BatchedData
from lit_attn.data.question_words import SPECIALS, UNKNOWN, QuestionWords
from lit_attn.errors import UserError
from lit_attn.types import SentenceBatch

log = logging.getLogger(__name__)

START, END = 2, 3


@dataclass(frozen=True)
class LabelledSentence:
    """Words as ids, its first and last token included."""

    sentence_id: int
    sample_id: str
    words: tuple[str, ...]
    ids: tuple[int, ...]
    answer: int
    """-1 where it is not known."""
    kind: str = ""
    causes: tuple[int, ...] | None = None
    """Positions of `ids` that the class rests on."""


def between_marks(words: Sequence[str], vocabulary: QuestionWords) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words and ids of a sentence with what opens and ends it."""
    return (SPECIALS[START], *words, SPECIALS[END]), (START, *vocabulary.encode(words), END)


def collate(samples: Sequence[LabelledSentence]) -> SentenceBatch:
    """Pads to the longest."""
    longest = max((len(sample.ids) for sample in samples), default=0)
    tokens = np.zeros((len(samples), longest), np.int64)
    token_mask = np.zeros((len(samples), longest), bool)
    causes = np.zeros((len(samples), longest), bool)
    for i, sample in enumerate(samples):
        tokens[i, : len(sample.ids)], token_mask[i, : len(sample.ids)] = sample.ids, True
        causes[i, list(sample.causes or ())] = True
    known = bool(samples) and all(sample.causes is not None for sample in samples)
    return SentenceBatch(
        sentence_id=torch.tensor([sample.sentence_id for sample in samples], dtype=torch.long),
        tokens=torch.from_numpy(tokens),
        token_mask=torch.from_numpy(token_mask),
        answer=torch.tensor([sample.answer for sample in samples], dtype=torch.long),
        kind=tuple(sample.kind for sample in samples),
        words=tuple(sample.words for sample in samples),
        sample_id=tuple(sample.sample_id for sample in samples),
        causes=torch.from_numpy(causes) if known else None,
    )


class SentenceList(Dataset[LabelledSentence]):
    """Sentences that are held in memory."""

    def __init__(self, sentences: Sequence[LabelledSentence]) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> LabelledSentence:
        return self.sentences[index]


class SentenceData(BatchedData, ABC):
    """A data set of sentences with classes."""

    collate = staticmethod(collate)

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """The classes by number."""

    @property
    @abstractmethod
    def unknown(self) -> int:
        """The id of the unknown word."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What scores are told apart by."""
        return ()

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[LabelledSentence]: ...

    def lengths(self, dataset: Dataset[LabelledSentence]) -> list[int]:
        return [len(dataset[i].ids) for i in range(len(dataset))]  # type: ignore[arg-type]

    @property
    def num_answers(self) -> int:
        return len(self.answers)


class WordedSentenceData(SentenceData, ABC):
    """Sentences in words of a vocabulary.

    Args:
        sentences: What `predict` reads instead of the test sentences: a text file with one sentence per line, up to its verb,
            or the sentence itself.
    """

    def __init__(
        self, sentences: str | None, batch_size: int, eval_batch_size: int, num_workers: int, seed: int
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        self.sentences = sentences

    @property
    @abstractmethod
    def vocabulary(self) -> QuestionWords: ...

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def unknown(self) -> int:
        return UNKNOWN

    def own_sentences(self) -> SentenceList:
        """The user's own, in lower case unless a word is known as it stands. Words that are not known are named."""
        assert self.sentences is not None
        known = self.vocabulary.ids
        found, strange = [], set()
        for number, line in enumerate(own_lines(self.sentences), 1):
            words = [word if word in known else word.lower() for word in line.split()]
            if not words:
                raise UserError(
                    f"Line {number} of data.sentences is empty. Write the words before the verb, one sentence each."
                )
            strange |= {word for word in words if word not in known}
            named, ids = between_marks(words, self.vocabulary)
            found.append(LabelledSentence(number - 1, f"sentence-{number}", named, ids, -1))
        if strange:
            shown = ", ".join(sorted(strange)[:8]) + (", …" if len(strange) > 8 else "")
            log.warning("%d words are unknown and read as %s: %s.", len(strange), SPECIALS[UNKNOWN], shown)
        return SentenceList(found)


def own_lines(source: str) -> list[str]:
    """The sentences of a text file, or of a text with one per line."""
    if not (os.path.isfile(source) or source.lower().endswith(".txt")):
        return source.rstrip("\n").split("\n")
    try:
        return Path(source).read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read the sentences {source}: {error}.") from error
