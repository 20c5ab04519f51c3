"""What do people say of a room in five turns? Tell-Me-More (Ilinykh, Zarrieß and Schlangen 2019), for paragraphs.

`sequences.csv` (separated by tabs in spite of its name) has one row per picture with the turns `d1` to `d5`; `splits.json` puts
each picture into train, extra, val or test. `extra` joins `train`. Turns without a final mark get a full stop and are joined
by blanks. Tokens are lower-cased: words, with hyphens and apostrophes inside them, and single punctuation marks, because a
paragraph needs its full stops.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from lit_attn.checkpoint import read_words
from lit_attn.data.caption_files import CaptionedPicture, read_json
from lit_attn.data.labels import MIN_COUNT, build_words
from lit_attn.data.region_captions import RegionCaptioning
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD
from lit_attn.errors import UserError
from lit_attn.language.phrases import Exclude, Kind
from lit_attn.vocabulary import CaptionWords

TURNS = ("d1", "d2", "d3", "d4", "d5")
SPLITS = {"train": "train", "extra": "train", "val": "val", "test": "test"}
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def paragraph(turns: Iterable[str]) -> str:
    """Turns as one text, each with a final mark."""
    spoken = (turn.strip() for turn in turns)
    return " ".join(turn if turn[-1] in ".!?" else f"{turn}." for turn in spoken if turn)


def paragraph_tokens(text: str) -> tuple[str, ...]:
    """Lower-cased words and punctuation marks."""
    return tuple(_TOKEN.findall(text.lower()))


def read_tell_me_more(root: Path) -> list[CaptionedPicture]:
    """All pictures with their paragraphs. Those of ADE20K's validation set have numbers from 100000."""
    path = root / "sequences.csv"
    splits = read_json(root / "splits.json")
    pictures = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                text = paragraph(row[turn] or "" for turn in TURNS)
                pictures.append(
                    CaptionedPicture(
                        file=row["image_path"],
                        split=SPLITS[splits[row["image_id"]]],
                        captions=(paragraph_tokens(text),) if text else (),
                        picture_id=int(row["image_id"]),
                    )
                )
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}. data.root names its folder.") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(
            f"{path}, row {len(pictures) + 1}: {error!r}. Expected columns image_id, image_path, d1 to d5, separated by "
            "tabs, and a split in splits.json for each picture."
        ) from error
    return pictures


class TellMeMore(RegionCaptioning):
    """Paragraphs about rooms of ADE20K.

    Args:
        root: The folder with `sequences.csv` and `splits.json`.
        regions: Whatever `region_store.open_regions` takes; pictures are named `ADE_train_00006889` or by `image_id`.
        vocabulary: A JSON with `ix_to_word`; without one the words are those of the training paragraphs.
        min_count: Rarer words become UNK (when the vocabulary is built).
        max_words: Paragraphs are cut there.
        images: The folder of the pictures, to draw on.
        object_names, attribute_names: Lists of the 1600 objects and 400 attributes, for regions with label ids.
        annotate: Where grammar for probes comes from: a spaCy pipeline such as `en_core_web_sm`, a `.conllu` or `.jsonl` file.
        link: Which regions noun phrases name, by a linker of `lit_attn.data.linking.named`: `lemma`, `glove_add`, `sentence` …
        phrases: Which noun phrases: `nested`, or `base`, which end at their noun.
        exclude: Which of them are left out as places of the picture: `exact`, `contains` or `nothing`.
        attribute_threshold: An attribute is part of what a region is called above this confidence.
    """

    def __init__(
        self,
        root: str,
        regions: str,
        vocabulary: str | None = None,
        min_count: int = MIN_COUNT,
        max_words: int = 150,
        images: str | None = None,
        object_names: str | None = None,
        attribute_names: str | None = None,
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
        self.root = Path(root)
        self.vocabulary_path = None if vocabulary is None else Path(vocabulary)
        self.min_count = min_count

    @cached_property
    def all_pictures(self) -> list[CaptionedPicture]:
        return read_tell_me_more(self.root)

    @cached_property
    def vocabulary(self) -> CaptionWords:
        if self.vocabulary_path is not None:
            return read_words(self.vocabulary_path)
        return build_words(self.pictures("train"), self.min_count)

    @property
    def text_path(self) -> Path:
        return self.root / "sequences.csv"

    def pictures(self, stage: str) -> Sequence[CaptionedPicture]:
        split = "test" if stage == "predict" else stage
        return [picture for picture in self.all_pictures if picture.split == split]
