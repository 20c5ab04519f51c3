"""Who can read what is printed in a room? Scenes with text-reading questions for M4C, and the share that can be answered.

About a third of the questions ask for colours and kinds, which are answer words. The others ask for printed words, which are not:
they must be copied from the OCR tokens, and a text reader that missed or misread a word leaves no way to be right. The
share of questions whose answer can be said at all is the ceiling of the accuracy.

An OCR token has the features of the most confident detection of the thing that carries it, as a detector would see there;
zeros where there is none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.answer_words import SPECIALS, AnswerWords
from lit_attn.data.question_tokens import VocabularyTokens
from lit_attn.data.reading import Floats, ReadingData, ReadingSample
from lit_attn.data.scenes.detections import Detections, detect
from lit_attn.data.scenes.ocr import OcrToken, read_text
from lit_attn.data.scenes.reading import ReadingQuestion, reading_questions
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, KINDS, Scene
from lit_attn.data.vocab import Vocabulary

QUESTION_KINDS = ("word", "color", "kind")
"""What is asked for: the printed word, or the colour or kind of the thing with a word."""
QUESTIONS_PER_SCENE = 3
VOCABULARY_SCENES = 2000
"""Training scenes whose questions are read to collect the words."""
SHOWN_SIZE = 320

Asked = tuple[int, int]
"""Number of a scene, and of a question about it."""


def kind_of(question: ReadingQuestion) -> str:
    return question.frame.split()[0]


def is_readable(question: ReadingQuestion, tokens: tuple[OcrToken, ...]) -> bool:
    """Whether the answer can be said: a printed word must be among the tokens exactly."""
    return kind_of(question) != "word" or question.answer in {token.text for token in tokens}


@lru_cache(maxsize=1)
def answer_vocabulary() -> AnswerWords:
    """The words of all colours, and of all kinds of things that may carry a word."""
    names = [*COLORS, *(kind.name for kind in KINDS.values() if kind.printed)]
    return AnswerWords(SPECIALS + tuple(dict.fromkeys(word for name in names for word in name.split())))


@lru_cache(maxsize=4)
def question_vocabulary(seed: int) -> VocabularyTokens:
    """All words of the questions about the first training scenes."""
    asked = (
        question.annotation.tokens
        for index in range(VOCABULARY_SCENES)
        for question in reading_questions(make_scene(seed, "train", index), QUESTIONS_PER_SCENE)
    )
    return VocabularyTokens(Vocabulary.build(asked, min_count=1))


def _all_asked(seed: int, split: str, only_readable: bool, max_ocr: int) -> Iterator[Asked]:
    """Questions of a split without end, scene by scene. Most scenes have none or three."""
    index = 0
    while True:
        scene = make_scene(seed, split, index)
        tokens = read_text(scene)[:max_ocr]
        for number, question in enumerate(reading_questions(scene, QUESTIONS_PER_SCENE)):
            if not only_readable or is_readable(question, tokens):
                yield index, number
        index += 1


@lru_cache(maxsize=8)
def list_asked(seed: int, split: str, count: int, only_readable: bool, max_ocr: int) -> tuple[Asked, ...]:
    """The first `count` questions of a split."""
    return tuple(islice(_all_asked(seed, split, only_readable, max_ocr), count))


@lru_cache(maxsize=8)
def readable_share(seed: int, split: str, count: int, only_readable: bool, max_ocr: int) -> float:
    """Of the first `count` questions of a split, how many have an answer that can be said."""
    readable = 0
    for index, number in list_asked(seed, split, count, only_readable, max_ocr):
        scene = make_scene(seed, split, index)
        question = reading_questions(scene, QUESTIONS_PER_SCENE)[number]
        readable += is_readable(question, read_text(scene)[:max_ocr])
    return readable / count


@dataclass(frozen=True)
class SeenScene:
    """What all questions about a scene share."""

    scene: Scene
    questions: tuple[ReadingQuestion, ...]
    found: Detections
    tokens: tuple[OcrToken, ...]
    ocr_vectors: Floats
    ocr_phoc: Floats
    ocr_regions: Floats


class ScenesReadingSet(Dataset[ReadingSample]):
    """The first `size` questions of a split."""

    def __init__(self, data: "ScenesReading", split: str, size: int) -> None:
        self.data, self.split = data, split
        self.asked = list_asked(data.seed, split, size, data.only_readable, data.max_ocr)
        # A scene with its detections takes 25 kB, shared by its questions, and training comes back to it every epoch.
        self._seen = lru_cache(16384)(self._see)
        self._sample = lru_cache(32768)(self._make)

    def __len__(self) -> int:
        return len(self.asked)

    def __getitem__(self, index: int) -> ReadingSample:
        return self._sample(index)

    def _make(self, index: int) -> ReadingSample:
        scene_index, number = self.asked[index]
        seen = self._seen(scene_index)
        question = seen.questions[number]
        data, scene, found = self.data, seen.scene, seen.found
        question_id = scene.index * QUESTIONS_PER_SCENE + number
        ids, words = data.encode(question.annotation.text, question_id)
        ocr_words = tuple(token.text for token in seen.tokens)
        printed = question.answer if kind_of(question) == "word" else scene.things[question.causes[0]].word
        carriers = {i for i in question.causes if scene.things[i].word == printed}
        return ReadingSample(
            question_id=question_id,
            image_id=scene.index,
            sample_id=f"{scene.scene_id}-{number}",
            picture_name=scene.scene_id,
            ids=ids,
            words=words,
            regions=found.features,
            boxes=found.boxes,
            ocr_words=ocr_words,
            ocr_vectors=seen.ocr_vectors,
            ocr_phoc=seen.ocr_phoc,
            ocr_regions=seen.ocr_regions,
            ocr_boxes=np.array([token.box for token in seen.tokens], np.float32).reshape(-1, 4),
            answers=question.answers,
            num_answers=data.num_answers,
            lesson=data.teach(question_id, question.answers, ocr_words),
            kind=kind_of(question),
            region_causes=np.isin(found.thing, question.causes),
            ocr_causes=np.array([token.thing in carriers for token in seen.tokens], bool),
            annotation=question.annotation,
            region_object=found.thing.astype(np.int64),
            ocr_object=np.array([token.thing for token in seen.tokens], np.int64),
            labels=found.labels,
        )

    def _see(self, index: int) -> SeenScene:
        data = self.data
        scene = make_scene(data.seed, self.split, index)
        found = detect(scene, count=data.max_objects, dim=data.region_dim)
        tokens = read_text(scene)[: data.max_ocr]
        vectors, spelling = data.describe([token.text for token in tokens])
        ocr_regions = np.zeros((len(tokens), data.region_dim), np.float32)
        for row, token in zip(ocr_regions, tokens, strict=True):
            shown = np.flatnonzero(found.thing == token.thing)
            if token.thing >= 0 and len(shown):
                row[:] = found.features[shown[0]]
        questions = reading_questions(scene, QUESTIONS_PER_SCENE)
        return SeenScene(scene, questions, found, tokens, vectors, spelling, ocr_regions)


class ScenesReading(ReadingData):
    """The embedded world as a reading task, one sample per question.

    Args:
        train_questions, val_questions, test_questions: How many questions of each split; sample i is always the same.
        test_split: `test`, or `compose` for scenes with attribute-category pairs never seen in training.
        only_readable: Leave out questions for a word that was missed or misread, so that all can be answered.
        region_dim: Width of detections.
        max_objects: Detections per scene.
        vocabulary: Weights that hold their words of questions, instead of those of the first training scenes.
        max_question_tokens, max_ocr, max_steps, word_vectors, mark_duplicates: See `ReadingData`.
        seed: Of the world, of the order of training and of the path that an answer is taught by.
    """

    def __init__(
        self,
        train_questions: int = 6000,
        val_questions: int = 601,
        test_questions: int = 1201,
        test_split: str = "test",
        only_readable: bool = False,
        region_dim: int = 128,
        vocabulary: str | None = None,
        max_question_tokens: int = 30,
        max_objects: int = 36,
        max_ocr: int = 10,
        max_steps: int = 4,
        word_vectors: str | None = None,
        mark_duplicates: bool = False,
        batch_size: int = 64,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(
            max_question_tokens,
            max_objects,
            max_ocr,
            max_steps,
            word_vectors,
            mark_duplicates,
            batch_size,
            eval_batch_size,
            num_workers,
            seed,
        )
        self.sizes = {"train": train_questions, "val": val_questions, test_split: test_questions}
        self.test_split = test_split
        self.only_readable = only_readable
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        self.dim = region_dim
        self._datasets: dict[str, ScenesReadingSet] = {}

    question_kinds = QUESTION_KINDS

    @cached_property
    def vocabulary(self) -> VocabularyTokens:
        if self.vocabulary_path is not None:
            return VocabularyTokens.read(self.vocabulary_path)
        return question_vocabulary(self.seed)

    @property
    def answer_words(self) -> AnswerWords:
        return answer_vocabulary()

    @property
    def region_dim(self) -> int:
        return self.dim

    def split_name(self, stage: str) -> str:
        return stage if stage in ("train", "val") else self.test_split

    def dataset(self, stage: str) -> ScenesReadingSet:
        split = self.split_name(stage)
        if split not in self._datasets:
            self._datasets[split] = ScenesReadingSet(self, split, self.sizes[split])
        return self._datasets[split]

    def show(self, image_id: int, stage: str) -> Image.Image:
        return render(make_scene(self.seed, self.split_name(stage), image_id), size=SHOWN_SIZE)

    def reference_scores(self, stage: str) -> dict[str, float]:
        """`ceiling_accuracy`: the share of questions whose answer is among the OCR tokens and the answer words."""
        split = self.split_name(stage)
        return {
            "ceiling_accuracy": readable_share(self.seed, split, self.sizes[split], self.only_readable, self.max_ocr)
        }
