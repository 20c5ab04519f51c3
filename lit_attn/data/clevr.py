"""How is CLEVR read? Questions as distributed, grids of features from HDF5.

Questions are `CLEVR_v1.0/questions/CLEVR_{split}_questions.json`, features what `grid_store` reads. Words and answers are
those of the training questions. An answer that no training question has gets the number after the last answer: no model
can give it, so it counts as wrong, while -1 means that the answer is not known.

The public test questions have no answers; so `test` takes the validation questions unless told otherwise, and `predict`
the test questions.
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from torch.utils.data import Dataset

from lit_attn.checkpoint import SUFFIXES as WEIGHTS
from lit_attn.checkpoint import read_answers, read_question_words
from lit_attn.data.clevr_questions import ClevrQuestion, read_questions
from lit_attn.data.grid_store import GridStore
from lit_attn.data.picture_folder import PictureFolder
from lit_attn.data.question_words import SPECIALS, QuestionWords
from lit_attn.data.questions import Asked, AskedPicture, QuestionData, Sample, majority_scores
from lit_attn.errors import UserError, did_you_mean
from lit_attn.files import write_text

log = logging.getLogger(__name__)

SPLITS = ("train", "val", "test")
UNKNOWN_ANSWER = -1


@dataclass(frozen=True)
class ClevrVocabulary:
    """Words of questions, and answers, by number."""

    words: QuestionWords
    answers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.answers:
            raise UserError("A vocabulary needs answers.")
        for what, listed in (("word", self.words.words), ("answer", self.answers)):
            twice = [entry for entry, count in Counter(listed).items() if count > 1]
            if twice:
                raise UserError(f"The vocabulary lists the {what} {twice[0]!r} twice.")

    @classmethod
    def build(cls, questions: Sequence[ClevrQuestion]) -> "ClevrVocabulary":
        """All words, and all answers by spelling."""
        answers = sorted({question.answer for question in questions if question.answer is not None})
        return cls(QuestionWords.build(question.words for question in questions), tuple(answers))

    @classmethod
    def read(cls, path: Path) -> "ClevrVocabulary":
        """Weights, a file of `write`, or a public one that maps words and answers to numbers: then their order counts."""
        if path.suffix in WEIGHTS:
            return cls(QuestionWords(read_question_words(path)), read_answers(path))
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if "question_token_to_idx" in raw:
                words, answers = (_in_order(raw[f"{kind}_token_to_idx"]) for kind in ("question", "answer"))
                return cls(QuestionWords((*SPECIALS, *words)), answers)
            return cls(QuestionWords(tuple(raw["words"])), tuple(raw["answers"]))
        except OSError as error:
            raise UserError(f"Cannot read the vocabulary {path}: {error.strerror}.") from error
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is no vocabulary: expected JSON with words and answers, or with question_token_to_idx and "
                f"answer_token_to_idx ({error!r})."
            ) from error

    def write(self, path: Path) -> None:
        content = {"words": list(self.words.words), "answers": list(self.answers)}
        write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    def answer(self, text: str | None) -> int:
        """Its number; -1 for None; the number of answers for one that is not among them."""
        return UNKNOWN_ANSWER if text is None else self._numbers.get(text, len(self.answers))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {answer: number for number, answer in enumerate(self.answers)}


def _in_order(numbers: dict[str, Any]) -> tuple[str, ...]:
    """Without the public marks `<NULL>`, `<START>`, `<END>` and `<UNK>`: ours are others."""
    ordered = sorted(numbers, key=lambda word: int(numbers[word]))
    return tuple(word for word in ordered if not (word.startswith("<") and word.endswith(">")))


class ClevrDataset(Dataset[Sample]):
    """Pictures with up to `questions_per_sample` of their questions. A grid is read when its sample is asked for."""

    def __init__(
        self,
        questions: Sequence[ClevrQuestion],
        grids: GridStore,
        vocabulary: ClevrVocabulary,
        split: str,
        questions_per_sample: int,
    ) -> None:
        self.grids = grids
        self.vocabulary = vocabulary
        self.split = split
        self.pictures: dict[int, ClevrQuestion] = {}
        """By `image_index`, the first question about a picture: it names the picture's file."""
        by_picture: dict[int, list[ClevrQuestion]] = {}
        for question in questions:
            self.pictures.setdefault(question.image_index, question)
            by_picture.setdefault(question.image_index, []).append(question)
        own = next((question for question in questions if question.own_name), None)
        if own is not None and grids.names is None:
            raise UserError(
                f"{grids.path} has no names of pictures, so that {own.own_name!r} cannot be found in it. Make the file with "
                "lit-attn extract grid, or ask in CLEVR's layout, by image_index."
            )
        self._rows = {index: grids.row(index, first.picture_name) for index, first in self.pictures.items()}
        if questions_per_sample == 1:
            self._samples: list[list[ClevrQuestion]] = [[question] for question in questions]
        else:
            step = questions_per_sample
            self._samples = [own[i : i + step] for own in by_picture.values() for i in range(0, len(own), step)]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        questions = self._samples[index]
        image_index = questions[0].image_index
        grid = self.grids.read(self._rows[image_index])
        name = self.pictures[image_index].picture_name
        return AskedPicture(image_index, grid, name), [self._asked(question) for question in questions]

    def _asked(self, question: ClevrQuestion) -> Asked:
        return Asked(
            question_id=question.index,
            sample_id=f"{self.split}-{question.index}",
            words=question.words,
            ids=self.vocabulary.words.encode(question.words),
            answer=self.vocabulary.answer(question.answer),
            kind=question.kind,
        )


