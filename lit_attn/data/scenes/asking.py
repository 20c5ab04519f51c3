"""What can be asked about a room? Scenes as grids with questions of the five CLEVR kinds, for MAC."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.question_words import SPECIALS, QuestionWords
from lit_attn.data.questions import Asked, AskedPicture, QuestionData, Sample, majority_scores
from lit_attn.data.scenes.asked_words import ASKED_WORDS
from lit_attn.data.scenes.grid import grid, middle_cells, visible_shares
from lit_attn.data.scenes.programs import ANSWERS
from lit_attn.data.scenes.questions import MOST_LANDMARKS, Question, questions
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.thinning import FEWEST, thinned
from lit_attn.data.scenes.world import Scene
from lit_attn.errors import UserError, did_you_mean
from lit_attn.types import QUESTION_KINDS

LEFT_OUT = frozenset({"?"})
WORDS = QuestionWords(SPECIALS + ASKED_WORDS)
SHOWN_SHARE = 0.1
"""A cell shows a thing that takes at least this share of it."""
SHOWN_SIZE = 320


def cause_cells(shown: NDArray[np.bool_], causes: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which cells, row by row, show one of the things that an answer rests on. None for `no` to an empty set."""
    return np.asarray(shown[list(causes)].any(0))


def shown_cells(scene: Scene, side: int) -> NDArray[np.bool_]:
    """Which cells, row by row, show each thing: those that it takes a good share of, and the one that speaks for it."""
    shares = visible_shares(scene, side).reshape(len(scene.things), -1)
    return (shares >= SHOWN_SHARE) | speaking_cells(scene, side)


def speaking_cells(scene: Scene, side: int) -> NDArray[np.bool_]:
    """Which one cell speaks for each thing."""
    boxes = np.array([thing.box for thing in scene.things], np.float32)
    speaking = np.zeros((len(boxes), side * side), bool)
    speaking[np.arange(len(boxes)), middle_cells(visible_shares(scene, side), boxes)] = True
    return speaking


def question_words(question: Question) -> tuple[str, ...]:
    return tuple(token for token in question.annotation.tokens if token not in LEFT_OUT)


class ScenesQuestionSet(Dataset[Sample]):
    """The first `size` scenes of a split with their questions."""

    def __init__(self, data: "ScenesQuestions", split: str, size: int) -> None:
        self.data, self.split, self.size = data, split, size
        # A scene with its questions takes 60 kB, and training comes back to it every epoch.
        self._sample = lru_cache(16384)(self._make)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        return self._sample(index)

    def _make(self, index: int) -> Sample:
        data = self.data
        scene = make_scene(data.seed, self.split, index)
        training = self.split == "train"
        thin = training and index % 100 < 100 * data.thinned_share
        scene = thinned(scene, data.thinned_to) if thin else scene
        picture = AskedPicture(index, grid(scene, side=data.side, dim=data.grid_dim), scene.scene_id)
        kinds: tuple[str, ...] = QUESTION_KINDS
        if training:  # the turn goes on from scene to scene
            turn = index * data.questions_per_scene % len(data.train_kinds)
            kinds = data.train_kinds[turn:] + data.train_kinds[:turn]
        asked = questions(scene, data.questions_per_scene, data.landmarks, kinds=kinds, fewer=training)
        shown, speaking = shown_cells(scene, data.side), speaking_cells(scene, data.side)
        return picture, [
            Asked(
                question_id=index * data.questions_per_scene + i,
                sample_id=f"{scene.scene_id}-{i}",
                words=question_words(question),
                ids=data.vocabulary.encode(question_words(question)),
                answer=ANSWERS.index(question.answer),
                kind=question.kind,
                causes=cause_cells(shown, question.causes),
                spokesmen=cause_cells(speaking, question.causes),
            )
            for i, question in enumerate(asked)
        ]


class ScenesQuestions(QuestionData):
    """The embedded world as a question-answering task.

    Args:
        train_scenes, val_scenes, test_scenes: How many scenes of each split; sample i is always the same.
        test_split: `test`, or `compose` for scenes with attribute-category pairs never seen in training.
        questions_per_scene: The five kinds in turn.
        landmarks: At most so many other things lead to what is asked about: 0 asks by looks alone.
        train_kinds: Kinds of question in training, asked in turn, from scene to scene; one that is listed twice is asked twice
            as often.
        thinned_share: Share of the training scenes from which things are taken away at random.
        thinned_to: How many things such a scene keeps at most.
        side, grid_dim: Cells across a grid, and channels of each.
        batch_size: Scenes, each with all its questions.
        seed: Of the world and of the order of training.
    """

    def __init__(
        self,
        train_scenes: int = 4000,
        val_scenes: int = 211,
        test_scenes: int = 503,
        test_split: str = "test",
        questions_per_scene: int = 10,
        landmarks: int = MOST_LANDMARKS,
        train_kinds: list[str] | None = None,
        thinned_share: float = 0.0,
        thinned_to: int = 3,
        side: int = 14,
        grid_dim: int = 64,
        batch_size: int = 16,
        eval_batch_size: int = 32,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        self.sizes = {"train": train_scenes, "val": val_scenes, test_split: test_scenes}
        self.test_split = test_split
        self.questions_per_scene = questions_per_scene
        self.landmarks = landmarks
        self.train_kinds = tuple(train_kinds or QUESTION_KINDS)
        for kind in self.train_kinds:
            if kind not in QUESTION_KINDS:
                known = f"{did_you_mean(kind, QUESTION_KINDS)} Known: {', '.join(QUESTION_KINDS)}."
                raise UserError(f"data.train_kinds names {kind!r}.{known}")
        if thinned_to < FEWEST:
            raise UserError(f"data.thinned_to is {thinned_to}; a scene keeps {FEWEST} things at least.")
        self.thinned_share, self.thinned_to = thinned_share, thinned_to
        self.side = side
        self.dim = grid_dim
        self._datasets: dict[str, ScenesQuestionSet] = {}

    @property
    def vocabulary(self) -> QuestionWords:
        return WORDS

    @property
    def answers(self) -> tuple[str, ...]:
        return ANSWERS

    @property
    def grid_dim(self) -> int:
        return self.dim

    def split_name(self, stage: str) -> str:
        return stage if stage in ("train", "val") else self.test_split

    def dataset(self, stage: str) -> ScenesQuestionSet:
        split = self.split_name(stage)
        if split not in self._datasets:
            self._datasets[split] = ScenesQuestionSet(self, split, self.sizes[split])
        return self._datasets[split]

    def show(self, image_id: int, stage: str) -> Image.Image:
        return render(make_scene(self.seed, self.split_name(stage), image_id), size=SHOWN_SIZE)

    def reference_scores(self, stage: str) -> dict[str, float]:
        """What the most frequent answer of each kind, counted on the very questions, would score."""
        split = self.split_name(stage)
        return majority(self.seed, split, self.sizes[split], self.questions_per_scene, self.landmarks)


@lru_cache(maxsize=8)
def majority(seed: int, split: str, size: int, count: int, landmarks: int) -> dict[str, float]:
    """What knowing the kind of each question, and nothing else, is worth."""
    return majority_scores(
        (question.kind, question.answer)
        for index in range(size)
        for question in questions(make_scene(seed, split, index), count, landmarks)
    )
