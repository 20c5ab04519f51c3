"""How is a trained captioner shown pictures of the user's own? Regions without captions, for predict."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from lit_attn.checkpoint import read_words
from lit_attn.data.caption_files import CaptionedPicture
from lit_attn.data.region_captions import CaptionedRegions, RegionCaptioning
from lit_attn.errors import UserError
from lit_attn.vocabulary import CaptionWords


class RegionFolder(RegionCaptioning):
    """Pictures that nobody has described yet.

    Args:
        root: Whatever `region_store.open_regions` takes.
        vocabulary: The words of the captioner: its weights, or a JSON with `ix_to_word`. The command fills in the weights.
        images: The folder of the pictures, to draw on.
        object_names, attribute_names: Lists of the 1600 objects and 400 attributes, for regions with label ids.
    """

    def __init__(
        self,
        root: str,
        vocabulary: str | None = None,
        images: str | None = None,
        object_names: str | None = None,
        attribute_names: str | None = None,
        eval_batch_size: int = 50,
        num_workers: int = 0,
    ) -> None:
        super().__init__(
            root,
            images,
            object_names,
            attribute_names,
            max_words=1,
            batch_size=1,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            seed=0,
        )
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)

    @cached_property
    def vocabulary(self) -> CaptionWords:
        if self.vocabulary_path is None:
            raise UserError("data.vocabulary is not set. Name the file with the captioner's words.")
        return read_words(self.vocabulary_path)

    def dataset(self, stage: str) -> CaptionedRegions:
        if stage != "predict":
            self._refuse(stage)
        return super().dataset(stage)

    def pictures(self, stage: str) -> Sequence[CaptionedPicture]:
        """In the order of the store."""
        names = self.source.store.names
        return [CaptionedPicture(name, stage, (), place, called=name) for place, name in enumerate(names)]

    def keys(self, picture: CaptionedPicture) -> tuple[str, ...]:
        return (picture.file,)

    def training_references(self) -> Iterator[tuple[str, ...]]:
        self._refuse("train")

    def _refuse(self, stage: str) -> NoReturn:
        raise UserError(
            f"data.root {self.regions} has pictures without captions, which {stage} needs. Use it with predict, or name a "
            "data set with captions."
        )
