"""How are CUB and COCO read as AttnGAN (Xu et al. 2018) distributes them? One folder with captions, and the photographs.

    captions.pickle                       or text/<name>.txt, a caption per line
    train/filenames.pickle, test/…        and class_info.pickle, for birds
    CUB_200_2011/images/<name>.jpg        with images.txt and bounding_boxes.txt, or
    images/<name>.jpg                     COCO's, also in train2014 and val2014

There are two splits: training, and test for everything else. The published validation is on test, too.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from lit_attn.checkpoint import read_words
from lit_attn.data.attngan_files import (
    SPLITS,
    CaptionFile,
    Captions,
    find,
    read_boxes,
    read_caption_pickle,
    read_caption_texts,
    read_classes,
    read_names,
)
from lit_attn.data.cropping import Box, around, cropped, reduced
from lit_attn.data.synthesis import Pictures, Saying, SynthesisData, View
from lit_attn.errors import UserError
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger(__name__)

BIRDS = "CUB_200_2011"


def open_photograph(path: Path) -> Image.Image:
    """In RGB, whatever it was."""
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except Exception as error:  # Pillow's readers raise many kinds for damaged files
        raise UserError(f"The picture {path} cannot be read: {error}. Fetch it again.") from error


@dataclass(frozen=True)
class Photographs(Pictures):
    """One split."""

    folder: Path
    names: Sequence[str]
    classes: Sequence[int]
    captions: Sequence[Captions]
    vocabulary: CaptionWords
    boxes: dict[str, Box] | None
    side: int
    num_captions: int

    def __len__(self) -> int:
        return len(self.names)

    def class_id(self, picture: int) -> int:
        return self.classes[picture]

    def sayings(self, picture: int) -> list[Saying]:
        ids = self.vocabulary.ids
        return [
            Saying(
                caption_id=picture * self.num_captions + number,
                sample_id=f"{self.names[picture]}-{number}",
                words=tuple(word for word in caption if word in ids),
                ids=tuple(ids[word] for word in caption if word in ids),
            )
            for number, caption in enumerate(self.captions[picture])
        ]

    def view(self, picture: int, chance: Random | None) -> View:
        photograph = cropped(reduced(self.photograph(picture), self.side), self.side, chance)
        view = View(picture, self.classes[picture], self.names[picture], np.asarray(photograph))
        return view.mirrored() if chance is not None and chance.random() < 0.5 else view

    def photograph(self, picture: int) -> Image.Image:
        """Of a bird, what is around it; else all."""
        name = self.names[picture]
        path = find(self.folder, name, ".jpg", "pixels")
        photograph = open_photograph(path)
        if self.boxes is None:
            return photograph
        if name not in self.boxes:
            raise UserError(f"{self.folder.parent / 'bounding_boxes.txt'} has no box of {name}.")
        left, top, right, bottom = around(self.boxes[name], photograph.width, photograph.height)
        if left >= right or top >= bottom:
            raise UserError(
                f"The box {self.boxes[name]} of {name} (x, y, width, height) lies outside the picture {path}, which has "
                f"{photograph.width} x {photograph.height} pixels."
            )
        return photograph.crop((left, top, right, bottom))


class AttnGanFolder(SynthesisData):
    """CUB, COCO or other pictures in AttnGAN's layout.

    Args:
        root: The folder `birds` or `coco`.
        side: Pixels across a picture.
        num_captions: Captions of a picture: 10 for CUB, 5 for COCO.
        max_words: Of a longer caption, training takes so many words by chance, in their order: 18 for CUB, 12 for COCO.
        eval_max_words: Of a longer caption, evaluation takes so many, the first ones.
        captions_per_picture: How many captions of a picture evaluation takes, one sample each.
        vocabulary: Weights, or a JSON with `ix_to_word`, whose words are used. Else those of the captions.
        sentences: For `predict`: a text file with one sentence per line, a `.csv` with a column `caption`, or a sentence.
        seed: Of the order of training, and of the captions, crops and sides that it shows.
    """

    def __init__(
        self,
        root: str,
        side: int = 256,
        num_captions: int = 10,
        max_words: int = 18,
        eval_max_words: int = 25,
        captions_per_picture: int = 1,
        vocabulary: str | None = None,
        sentences: str | None = None,
        batch_size: int = 20,
        eval_batch_size: int = 20,
        num_workers: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(
            max_words,
            eval_max_words,
            captions_per_picture,
            sentences,
            batch_size,
            eval_batch_size,
            num_workers,
            seed,
        )
        for name, value in (("side", side), ("num_captions", num_captions)):
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.root = Path(root)
        if sentences is None or vocabulary is None:  # with both, nothing of the folder is read
            self._check_root()
        self.num_captions = num_captions
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        self._side = side

    @property
    def side(self) -> int:
        return self._side

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The pictures of each split."""
        self._check_root()
        return {split: read_names(self.root, split) for split in SPLITS}

    @cached_property
    def captions(self) -> CaptionFile:
        """All captions and their words. Words are numbered as they first occur, in training before test."""
        path = self.root / "captions.pickle"
        if path.exists():
            return read_caption_pickle(path, self.names, self.num_captions)
        log.info("There is no %s; the captions are those of text/.", path)
        captions = {split: read_caption_texts(self.root, self.names[split], self.num_captions) for split in SPLITS}
        told = (caption for split in SPLITS for own in captions[split] for caption in own)
        return CaptionFile(captions, CaptionWords.build(told, min_count=1))

    @cached_property
    def vocabulary(self) -> CaptionWords:
        return self.captions.vocabulary if self.vocabulary_path is None else read_words(self.vocabulary_path)

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise UserError(f"data.root {str(self.root)!r} is not a folder. It must be AttnGAN's birds or coco.")

    def split_name(self, stage: str) -> str:
        return "train" if stage == "train" else "test"

    def read_pictures(self, split: str) -> Photographs:
        birds = self.root / BIRDS
        names, captions = self.names[split], self.captions.captions[split]
        self._tell_unknown(split, captions)
        pictures = Photographs(
            folder=(birds if birds.is_dir() else self.root) / "images",
            names=names,
            classes=read_classes(self.root, split, len(names)),
            captions=captions,
            vocabulary=self.vocabulary,
            boxes=read_boxes(birds) if birds.is_dir() else None,
            side=self.side,
            num_captions=self.num_captions,
        )
        log.info("%s: %d pictures with %d captions.", split, len(names), sum(map(len, captions)))
        return pictures

    def _tell_unknown(self, split: str, captions: Sequence[Captions]) -> None:
        """Says which words another vocabulary leaves out."""
        if self.vocabulary_path is None:
            return
        known = self.vocabulary.ids
        unknown = {word for own in captions for caption in own for word in caption if word not in known}
        if unknown:
            log.warning(
                "%s does not have %d words of the %s captions, such as %r; they are left out.",
                self.vocabulary_path,
                len(unknown),
                split,
                min(unknown),
            )

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        if stage == "predict" and self.sentences is not None:
            return None
        pictures = self.pictures(stage)
        assert isinstance(pictures, Photographs)
        return pictures.photograph(image_id)
