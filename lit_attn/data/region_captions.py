"""How do regions of one place and captions of another become samples? Shared by the data sets of public files."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.caption_files import CaptionedPicture
from lit_attn.data.captioning import CaptioningData, caption_ids
from lit_attn.data.grammar import Grammar
from lit_attn.data.picture_folder import PictureFolder
from lit_attn.data.pictures import Caption, Picture, Sample
from lit_attn.data.region_base import RegionStore
from lit_attn.data.region_labels import LabelNames
from lit_attn.data.region_store import open_regions
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD, Regions
from lit_attn.errors import UserError
from lit_attn.language.phrases import Exclude, Kind
from lit_attn.language.trees import kept
from lit_attn.types import Annotation
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RegionSource:
    """Regions, the names of their labels, and the pictures themselves if there are any."""

    store: RegionStore
    names: LabelNames
    images: PictureFolder | None

    def read(self, captioned: CaptionedPicture, name: str) -> Regions:
        """The regions of a picture, which the store lists as `name`."""
        size = captioned.size
        if size is None and self.store.needs_size and self.images is not None:
            size = self.images.size(captioned.file)
        return self.store.read(name, size)

    def described(self, regions: Regions) -> tuple[str, ...]:
        """What each region shows; empty without labels."""
        return self.names.of(regions)

    def named(self, regions: Regions) -> tuple[str, ...]:
        """The same where labels are needed."""
        if len(regions):
            self.names.check(regions.labelled, regions.name, self.store.path)
        return self.described(regions)

    def picture(self, image_id: int, captioned: CaptionedPicture, name: str, is_linked: bool = False) -> Picture:
        """A picture whose regions the store lists as `name`. Where phrases are linked, every region is an object."""
        regions = self.read(captioned, name)
        width = regions.features.shape[1]
        if width != self.store.dim:
            raise UserError(
                f"{self.store.path}: the regions of {name} have {width} features, those of others {self.store.dim}."
            )
        return Picture(
            image_id,
            regions.features,
            regions.relative_boxes,
            region_object=np.arange(len(regions)) if is_linked else None,
            labels=self.described(regions),
            name=captioned.name,
            references=captioned.references,
        )


class CaptionedRegions(Dataset[Sample]):
    """The pictures of a split. Regions are read, and words looked up, when a sample is asked for."""

    def __init__(
        self,
        pictures: Sequence[CaptionedPicture],
        names: Sequence[str],
        source: RegionSource,
        words: CaptionWords,
        max_words: int,
        annotations: Mapping[str, Annotation] | None = None,
        is_linked: bool = False,
    ) -> None:
        self.is_linked = is_linked
        self.pictures = pictures
        self.names = names
        self.source = source
        self.words = words
        self.max_words = max_words
        self.annotations = annotations or {}
        self._first = list(accumulate((len(picture.captions) for picture in pictures), initial=0))

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Sample:
        captioned = self.pictures[index]
        captions = [
            Caption(
                self._first[index] + i,
                f"{captioned.stem}-{i}",
                caption_ids(self.words, tokens, self.max_words),
                self._annotation(f"{captioned.stem}-{i}"),
            )
            for i, tokens in enumerate(captioned.captions)
        ]
        return self.source.picture(index, captioned, self.names[index], self.is_linked), captions

    def _annotation(self, name: str) -> Annotation | None:
        """Of the words that have ids: without UNK in the vocabulary, the model never sees the others."""
        whole = self.annotations.get(name)
        if whole is None or self.words.unknown is not None:
            return whole
        return kept(whole, [i for i, token in enumerate(whole.tokens) if token in self.words.ids])


class RegionCaptioning(CaptioningData, ABC):
    """A data set of captions whose regions are wherever `open_regions` finds them."""

    def __init__(
        self,
        regions: str,
        images: str | None,
        object_names: str | None,
        attribute_names: str | None,
        max_words: int,
        batch_size: int,
        eval_batch_size: int,
        num_workers: int,
        seed: int,
        annotate: str | None = None,
        link: str | None = None,
        phrases: Kind = "nested",
        exclude: Exclude = "exact",
        attribute_threshold: float = ATTRIBUTE_THRESHOLD,
    ) -> None:
        super().__init__(max_words, batch_size, eval_batch_size, num_workers, seed)
        self.grammar = Grammar(annotate, link, phrases, exclude)
        self.regions = Path(regions)
        self.images = None if images is None else PictureFolder(Path(images))
        self.label_names = LabelNames.read(object_names, attribute_names, attribute_threshold)
        self._datasets: dict[str, CaptionedRegions] = {}
        self._labels: dict[str, tuple[str, ...]] = {}

    @abstractmethod
    def pictures(self, stage: str) -> Sequence[CaptionedPicture]:
        """The pictures of `train`, `val`, `test` or `predict`, in their order."""

    @property
    def text_path(self) -> Path:
        """The file or folder that the captions come from; annotations are kept beside it."""
        return self.regions

    def prepare_data(self) -> None:
        """Annotates what evaluation will read, in one process, before the others ask for it."""
        stage = self.evaluated_stage()
        if self.grammar.source is not None and stage is not None:
            pictures = [p for p in self.pictures(stage) if p.captions]
            self.annotations(pictures, self.listed(stage, pictures))

    def annotations(self, pictures: Sequence[CaptionedPicture], names: Sequence[str]) -> dict[str, Annotation]:
        """By sample id; with noun phrases linked to regions where that is asked for. `names` are those of the regions."""
        texts = {f"{p.stem}-{i}": tokens for p in pictures for i, tokens in enumerate(p.captions)}

        def described() -> dict[str, tuple[str, ...]]:
            pairs = zip(pictures, names, strict=True)
            return {f"{p.stem}-{i}": self._named(p, name) for p, name in pairs for i in range(len(p.captions))}

        return self.grammar.annotations(texts, self.text_path, described)

    def _named(self, picture: CaptionedPicture, name: str) -> tuple[str, ...]:
        """What each region of a picture is called; read once."""
        if name not in self._labels:
            self._labels[name] = self.source.named(self.source.read(picture, name))
        return self._labels[name]

    def keys(self, picture: CaptionedPicture) -> tuple[str, ...]:
        """Names under which the regions of a picture may be listed: its file's, and its number."""
        return (picture.stem, str(picture.picture_id))

    @cached_property
    def source(self) -> RegionSource:
        return RegionSource(open_regions(self.regions), self.label_names, self.images)

    @property
    def region_dim(self) -> int:
        return self.source.store.dim

    def dataset(self, stage: str) -> CaptionedRegions:
        if stage not in self._datasets:
            self._datasets[stage] = self._open(stage)
        return self._datasets[stage]

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        return None if self.images is None else self.images.open(self.dataset(stage).pictures[image_id].file)

    def annotated(self, stage: str, texts: Mapping[int, str]) -> dict[int, Annotation | None]:
        """As gold captions are, by the same pipeline, rules and linker, but kept nowhere. None for a text without words."""

        def described(number: int) -> tuple[str, ...]:
            split = self.dataset(stage)
            return self._named(split.pictures[number], split.names[number])

        return self.grammar.written(texts, described)

    def training_references(self) -> Iterator[tuple[str, ...]]:
        return (picture.references for picture in self.pictures("train") if picture.captions)

    def _open(self, stage: str) -> CaptionedRegions:
        """Pictures without captions are left out, except where captions are not asked for."""
        pictures = [picture for picture in self.pictures(stage) if picture.captions or stage == "predict"]
        if not pictures:
            raise UserError(f"There is no picture with a caption for {stage!r} in {type(self).__name__}.")
        cut = sum(len(caption) > self.max_words for picture in pictures for caption in picture.captions)
        told = f", {cut} captions cut at {self.max_words} words" if cut else ""
        log.info("%s: %d pictures%s.", stage, len(pictures), told)
        listed = self.listed(stage, pictures)
        annotations = {} if stage == "train" else self.annotations(pictures, listed)  # probes listen to evaluation
        is_linked = self.grammar.link is not None and stage != "train"
        return CaptionedRegions(pictures, listed, self.source, self.vocabulary, self.max_words, annotations, is_linked)

    def listed(self, stage: str, pictures: Sequence[CaptionedPicture]) -> list[str]:
        """What the store calls each picture. All of them must be there."""
        store = self.source.store
        found = [store.find(*self.keys(picture)) for picture in pictures]
        missing = [picture for picture, name in zip(pictures, found, strict=True) if name is None]
        if missing:
            raise UserError(
                f"{len(missing)} of {len(pictures)} pictures for {stage!r} have no regions, such as "
                f"{', '.join(picture.stem for picture in missing[:3])}. {store.not_found(*self.keys(missing[0]))}"
            )
        return [name for name in found if name is not None]
