"""What is a picture with its captions before it is a batch, and which of them does a sample show?

Training shows every picture once an epoch, with one of its captions, a part of a long caption and perhaps another crop or
side, all by chance. That chance depends on (seed, split, epoch, picture) and nothing else, so neither workers nor a resume
change it: the loader asks for sample `epoch * pictures + picture`. Evaluation shows the first captions, their first words
and the picture as it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from lit_attn.data.batched import BatchedData
from lit_attn.data.loader import Loading, TrainLoader
from lit_attn.data.scenes.rooms import digest
from lit_attn.data.sentences import Sentence, read_sentences
from lit_attn.errors import UserError
from lit_attn.types import SynthesisBatch
from lit_attn.vocabulary import CaptionWords

HALF_WHITE = 127.5


@dataclass(frozen=True)
class View:
    """One picture as a sample shows it."""

    image_id: int
    class_id: int
    name: str
    pixels: NDArray[np.uint8] | None = None
    """y x 3; None where there is a caption alone."""
    thing_cells: NDArray[np.bool_] | None = None
    """Per thing of the picture the cells, y x, that show it."""
    looks: NDArray[np.int64] | None = None
    main_thing: int | None = None

    def mirrored(self) -> "View":
        """Left and right swapped."""
        pixels = None if self.pixels is None else self.pixels[:, ::-1]
        cells = None if self.thing_cells is None else self.thing_cells[:, :, ::-1]
        return replace(self, pixels=pixels, thing_cells=cells)


@dataclass(frozen=True)
class Saying:
    """One caption of a picture: words that have an id, and these ids."""

    caption_id: int
    sample_id: str
    words: tuple[str, ...]
    ids: tuple[int, ...]
    things: tuple[tuple[int, ...], ...] | None = None
    """Per word the things of the picture that it is about."""
    main_kind: int | None = None
    main_color: int | None = None

    def __post_init__(self) -> None:
        if not self.ids:
            raise UserError(
                f"The caption {self.sample_id} has no word that the vocabulary knows. Leave it out, or write another."
            )

    def keeping(self, places: Sequence[int]) -> "Saying":
        """These words alone, in the order of `places`."""
        return replace(
            self,
            words=tuple(self.words[place] for place in places),
            ids=tuple(self.ids[place] for place in places),
            things=None if self.things is None else tuple(self.things[place] for place in places),
        )


Sample = tuple[View, Saying]


def collate(samples: Sequence[Sample]) -> SynthesisBatch:
    """Pads captions to the longest of the batch, and brings pictures to [-1, 1]."""
    views, sayings = [view for view, _ in samples], [saying for _, saying in samples]
    tokens, token_mask = padded([saying.ids for saying in sayings])
    pixels = [view.pixels for view in views if view.pixels is not None]
    looks = [view.looks for view in views if view.looks is not None]
    return SynthesisBatch(
        caption_id=torch.tensor([saying.caption_id for saying in sayings]),
        image_id=torch.tensor([view.image_id for view in views]),
        tokens=tokens,
        token_mask=token_mask,
        class_id=torch.tensor([view.class_id for view in views]),
        words=tuple(saying.words for saying in sayings),
        sample_id=tuple(saying.sample_id for saying in sayings),
        picture_name=tuple(view.name for view in views),
        image=_image(np.stack(pixels)) if pixels else None,
        word_cells=_word_cells(samples, tokens.shape[1]),
        main_kind=_numbers([saying.main_kind for saying in sayings]),
        main_color=_numbers([saying.main_color for saying in sayings]),
        looks=torch.from_numpy(np.stack(looks)) if looks else None,
        main_thing=_numbers([view.main_thing for view in views]),
    )


def padded(sentences: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "c t"], Bool[Tensor, "c t"]]:
    """Ids filled up with 0 to the longest, and which of them are words."""
    longest = max(map(len, sentences), default=0)
    tokens = np.zeros((len(sentences), longest), np.int64)
    token_mask = np.zeros((len(sentences), longest), bool)
    for row, ids in enumerate(sentences):
        tokens[row, : len(ids)], token_mask[row, : len(ids)] = ids, True
    return torch.from_numpy(tokens), torch.from_numpy(token_mask)


def _image(pixels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))).float() / HALF_WHITE - 1


def _word_cells(samples: Sequence[Sample], longest: int) -> Tensor | None:
    cells = None
    for row, (view, saying) in enumerate(samples):
        if view.thing_cells is None or saying.things is None:
            return None
        if cells is None:
            cells = np.zeros((len(samples), longest, *view.thing_cells.shape[1:]), bool)
        for place, things in enumerate(saying.things):
            cells[row, place] = view.thing_cells[list(things)].any(0)
    return None if cells is None else torch.from_numpy(cells)


def _numbers(values: Sequence[int | None]) -> Tensor | None:
    known = [value for value in values if value is not None]
    return torch.tensor(known) if len(known) == len(values) else None


class Pictures(ABC):
    """The pictures of one split with all their captions."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sayings(self, picture: int) -> Sequence[Saying]:
        """All captions of a picture, whole, the same every time."""

    @abstractmethod
    def view(self, picture: int, chance: Random | None) -> View:
        """The picture in training, where chance decides what is seen of it, or with None in evaluation."""

    @abstractmethod
    def class_id(self, picture: int) -> int: ...


