"""How are COCO and other caption data sets read in Karpathy's layout? Captions from their JSON, regions from anywhere.

A sample is a picture with all its captions. `restval` joins `train`. COCO's own annotation files are read as well. Unlike
the original loader, which draws five captions per picture with replacement where there are fewer, every caption is used
exactly once per epoch.
"""

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from lit_attn.checkpoint import read_words
from lit_attn.data.caption_files import SPLITS, CaptionedPicture, read_captions
from lit_attn.data.labels import MAX_WORDS, MIN_COUNT, build_words
from lit_attn.data.region_captions import RegionCaptioning
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD
from lit_attn.errors import UserError, did_you_mean
from lit_attn.language.phrases import Exclude, Kind
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger(__name__)


class KarpathyCaptions(RegionCaptioning):
    """Captions in Karpathy's or COCO's layout.

    Args:
        captions: The JSON, or several whose pictures are taken together (COCO has one per split).
        regions: Whatever `region_store.open_regions` takes.
        vocabulary: A JSON with `ix_to_word`; without one the words are those of all captions.
        min_count: Rarer words become UNK (when the vocabulary is built).
        max_words: Captions are cut there.
        images: The folder of the pictures, to draw on.
        object_names, attribute_names: Lists of the 1600 objects and 400 attributes, for regions with label ids.
        annotate: Where grammar for probes comes from: a spaCy pipeline such as `en_core_web_sm`, a `.conllu` or `.jsonl` file.
        link: Which regions noun phrases name, by a linker of `lit_attn.data.linking.named`: `lemma`, `glove_add`, `sentence` …
        phrases: Which noun phrases: `nested`, or `base`, which end at their noun.
        exclude: Which of them are left out as places of the picture: `exact`, `contains` or `nothing`.
        attribute_threshold: An attribute is part of what a region is called above this confidence.
        regions_by: `file` or `id`, for captions without `cocoid`: whether regions are listed by the pictures' file
            names or by `imgid`. By default, whichever finds more.
        test_split: The split behind `test` and `predict`.
    """

    def __init__(
        self,
        captions: str | list[str],
        regions: str,
        vocabulary: str | None = None,
        min_count: int = MIN_COUNT,
        max_words: int = MAX_WORDS,
        images: str | None = None,
        object_names: str | None = None,
        attribute_names: str | None = None,
        regions_by: str | None = None,
        test_split: str = "test",
        batch_size: int = 15,
        eval_batch_size: int = 50,
        num_workers: int = 2,
        seed: int = 0,
        annotate: str | None = None,
        link: str | None = None,
        phrases: Kind = "nested",
        exclude: Exclude = "exact",
        attribute_threshold: float = ATTRIBUTE_THRESHOLD,
    ) -> None:
        super().__init__(
            regions,
            images,
            object_names,
            attribute_names,
            max_words,
            batch_size,
            eval_batch_size,
            num_workers,
            seed,
            annotate,
            link,
            phrases,
            exclude,
            attribute_threshold,
        )
        if regions_by not in (None, "file", "id"):
            raise UserError(f"data.regions_by is {regions_by!r}; expected 'file', 'id' or nothing.")
        if test_split not in SPLITS:
            known = did_you_mean(test_split, SPLITS) + f" Known: {', '.join(SPLITS)}."
            raise UserError(f"data.test_split is {test_split!r}.{known}")
        self.captions = [Path(path) for path in ([captions] if isinstance(captions, str) else captions)]
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        self.min_count = min_count
        self.regions_by = regions_by
        self.test_split = test_split

    @cached_property
    def all_pictures(self) -> list[CaptionedPicture]:
        return [picture for path in self.captions for picture in read_captions(path)]

    @cached_property
    def vocabulary(self) -> CaptionWords:
        if self.vocabulary_path is not None:
            return read_words(self.vocabulary_path)
        return build_words(self.all_pictures, self.min_count)

    @property
    def text_path(self) -> Path:
        return self.captions[0]

    def pictures(self, stage: str) -> Sequence[CaptionedPicture]:
        splits = {"train": ("train", "restval"), "val": ("val",)}.get(stage, (self.test_split,))
        pictures = [picture for picture in self.all_pictures if picture.split in splits]
        if not pictures:
            has = ", ".join(sorted({picture.split for picture in self.all_pictures}))
            files = ", ".join(map(str, self.captions))
            raise UserError(f"{files} has no pictures of the split {splits[0]!r}, only of {has}.")
        return pictures

    def keys(self, picture: CaptionedPicture) -> tuple[str, ...]:
        if picture.is_numbered:
            return super().keys(picture)
        return (picture.stem,) if self._listed_by == "file" else (str(picture.picture_id),)

    @cached_property
    def _listed_by(self) -> str:
        """How regions name pictures that have no number of their own: two namings may both fit, one of them wrongly."""
        if self.regions_by is not None:
            return self.regions_by
        store = self.source.store
        by_file = [store.find(picture.stem) for picture in self.all_pictures]
        by_id = [store.find(str(picture.picture_id)) for picture in self.all_pictures]
        found_by_file, found_by_id = (sum(name is not None for name in names) for names in (by_file, by_id))
        if found_by_file == found_by_id and by_file != by_id:
            raise UserError(
                f"{store.path} could list pictures by their file names or by imgid: both find {found_by_id} of "
                f"{len(by_id)}. Say which: data.regions_by file, or data.regions_by id."
            )
        return "file" if found_by_file >= found_by_id else "id"
