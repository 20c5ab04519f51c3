"""How do pictures and their captions become batches? Shared by every data set that SCAN can train on."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch.utils.data import Dataset

from lit_attn.data.pictures import Caption, Picture, PictureData, Sample
from lit_attn.data.vocab import Vocabulary
from lit_attn.types import Annotation

NOUNS = ("NOUN", "PROPN")
"""Universal tags of what Penn's tags NN* mark."""


class PictureFacts(NamedTuple):
    """What is known of a picture and its captions besides features and words."""

    categories: tuple[str, ...]
    captions: tuple[str, ...]
    """Names of its captions."""
    nouns: tuple[int | None, ...]
    """In each caption; None where its grammar is not known."""


def num_nouns(annotation: Annotation) -> int:
    return sum(tag in NOUNS for tag in annotation.pos)


class MatchingSource(ABC):
    """Pictures with captions: `captions_per_picture` of them each, in order."""

    num_pictures: int
    captions_per_picture: int
    region_dim: int

    @abstractmethod
    def picture(self, index: int) -> Picture: ...

    @abstractmethod
    def caption(self, index: int) -> Caption:
        """Caption `index` belongs to picture `index // captions_per_picture`."""

    def categories(self, index: int) -> tuple[str, ...]:
        """What kinds of things a picture shows, where that is known."""
        return ()


class PairDataset(Dataset[Sample]):
    """For training: one sample per caption, with its picture."""

    def __init__(self, source: MatchingSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.num_pictures * self.source.captions_per_picture

    def __getitem__(self, index: int) -> Sample:
        return self.source.picture(index // self.source.captions_per_picture), [self.source.caption(index)]


class PictureDataset(Dataset[Sample]):
    """For evaluation: one sample per picture, with all its captions."""

    def __init__(self, source: MatchingSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.num_pictures

    def __getitem__(self, index: int) -> Sample:
        each = self.source.captions_per_picture
        return self.source.picture(index), [self.source.caption(index * each + i) for i in range(each)]


class MatchingData(PictureData, ABC):
    """Loaders over a source per split: pairs for training, whole pictures for evaluation."""

    def __init__(self, batch_size: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        self._sources: dict[str, MatchingSource] = {}

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @abstractmethod
    def open_split(self, split: str) -> MatchingSource: ...

    @abstractmethod
    def split_name(self, stage: str) -> str:
        """The split behind `train`, `val`, `test` or `predict`."""

    def source(self, stage: str) -> MatchingSource:
        split = self.split_name(stage)
        if split not in self._sources:
            self._sources[split] = self.open_split(split)
        return self._sources[split]

    def breakdown_facts(self, stage: str, picture: int) -> PictureFacts:
        """What retrieval of a picture and of its captions is broken down by."""
        source = self.source(stage)
        each = source.captions_per_picture
        captions = [source.caption(picture * each + i) for i in range(each)]
        return PictureFacts(
            source.categories(picture),
            tuple(caption.sample_id for caption in captions),
            tuple(None if c.annotation is None else num_nouns(c.annotation) for c in captions),
        )

    def dataset(self, stage: str) -> Dataset[Sample]:
        source = self.source(stage)
        return PairDataset(source) if stage == "train" else PictureDataset(source)
