"""How are Flickr30K and COCO read as SCAN distributes them? Captions, precomputed region features, vocabulary.

A folder `{f30k,coco}_precomp` holds `{train,dev,test,testall}_caps.txt` (one caption per line, five per picture in
order) and `*_ims.npy` (float32 [pictures, 36, 2048]; or one row per caption, then rows repeat). Features are
memory-mapped. Boxes were never distributed with them; a file `*_boxes.npy` [pictures, 36, 4], relative to the picture,
is used when it is there, and without it every box is the whole picture.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lit_attn.data.annotate.source import annotate
from lit_attn.data.coco_instances import read_picture_ids, read_supercategories
from lit_attn.data.matching import MatchingData, MatchingSource
from lit_attn.data.pictures import Caption, Picture
from lit_attn.data.vocab import Vocabulary, tokenize
from lit_attn.errors import UserError
from lit_attn.types import Annotation

log = logging.getLogger(__name__)

CAPTIONS_PER_PICTURE = 5
DEV_CAPTIONS = 5000
"""The published code evaluates on the first 5,000 captions of `dev` only."""
CHECK_EVERY = 997
"""Rows of a feature file that are checked for NaN when it is opened: every so many, and the ends."""


class PrecompSource(MatchingSource):
    """One split of a precomputed data set."""

    def __init__(
        self,
        folder: Path,
        split: str,
        vocabulary: Vocabulary,
        max_pictures: int | None = None,
        annotate: str | None = None,
        instances: Sequence[Path] = (),
    ) -> None:
        self.split = split
        self.vocabulary = vocabulary
        self.captions_per_picture = CAPTIONS_PER_PICTURE
        self.lines = read_captions(folder / f"{split}_caps.txt")
        self.path = folder / f"{split}_ims.npy"
        self.features = open_features(self.path)
        pictures, rest = divmod(len(self.lines), CAPTIONS_PER_PICTURE)
        if rest:
            raise UserError(
                f"{folder / f'{split}_caps.txt'} has {len(self.lines)} captions, which is not a multiple of "
                f"{CAPTIONS_PER_PICTURE} (five per picture, in order). Is the file complete?"
            )
        # Some distributions repeat each picture's row for each caption.
        self.stride = CAPTIONS_PER_PICTURE if len(self.features) == len(self.lines) else 1
        if len(self.features) // self.stride != pictures:
            raise UserError(
                f"{self.path} has {len(self.features)} rows for {len(self.lines)} captions; expected one row per "
                f"picture ({pictures}) or per caption ({len(self.lines)})."
            )
        if split == "dev":
            pictures = min(pictures, DEV_CAPTIONS // CAPTIONS_PER_PICTURE)
        self.num_pictures = pictures if max_pictures is None else min(pictures, max_pictures)
        self.region_dim = self.features.shape[2]
        self.boxes = open_boxes(folder / f"{split}_boxes.npy", self.features.shape)
        self.annotations = {} if annotate is None else self._annotated(folder, annotate)
        self.shows = self._categories(folder / f"{split}_ids.txt", pictures, instances) if instances else {}

    def _annotated(self, folder: Path, source: str) -> dict[str, Annotation]:
        lines = self.lines[: self.num_pictures * CAPTIONS_PER_PICTURE]
        texts = {f"{self.split}-{index}": tuple(tokenize(line)) for index, line in enumerate(lines)}
        return annotate(texts, source, folder / f"{self.split}_caps.txt")

    def _categories(self, path: Path, pictures: int, instances: Sequence[Path]) -> dict[int, tuple[str, ...]]:
        known = read_supercategories(instances)
        ids = read_picture_ids(path, len(self.lines) // CAPTIONS_PER_PICTURE, CAPTIONS_PER_PICTURE)[:pictures]
        missing = [number for number in ids if number not in known]
        if missing:
            raise UserError(
                f"{len(missing)} of {len(ids)} pictures of {path} are not in data.instances, such as {missing[0]}. "
                "Karpathy's splits of COCO need instances_val2014.json, and instances_train2014.json for training."
            )
        return {index: known[number] for index, number in enumerate(ids)}

    def categories(self, index: int) -> tuple[str, ...]:
        return self.shows.get(index, ())

    def picture(self, index: int) -> Picture:
        row = index * self.stride
        regions = np.asarray(self.features[row])
        if not np.isfinite(regions).all():
            raise UserError(f"{self.path}: row {row} holds NaN or infinity. Extract or download the file again.")
        boxes = (
            np.tile(np.array([0, 0, 1, 1], np.float32), (len(regions), 1)) if self.boxes is None else self.boxes[row]
        )
        return Picture(index, regions, np.asarray(boxes))

    def caption(self, index: int) -> Caption:
        ids = self.vocabulary.encode(tokenize(self.lines[index]))
        name = f"{self.split}-{index}"
        return Caption(index, name, tuple(ids), self.annotations.get(name))


def read_captions(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"Cannot read the captions {path}: {error.strerror}. data.root names the folder.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}.") from error
    if not lines:
        raise UserError(f"{path} is empty.")
    return lines


def open_features(path: Path) -> np.ndarray:
    """A memory-mapped array [pictures, regions, channels], looked at in a few places."""
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UserError(f"Cannot read the features {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise UserError(f"{path} is not a complete .npy array of numbers: {error}.") from error
    if features.ndim != 3 or features.dtype.kind != "f":
        raise UserError(
            f"{path} holds {features.dtype} of shape {features.shape}; expected floats [pictures, regions, channels]."
        )
    for row in sorted({*range(0, len(features), CHECK_EVERY), len(features) - 1}):
        if not np.isfinite(features[row]).all():
            raise UserError(f"{path}: row {row} holds NaN or infinity. Extract or download the file again.")
    return features


def open_boxes(path: Path, features_shape: tuple[int, ...]) -> np.ndarray | None:
    if not path.exists():
        log.info("No %s: boxes are the whole picture, so drawings cannot show regions.", path)
        return None
    boxes = np.load(path, mmap_mode="r", allow_pickle=False)
    if boxes.shape != (*features_shape[:2], 4):
        raise UserError(f"{path} has shape {boxes.shape}; the features need {(*features_shape[:2], 4)}.")
    return boxes


class PrecompMatching(MatchingData):
    """Flickr30K or COCO from a `*_precomp` folder.

    Args:
        root: The folder with `train_caps.txt`, `train_ims.npy` and so on.
        vocab: A vocabulary JSON as distributed; without one it is built from the captions of train and dev.
        min_count: Rarer words become unknown (when the vocabulary is built).
        test_split: `test`, or `testall` for the 5,000 pictures of COCO.
        max_train_images: Train on the first so many pictures only.
        annotate: A spaCy pipeline, or a CoNLL-U or JSON lines file: the grammar of the captions that are evaluated.
        instances: COCO's `instances_*.json`: what the pictures that are evaluated show, by their ids in `*_ids.txt`.
    """

    def __init__(
        self,
        root: str,
        vocab: str | None = None,
        min_count: int = 4,
        test_split: str = "test",
        max_train_images: int | None = None,
        annotate: str | None = None,
        instances: list[str] | None = None,
        batch_size: int = 128,
        eval_batch_size: int = 64,
        num_workers: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        self.root = Path(root)
        if not self.root.is_dir():
            raise UserError(
                f"data.root {root!r} is not a folder. It must hold train_caps.txt, train_ims.npy and so on."
            )
        self.vocab_path = None if vocab is None else Path(vocab)
        self.min_count = min_count
        self.test_split = test_split
        self.max_train_images = max_train_images
        self.annotate = annotate
        self.instances = [Path(path) for path in instances or ()]
        self._vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            self._vocabulary = self._read_vocabulary()
        return self._vocabulary

    def _read_vocabulary(self) -> Vocabulary:
        if self.vocab_path is not None:
            return Vocabulary.read(self.vocab_path)
        lines = [line for split in ("train", "dev") for line in read_captions(self.root / f"{split}_caps.txt")]
        log.info("Building a vocabulary from %d captions in %s.", len(lines), self.root)
        return Vocabulary.build(map(tokenize, lines), self.min_count)

    @property
    def region_dim(self) -> int:
        return int(open_features(self.root / "train_ims.npy").shape[2])

    def split_name(self, stage: str) -> str:
        return {"train": "train", "val": "dev"}.get(stage, self.test_split)

    def open_split(self, split: str) -> PrecompSource:
        if split == "train":
            return PrecompSource(self.root, split, self.vocabulary, self.max_train_images)
        return PrecompSource(self.root, split, self.vocabulary, None, self.annotate, self.instances)

    def prepare_data(self) -> None:
        """Annotates what evaluation will read, in one process, before the others ask for it."""
        stage = self.evaluated_stage()
        if self.annotate is not None and stage is not None:
            self.source(stage)
