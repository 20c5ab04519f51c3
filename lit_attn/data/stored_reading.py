"""How do questions of one file, regions of another and tokens of a third become samples? Shared by public and own data.

Objects are as many as have features, OCR tokens as many as were read, each up to the limit; boxes or features that are
missing for the last of them are zeros, as in MMF. Tokens without any features of their own have zeros there, too.

Annotations are of the words of `vocab.tokenize`, whatever the model reads with: it sees exactly these, or pieces of them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.grammar import Grammar
from lit_attn.data.imdb import PictureQuestion
from lit_attn.data.ocr_tokens import OcrFile
from lit_attn.data.picture_folder import PictureFolder
from lit_attn.data.question_files import read_questions
from lit_attn.data.reading import Floats, ReadingData, ReadingSample
from lit_attn.data.reading_store import FeatureStore, SeenRegions, open_features
from lit_attn.data.region_labels import LabelNames
from lit_attn.data.vocab import tokenize
from lit_attn.errors import UserError
from lit_attn.ops.answers import clean
from lit_attn.types import Annotation


@dataclass(frozen=True)
class ReadingSources:
    """Where the parts of a sample are."""

    objects: FeatureStore
    ocr_features: FeatureStore | None
    ocr: OcrFile | None


class StoredQuestions(Dataset[ReadingSample]):
    """The questions of a file. Every picture must have features; they are read when a sample is asked for."""

    def __init__(self, data: "StoredReading", questions: Sequence[PictureQuestion], sources: ReadingSources) -> None:
        self.data, self.questions, self.sources = data, questions, sources
        self.pictures = list(dict.fromkeys(question.picture for question in questions))
        self.annotations: Mapping[str, Annotation] = {}
        self.is_linked = False
        self._numbers = {picture: number for number, picture in enumerate(self.pictures)}
        by_picture = {question.picture: question for question in questions}
        missing = [picture for picture, asked in by_picture.items() if sources.objects.find(*asked.keys) is None]
        if missing:
            some = ", ".join(missing[:3])
            reason = sources.objects.not_found(*by_picture[missing[0]].keys)
            raise UserError(
                f"{len(missing)} of {len(self.pictures)} pictures have no features, such as {some}. {reason}"
            )

    def annotate(self, grammar: Grammar, path: Path) -> None:
        """Gives all questions their grammar, which is kept beside their file."""
        texts = {question.sample_id: tuple(tokenize(question.text)) for question in self.questions}
        self.annotations = grammar.annotations(texts, path, self._described)
        self.is_linked = grammar.link is not None

    def _described(self) -> dict[str, tuple[str, ...]]:
        """By sample id what the regions that the model sees are called."""
        by_picture = {question.picture: question for question in self.questions}
        called = {picture: self._named(question) for picture, question in by_picture.items()}
        return {question.sample_id: called[question.picture] for question in self.questions}

    def _named(self, question: PictureQuestion) -> tuple[str, ...]:
        seen = self._seen(question)
        if len(seen.features):
            self.data.label_names.check(seen.labelled, question.picture, self.sources.objects.path)
        return seen.labels[: self.data.max_objects]

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index: int) -> ReadingSample:
        data, question = self.data, self.questions[index]
        ids, words = data.encode(question.text, question.question_id)
        regions, boxes, labels = self._objects(question)
        texts, ocr_boxes, ocr_regions = self._tokens(question, regions.shape[1])
        ocr_words = tuple(clean(text) for text in texts)
        vectors, spelling = data.describe(ocr_words)
        annotation = self.annotations.get(question.sample_id)
        pieces = None if annotation is None else data.vocabulary.word_of(question.text, data.max_question_tokens)
        return ReadingSample(
            question_id=question.question_id,
            image_id=self._numbers[question.picture],
            sample_id=question.sample_id,
            picture_name=question.picture,
            ids=ids,
            words=words,
            regions=regions,
            boxes=boxes,
            ocr_words=ocr_words,
            ocr_vectors=vectors,
            ocr_phoc=spelling,
            ocr_regions=ocr_regions,
            ocr_boxes=ocr_boxes,
            answers=question.answers,
            num_answers=data.num_answers,
            lesson=data.teach(question.question_id, question.answers, ocr_words),
            annotation=annotation,
            region_object=np.arange(len(regions)) if self.is_linked else None,
            labels=labels,
            word_of=None if pieces is None else np.array(pieces, np.int64),
        )

    def _objects(self, question: PictureQuestion) -> tuple[Floats, Floats, tuple[str, ...]]:
        seen, store = self._seen(question), self.sources.objects
        if seen.features.ndim != 2 or seen.features.shape[1] != store.dim:
            raise UserError(
                f"The regions of {question.picture} have features {seen.features.shape}; others are {store.dim} wide."
            )
        regions = seen.features[: self.data.max_objects]
        boxes = seen.boxes if question.object_boxes is None else question.object_boxes
        if boxes is None:
            raise UserError(
                f"The objects of the picture {question.picture} have no boxes, neither beside their features nor with "
                f"question {question.question_id}."
            )
        return regions, _rows(boxes, len(regions)), seen.labels[: len(regions)]

    def _seen(self, question: PictureQuestion) -> SeenRegions:
        store = self.sources.objects
        return store.read(store.find(*question.keys) or question.picture)

    def _tokens(self, question: PictureQuestion, dim: int) -> tuple[tuple[str, ...], Floats, Floats]:
        texts, boxes = question.ocr_tokens, question.ocr_boxes
        if texts is None:
            if self.sources.ocr is None:
                raise UserError(
                    f"Question {question.question_id} comes without OCR tokens. Read the pictures with `lit-attn extract "
                    "ocr` and name the result with data.ocr."
                )
            found = self.sources.ocr.read(*question.names)
            texts, boxes = found.texts, found.boxes
        texts = texts[: self.data.max_ocr]
        features = np.zeros((0, dim), np.float32)
        store = self.sources.ocr_features
        if store is not None and texts:
            name = store.find(*question.keys)
            if name is None:
                raise store.not_found(*question.keys)
            seen = store.read(name)
            features, boxes = seen.features, seen.boxes if boxes is None else boxes
        if boxes is None and texts:
            raise UserError(
                f"The OCR tokens of the picture {question.picture} have no boxes. Name their features with data.ocr_regions."
            )
        no_boxes = np.zeros((0, 4), np.float32)
        return texts, _rows(no_boxes if boxes is None else boxes, len(texts)), _rows(features, len(texts))


def _rows(array: Floats, count: int) -> Floats:
    """The first `count` rows, with zeros for those that are not there."""
    rows = np.zeros((count, array.shape[1]), np.float32)
    rows[: len(array)] = array[:count]
    return rows


class StoredReading(ReadingData):
    """Questions, features and tokens in files."""

    def __init__(
        self,
        regions: str,
        ocr_regions: str | None,
        ocr: str | None,
        images: str | None,
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
        label_names: LabelNames | None = None,
        grammar: Grammar | None = None,
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
        self.regions = Path(regions)
        self.label_names = label_names or LabelNames()
        self.grammar = grammar or Grammar(None)
        self.ocr_regions = None if ocr_regions is None else Path(ocr_regions)
        self.ocr = None if ocr is None else OcrFile(Path(ocr))
        self.images = None if images is None else PictureFolder(Path(images))
        self._datasets: dict[tuple[Path, bool], StoredQuestions] = {}
        self._questions: dict[Path, list[PictureQuestion]] = {}

    @abstractmethod
    def question_file(self, stage: str) -> Path:
        """The file behind `train`, `val`, `test` or `predict`."""

    @cached_property
    def sources(self) -> ReadingSources:
        ocr_features = None if self.ocr_regions is None else open_features(self.ocr_regions)
        return ReadingSources(open_features(self.regions, self.label_names), ocr_features, self.ocr)

    @property
    def region_dim(self) -> int:
        return self.sources.objects.dim

    def prepare_data(self) -> None:
        """Annotates what evaluation will read, in one process, before the others ask for it."""
        stage = self.evaluated_stage()
        if self.grammar.source is not None and stage is not None:
            self.dataset(stage)

    def dataset(self, stage: str) -> StoredQuestions:
        path = self.question_file(stage)
        key = path, stage != "train" and self.grammar.source is not None  # probes listen to evaluation
        if key not in self._datasets:
            questions = StoredQuestions(self, self.asked(stage), self.sources)
            if key[1]:
                questions.annotate(self.grammar, path)
            self._datasets[key] = questions
        return self._datasets[key]

    def asked(self, stage: str) -> list[PictureQuestion]:
        """The questions of a stage; a file is read once."""
        path = self.question_file(stage)
        if path not in self._questions:
            self._questions[path] = read_questions(path)
        return self._questions[path]

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        return None if self.images is None else self.images.open(self.dataset(stage).pictures[image_id])