class TrainingSet(Dataset[Sample]):
    """Sample `epoch * len(self) + i` is picture i as it is seen in that epoch."""

    def __init__(self, pictures: Pictures, max_words: int, seed: int, split: str) -> None:
        self.pictures, self.max_words, self.seed, self.split = pictures, max_words, seed, split

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Sample:
        epoch, picture = divmod(index, len(self.pictures))
        chance = Random(digest(self.seed, self.split, epoch, picture, "sample"))
        saying = chance.choice(self.pictures.sayings(picture))
        if len(saying.ids) > self.max_words:
            saying = saying.keeping(sorted(chance.sample(range(len(saying.ids)), self.max_words)))
        return self.pictures.view(picture, chance), saying


class EvaluationSet(Dataset[Sample]):
    """Every picture with its first captions, one sample each."""

    def __init__(self, pictures: Pictures, max_words: int, captions_per_picture: int) -> None:
        self.pictures, self.max_words, self.most = pictures, max_words, captions_per_picture

    def __len__(self) -> int:
        return len(self.pictures) if self.most == 1 else len(self._places)

    def __getitem__(self, index: int) -> Sample:
        picture, number = (index, 0) if self.most == 1 else self._places[index]
        saying = self.pictures.sayings(picture)[number]
        return self.pictures.view(picture, None), saying.keeping(range(min(len(saying.ids), self.max_words)))

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Picture and number of the caption of each sample; some pictures have fewer captions than others."""
        pictures = self.pictures
        return [(i, j) for i in range(len(pictures)) for j in range(min(self.most, len(pictures.sayings(i))))]


class SentenceSet(Dataset[Sample]):
    """The user's own sentences, without pictures."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Sample:
        name, sentence = f"sentence-{index + 1}", self.sentences[index]
        return View(index, index, name), Saying(index, name, sentence.words, sentence.ids)


@dataclass(frozen=True)
class CaptionPool:
    """All captions of a split, cut as in evaluation: among them are those that do not fit a picture."""

    tokens: Int[Tensor, "c t"]
    token_mask: Bool[Tensor, "c t"]
    class_id: Int[Tensor, " c"]
    image_id: Int[Tensor, " c"]

    def __len__(self) -> int:
        return len(self.class_id)


class EpochLoader(TrainLoader):
    """Tells the samples which epoch it is."""

    def batches(self, epoch: int) -> list[list[int]]:
        first = epoch * self.loading.size
        return [[first + index for index in batch] for batch in super().batches(epoch)]


class SynthesisData(BatchedData, ABC):
    """A data set of pictures with captions, from which pictures are to be made.

    Args:
        max_words: Of a longer caption, training takes so many words by chance, in their order.
        eval_max_words: Of a longer caption, evaluation takes so many, the first ones.
        captions_per_picture: How many captions of a picture evaluation takes, one sample each.
        sentences: For `predict`: a text file with one sentence per line, a `.csv` with a column `caption`, or a sentence.
    """

    collate = staticmethod(collate)

    def __init__(
        self,
        max_words: int,
        eval_max_words: int,
        captions_per_picture: int,
        sentences: str | None,
        batch_size: int,
        eval_batch_size: int,
        num_workers: int,
        seed: int,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        sizes = {"max_words": max_words, "eval_max_words": eval_max_words, "captions_per_picture": captions_per_picture}
        for name, value in sizes.items():
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.max_words, self.eval_max_words = max_words, eval_max_words
        self.captions_per_picture = captions_per_picture
        self.sentences = sentences
        self._pictures: dict[str, Pictures] = {}
        self._datasets: dict[str, Dataset[Sample]] = {}

    @property
    @abstractmethod
    def vocabulary(self) -> CaptionWords: ...

    @property
    @abstractmethod
    def side(self) -> int:
        """Pixels across a picture, at the largest resolution."""

    @abstractmethod
    def split_name(self, stage: str) -> str:
        """The split behind `train`, `val`, `test` or `predict`."""

    @abstractmethod
    def read_pictures(self, split: str) -> Pictures: ...

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def pictures(self, stage: str) -> Pictures:
        split = self.split_name(stage)
        if split not in self._pictures:
            self._pictures[split] = self.read_pictures(split)
        return self._pictures[split]

    def dataset(self, stage: str) -> Dataset[Sample]:
        if stage not in self._datasets:
            self._datasets[stage] = self._dataset(stage)
        return self._datasets[stage]

    def _dataset(self, stage: str) -> Dataset[Sample]:
        if stage == "predict" and self.sentences is not None:
            return SentenceSet(read_sentences(self.sentences, self.vocabulary, self.eval_max_words))
        if stage == "train":
            return TrainingSet(self.pictures(stage), self.max_words, self.seed, self.split_name(stage))
        return EvaluationSet(self.pictures(stage), self.eval_max_words, self.captions_per_picture)

    def caption_pool(self, stage: str) -> CaptionPool:
        """All captions of the split behind a stage: distractors of R-precision."""
        pictures = self.pictures(stage)
        told = [(picture, saying.ids) for picture in range(len(pictures)) for saying in pictures.sayings(picture)]
        tokens, token_mask = padded([ids[: self.eval_max_words] for _, ids in told])
        classes = [pictures.class_id(picture) for picture in range(len(pictures))]
        return CaptionPool(
            tokens,
            token_mask,
            class_id=torch.tensor([classes[picture] for picture, _ in told]),
            image_id=torch.tensor([picture for picture, _ in told]),
        )

    def shuffled(self, loading: Loading, seed: int) -> TrainLoader:
        loader = self._train_loader = EpochLoader(loading, seed)
        if self._place is not None:
            loader.load_state_dict(self._place)
            self._place = None
        return loader
