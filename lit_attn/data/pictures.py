"""What is a picture with its captions before it is a batch, and how do several become one?"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.loader import EvalLoader, Loading, ResumableData, TrainLoader
from lit_attn.errors import UserError
from lit_attn.types import Annotation, CaptionBatch


@dataclass(frozen=True)
class Picture:
    """Detected regions of one picture."""

    image_id: int
    regions: np.ndarray
    boxes: np.ndarray
    region_object: np.ndarray | None = None
    labels: tuple[str, ...] = ()
    name: str = ""
    references: tuple[str, ...] = ()
    """All captions of the picture, whole, as tokens joined by blanks."""


@dataclass(frozen=True)
class Caption:
    """One caption of one picture."""

    caption_id: int
    sample_id: str
    ids: tuple[int, ...]
    annotation: Annotation | None = None


Sample = tuple[Picture, list[Caption]]
"""A picture with some of its captions, or none."""


def collate(samples: Sequence[Sample]) -> CaptionBatch:
    """Pads regions and words to the longest of the batch. Pictures may lack regions, or captions, or both."""
    pictures = [picture for picture, _ in samples]
    captions = [caption for _, own in samples for caption in own]
    owner = [i for i, (_, own) in enumerate(samples) for _ in own]
    most_regions = max(len(picture.regions) for picture in pictures)
    longest = max((len(caption.ids) for caption in captions), default=0)
    regions = np.zeros((len(pictures), most_regions, pictures[0].regions.shape[1]), np.float32)
    boxes = np.zeros((len(pictures), most_regions, 4), np.float32)
    region_mask = np.zeros((len(pictures), most_regions), bool)
    region_object = np.full((len(pictures), most_regions), -1, np.int64)
    for i, picture in enumerate(pictures):
        count = len(picture.regions)
        regions[i, :count], boxes[i, :count], region_mask[i, :count] = picture.regions, picture.boxes, True
        if picture.region_object is not None:
            region_object[i, :count] = picture.region_object
    tokens = np.zeros((len(captions), longest), np.int64)
    token_mask = np.zeros((len(captions), longest), bool)
    for i, caption in enumerate(captions):
        tokens[i, : len(caption.ids)], token_mask[i, : len(caption.ids)] = caption.ids, True
    knows_objects = all(picture.region_object is not None for picture in pictures)
    return CaptionBatch(
        image_id=torch.tensor([picture.image_id for picture in pictures]),
        regions=torch.from_numpy(regions),
        boxes=torch.from_numpy(boxes),
        region_mask=torch.from_numpy(region_mask),
        caption_id=torch.tensor([caption.caption_id for caption in captions], dtype=torch.long),
        owner=torch.tensor(owner, dtype=torch.long),
        tokens=torch.from_numpy(tokens),
        token_mask=torch.from_numpy(token_mask),
        sample_id=tuple(caption.sample_id for caption in captions),
        annotations=tuple(caption.annotation for caption in captions),
        region_object=torch.from_numpy(region_object) if knows_objects else None,
        region_labels=tuple(picture.labels for picture in pictures),
        picture_name=tuple(picture.name for picture in pictures),
        references=tuple(picture.references for picture in pictures),
    )


class PictureData(ResumableData, ABC):
    """Loaders over pictures with captions. Data sets say what the samples of a stage are and which words they use."""

    def __init__(self, batch_size: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
        super().__init__()
        for name, value in (("batch_size", batch_size), ("eval_batch_size", eval_batch_size)):
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.num_workers = num_workers
        self.seed = seed

    @property
    @abstractmethod
    def vocabulary(self) -> Sized: ...

    @property
    @abstractmethod
    def region_dim(self) -> int: ...

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[Sample]:
        """The samples of `train`, `val`, `test` or `predict`."""

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        """The picture itself, where the data set has it."""
        return None

    def reference_scores(self, stage: str) -> dict[str, float]:
        """Scores known without any model, such as those of an oracle; logged beside the model's."""
        return {}

    def text_scores(self, stage: str, texts: Mapping[int, str]) -> dict[str, float]:
        """What the data set itself can say about texts written for its pictures, such as the share of true sentences."""
        return {}

    def verdicts(self, image_id: int, stage: str, text: str) -> str | None:
        """For every sentence of a text `true`, `false` or `unclear`, where the data set can tell."""
        return None

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def train_dataloader(self) -> TrainLoader:
        loading = self._loading("train", self.batch_size)
        share = loading.size // loading.world_size
        if share < self.batch_size:
            raise UserError(
                f"data.batch_size is {self.batch_size}, but a process has only {share} training samples. "
                "Lower the batch size."
            )
        return self.shuffled(loading, self.seed)

    def val_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("val", self.eval_batch_size))

    def test_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("test", self.eval_batch_size))

    def predict_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("predict", self.eval_batch_size))

    def _loading(self, stage: str, batch_size: int) -> Loading:
        trainer = self.trainer
        rank, world_size = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        return Loading(self.dataset(stage), batch_size, collate, self.num_workers, rank, world_size)
