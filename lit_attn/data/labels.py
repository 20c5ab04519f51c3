"""Which numbers stand for the captions of a data set? Label files as the public preparation writes them. Needs no torch.

`cocotalk_label.h5` holds `labels` [captions, max_words], zero after the last word, `label_length` [captions], and per
picture `label_start_ix` and `label_end_ix`, the first and last of its captions, counted from 1; all uint32.
`cocotalk.json` holds `ix_to_word` and `images` (`split`, `file_path`, `id`) in the same order. Words that occur more than
five times over all splits are kept, in the order in which they first occur, as the original does under Python 3; the
others become `UNK`. A picture without captions, where the original stops, ends before it starts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from lit_attn.data.caption_files import CaptionedPicture, read_json
from lit_attn.errors import UserError
from lit_attn.vocabulary import CaptionWords

JSON_NAME, ARRAYS_NAME = "cocotalk.json", "cocotalk_label.h5"
MIN_COUNT = 6
MAX_WORDS = 16
UInts = NDArray[np.uint32]


@dataclass(frozen=True)
class Labels:
    """The captions of all pictures as ids."""

    words: CaptionWords
    labels: UInts
    length: UInts
    start: UInts
    end: UInts

    def __len__(self) -> int:
        """The number of pictures."""
        return len(self.start)

    def of_picture(self, index: int) -> UInts:
        """The captions of one picture."""
        return self.labels[int(self.start[index]) - 1 : int(self.end[index])]


def build_words(pictures: Sequence[CaptionedPicture], min_count: int = MIN_COUNT) -> CaptionWords:
    """Words that occur at least `min_count` times over all pictures, and UNK if there are rarer ones."""
    return CaptionWords.build((caption for picture in pictures for caption in picture.captions), min_count)


def prepare_labels(pictures: Sequence[CaptionedPicture], words: CaptionWords, max_words: int = MAX_WORDS) -> Labels:
    """The first `max_words` words of every caption."""
    rows = [words.encode(caption)[:max_words] for picture in pictures for caption in picture.captions]
    labels = np.zeros((len(rows), max_words), np.uint32)
    for row, ids in enumerate(rows):
        labels[row, : len(ids)] = ids
    counts = np.array([len(picture.captions) for picture in pictures], np.int64)
    end = counts.cumsum()
    return Labels(
        words=words,
        labels=labels,
        length=np.array([len(ids) for ids in rows], np.uint32),
        start=(end - counts + 1).astype(np.uint32),
        end=end.astype(np.uint32),
    )


def write_labels(labels: Labels, pictures: Sequence[CaptionedPicture], folder: Path) -> None:
    """Both files, in a folder that is made if need be."""
    images = [{"split": picture.split, "file_path": picture.file, "id": picture.picture_id} for picture in pictures]
    content = {"ix_to_word": {str(i): word for i, word in enumerate(labels.words.words, 1)}, "images": images}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JSON_NAME).write_text(json.dumps(content), encoding="utf-8")
        with h5py.File(folder / ARRAYS_NAME, "w") as file:
            file["labels"], file["label_length"] = labels.labels, labels.length
            file["label_start_ix"], file["label_end_ix"] = labels.start, labels.end
    except OSError as error:
        raise UserError(f"Cannot write labels into {folder}: {error.strerror or error}.") from error


def read_labels(folder: Path) -> Labels:
    """What `write_labels`, or the original, wrote."""
    words = CaptionWords.read(folder / JSON_NAME)
    pictures = len(read_json(folder / JSON_NAME).get("images", ()))
    path = folder / ARRAYS_NAME
    try:
        with h5py.File(path, "r") as file:
            arrays = [file[name][:] for name in ("labels", "label_length", "label_start_ix", "label_end_ix")]
    except (OSError, KeyError) as error:
        raise UserError(f"{path} is no complete file of labels: {error}.") from error
    labels = Labels(words, *arrays)
    if len(labels) != pictures:
        raise UserError(f"{path} has captions of {len(labels)} pictures, but {JSON_NAME} lists {pictures}.")
    return labels