class Clevr(QuestionData):
    """CLEVR, or other questions in its layout.

    Args:
        features: The HDF5 file of grids; `{split}` in it stands for `train`, `val` or `test`.
        root: The folder `CLEVR_v1.0`, or the one that holds it.
        train_questions, val_questions, test_questions: Files of questions, instead of those below `root`: CLEVR's `.json`,
            or `.jsonl` or `.csv` with `picture`, `question` and perhaps `answer`.
        vocabulary: Weights, or a JSON of words and answers; without either they are those of the training questions.
        images: The folder of the pictures, to draw on; with `root`, its folder `images` if there is one.
        test_split: The split behind `test`. `predict` takes `test`, or this one where there are no test questions.
        questions_per_sample: 1: every question alone, as published. More: questions of a picture together, so that its
            grid is read and encoded once; a batch then has up to so many times more questions than pictures.
    """

    def __init__(
        self,
        features: str,
        root: str | None = None,
        train_questions: str | None = None,
        val_questions: str | None = None,
        test_questions: str | None = None,
        vocabulary: str | None = None,
        images: str | None = None,
        test_split: str = "val",
        questions_per_sample: int = 1,
        batch_size: int = 64,
        eval_batch_size: int = 64,
        num_workers: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        if questions_per_sample < 1:
            raise UserError(f"data.questions_per_sample must be at least 1, got {questions_per_sample}.")
        if test_split not in SPLITS:
            known = f"{did_you_mean(test_split, SPLITS)} Known: {', '.join(SPLITS)}."
            raise UserError(f"data.test_split is {test_split!r}.{known}")
        self.features = features
        self.root = None if root is None else _released(Path(root))
        self.question_files = dict(zip(SPLITS, (train_questions, val_questions, test_questions), strict=True))
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        if images is None and self.root is not None and (self.root / "images").is_dir():
            images = str(self.root / "images")
        self.images = None if images is None else PictureFolder(Path(images))
        self.test_split = test_split
        self.questions_per_sample = questions_per_sample
        self._questions: dict[str, list[ClevrQuestion]] = {}
        self._grids: dict[Path, GridStore] = {}
        self._datasets: dict[str, ClevrDataset] = {}

    @cached_property
    def words_and_answers(self) -> ClevrVocabulary:
        if self.vocabulary_path is not None:
            return ClevrVocabulary.read(self.vocabulary_path)
        questions = self.questions("train")
        if all(question.answer is None for question in questions):
            raise UserError(f"{self._question_file('train')} has no answers to train on.")
        return ClevrVocabulary.build(questions)

    @property
    def vocabulary(self) -> QuestionWords:
        return self.words_and_answers.words

    @property
    def answers(self) -> tuple[str, ...]:
        return self.words_and_answers.answers

    @property
    def grid_dim(self) -> int:
        split = next((split for split in SPLITS if self._has_questions(split)), self.test_split)
        return self.grids(split).shape[0]

    def split(self, stage: str) -> str:
        """The split behind `train`, `val`, `test` or `predict`."""
        if stage == "predict":
            return "test" if self._has_questions("test") else self.test_split
        return self.test_split if stage == "test" else stage

    def questions(self, split: str) -> list[ClevrQuestion]:
        if split not in self._questions:
            self._questions[split] = read_questions(self._question_file(split), split)
        return self._questions[split]

    def grids(self, split: str) -> GridStore:
        path = Path(self.features.replace("{split}", split))
        if path not in self._grids:
            self._grids[path] = GridStore(path)
        return self._grids[path]

    def dataset(self, stage: str) -> ClevrDataset:
        split = self.split(stage)
        if stage not in self._datasets:
            questions = self.questions(split)
            self._check_answers(stage, split, questions)
            self._datasets[stage] = ClevrDataset(
                questions, self.grids(split), self.words_and_answers, split, self.questions_per_sample
            )
            self._check_splits(stage)
            log.info("%s: %d questions about %d pictures.", stage, len(questions), len(self._datasets[stage].pictures))
        return self._datasets[stage]

    def reference_scores(self, stage: str) -> dict[str, float]:
        """What the most frequent answer of each kind, counted on the very questions, would score."""
        questions = self.questions(self.split(stage))
        return majority_scores(
            (question.kind, question.answer) for question in questions if question.answer is not None
        )

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        file = self.dataset(stage).pictures[image_id].image_file
        return None if self.images is None or not file else self.images.open(file)

    def _has_questions(self, split: str) -> bool:
        return self.question_files[split] is not None or (self.root is not None and self._question_file(split).exists())

    def _question_file(self, split: str) -> Path:
        file = self.question_files[split]
        if file is not None:
            return Path(file)
        if self.root is None:
            raise UserError(f"Where are the {split} questions? Give data.root, or data.{split}_questions FILE.")
        return self.root / "questions" / f"CLEVR_{split}_questions.json"

    def _check_answers(self, stage: str, split: str, questions: Sequence[ClevrQuestion]) -> None:
        without = sum(question.answer is None for question in questions)
        if stage == "train" and without:
            raise UserError(
                f"{self._question_file(split)} has no answer to {without} of {len(questions)} questions; "
                "training needs all."
            )
        unknown = [q.answer for q in questions if self.words_and_answers.answer(q.answer) == len(self.answers)]
        if stage == "train" and unknown:
            raise UserError(
                f"{self._question_file(split)} has {len(unknown)} answers that {self.vocabulary_path} does not list, such as "
                f"{unknown[0]!r}. Train anew without data.vocabulary, or leave these questions out."
            )
        if stage in ("val", "test") and without == len(questions):
            raise UserError(
                f"{self._question_file(split)} has no answers to compare with. "
                "CLEVR publishes them for train and val only; without answers, use predict."
            )

    def _check_splits(self, stage: str) -> None:
        """Without names, rows are found by `image_index`, which starts anew in every split."""
        own = self._datasets[stage]
        for other in self._datasets.values():
            shared = own.grids is other.grids and own.grids.names is None
            files = own.pictures.keys() & other.pictures.keys() if shared else set()
            clash = next((i for i in files if own.pictures[i].image_file != other.pictures[i].image_file), None)
            if clash is not None:
                del self._datasets[stage]
                raise UserError(
                    f"{own.grids.path} lists no names, and image_index {clash} is both "
                    f"{own.pictures[clash].picture_name} and {other.pictures[clash].picture_name}. "
                    "Give a file of features per split, with {split} in data.features."
                )


def _released(root: Path) -> Path:
    inside = root / "CLEVR_v1.0"
    if not root.is_dir():
        raise UserError(f"data.root {str(root)!r} is not a folder. It must be CLEVR_v1.0, with questions inside.")
    return inside if inside.is_dir() else root
