"""What is a picture with its captions before it is a batch, and how do several become one?"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset

from lit_attn.data.batched import BatchedData
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


class PictureData(BatchedData, ABC):
    """Pictures with captions. Data sets say which words they use."""

    collate = staticmethod(collate)

    @property
    @abstractmethod
    def vocabulary(self) -> Sized: ...

    @property
    @abstractmethod
    def region_dim(self) -> int: ...

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[Sample]: ...

    def text_scores(self, stage: str, texts: Mapping[int, str]) -> dict[str, float]:
        """What the data set itself can say about texts written for its pictures, such as the share of true sentences."""
        return {}

    def verdicts(self, image_id: int, stage: str, text: str) -> str | None:
        """For every sentence of a text `true`, `false` or `unclear`, where the data set can tell."""
        return None

    def annotated(self, stage: str, texts: Mapping[int, str]) -> dict[int, Annotation | None]:
        """The grammar of texts written for pictures, by the pictures' numbers; None for a text that is not understood."""
        raise UserError(
            f"{type(self).__name__} cannot annotate texts that a model wrote. Probe its gold texts instead."
        )

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)
