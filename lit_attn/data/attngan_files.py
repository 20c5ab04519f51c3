"""What do the files say that AttnGAN distributes with CUB and COCO? Captions, names, classes and boxes.

`captions.pickle` holds the training captions, the test captions, the word of each number and the number of each word;
captions are lists of numbers, a fixed number of them for one picture after the other, and number 0 is `<end>`. Without that
file, captions are read from `text/`, as its makers did. The pickles are Python 2's, and nothing in them is run.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lit_attn.data.cropping import Box
from lit_attn.data.sentences import split_words
from lit_attn.errors import UserError
from lit_attn.unpickle import read_pickle
from lit_attn.vocabulary import CaptionWords

SPLITS = ("train", "test")
END = "<end>"
Captions = tuple[tuple[str, ...], ...]
"""The captions of one picture, as words."""


@dataclass(frozen=True)
class CaptionFile:
    """The captions of all pictures by split, and all words."""

    captions: dict[str, list[Captions]]
    vocabulary: CaptionWords


def read_names(root: Path, split: str) -> list[str]:
    """The pictures of a split: their paths below the folder of pictures, without a suffix."""
    path = root / split / "filenames.pickle"
    names = read_pickle(path)
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path} must hold a list of names of pictures, got {_told(names)}.")
    return list(names)


def read_classes(root: Path, split: str, count: int) -> list[int]:
    """A class per picture; without a file of classes, every picture is its own."""
    path = root / split / "class_info.pickle"
    if not path.exists():
        return list(range(count))
    classes = read_pickle(path)
    try:
        found = [int(one) for one in classes]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} must hold a list of class numbers, got {_told(classes)}.") from error
    if len(found) != count:
        raise UserError(f"{path} has {len(found)} classes for the {count} pictures of filenames.pickle.")
    return found


def read_caption_pickle(path: Path, names: dict[str, list[str]], per_picture: int) -> CaptionFile:
    """`names` are the pictures of each split, each of which has `per_picture` captions."""
    content = read_pickle(path)
    if not isinstance(content, list | tuple) or len(content) != 4 or not isinstance(content[2], dict):
        raise UserError(
            f"{path} must hold the training captions, the test captions, the words by number and the numbers by word; "
            f"got {_told(content)}."
        )
    vocabulary = _vocabulary(content[2], path)
    captions = {
        split: _of_pictures(content[place], names[split], vocabulary, path, split, per_picture)
        for place, split in enumerate(SPLITS)
    }
    return CaptionFile(captions, vocabulary)


def _vocabulary(words: dict[Any, Any], path: Path) -> CaptionWords:
    try:
        listed = tuple(sys.intern(str(words[number])) for number in range(len(words)))
    except KeyError as error:
        raise UserError(
            f"{path} has no word with the number {error}; numbers go from 0 to {len(words) - 1}."
        ) from error
    if listed[:1] != (END,):
        raise UserError(f"{path}: word 0 must be {END!r}, got {listed[:1]}.")
    return CaptionWords(listed[1:])


def _of_pictures(
    captions: Any, names: list[str], vocabulary: CaptionWords, path: Path, split: str, per_picture: int
) -> list[Captions]:
    if not isinstance(captions, list | tuple) or len(captions) != len(names) * per_picture:
        found = len(captions) if isinstance(captions, list | tuple) else _told(captions)
        raise UserError(
            f"{path} has {found} {split} captions for {len(names)} pictures, but data.num_captions is {per_picture}. "
            "CUB has 10 captions a picture, COCO 5."
        )
    sayings = [_words(caption, vocabulary, path, names[i // per_picture]) for i, caption in enumerate(captions)]
    return [tuple(sayings[i : i + per_picture]) for i in range(0, len(sayings), per_picture)]


def _words(caption: Any, vocabulary: CaptionWords, path: Path, name: str) -> tuple[str, ...]:
    try:
        numbers = [int(number) for number in caption]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: a caption of {name} is no list of numbers, but {_told(caption)}.") from error
    if not numbers:
        raise UserError(f"{path}: a caption of {name} has no words. Leave captions.pickle out to read text/ instead.")
    wrong = [number for number in numbers if not 0 < number < len(vocabulary)]
    if wrong:
        raise UserError(f"{path}: a caption of {name} has the word {wrong[0]}; words are 1 to {len(vocabulary) - 1}.")
    return tuple(vocabulary.words[number - 1] for number in numbers)


def read_caption_texts(root: Path, names: Sequence[str], most: int) -> list[Captions]:
    """The first `most` captions of every picture, each a line of its text file. Lines without words do not count."""
    return [_read_text(find(root / "text", name, ".txt", "captions"), name, most) for name in names]


def _read_text(path: Path, name: str, most: int) -> Captions:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UserError(f"Cannot read the captions {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The captions {path} are not UTF-8: {error}.") from error
    worded = (words for words in map(split_words, lines) if words)
    captions = tuple(tuple(map(sys.intern, words)) for _, words in zip(range(most), worded, strict=False))
    if not captions:
        raise UserError(f"{path} has no caption of {name}. Write one per line, or leave the picture out.")
    return captions


def read_boxes(folder: Path) -> dict[str, Box]:
    """Per picture of CUB, named without its suffix, the box of the bird."""
    images, boxes = folder / "images.txt", folder / "bounding_boxes.txt"
    named = {row[0]: str(PurePosixPath(row[1]).with_suffix("")) for row in _rows(images, 2)}
    found: dict[str, Box] = {}
    for number, *values in _rows(boxes, 5):
        try:
            x, y, width, height = (int(float(value)) for value in values)
        except ValueError as error:
            raise UserError(
                f"{boxes}: the box of picture {number} is no four numbers: {' '.join(values)!r}."
            ) from error
        if number not in named:
            raise UserError(f"{boxes} has a box of picture {number}, which {images} does not list.")
        found[named[number]] = (x, y, width, height)
    return found


def _rows(path: Path, columns: int) -> list[list[str]]:
    try:
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}. It comes with CUB_200_2011.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}.") from error
    for place, row in enumerate(rows, 1):
        if len(row) != columns:
            raise UserError(f"{path}: expected {columns} values in row {place}, got {' '.join(row)!r}.")
    return rows


def find(folder: Path, name: str, suffix: str, what: str) -> Path:
    """The file of a picture: below the folder by its name, or in the folder of its release, such as `train2014`."""
    places = [folder / f"{name}{suffix}"]
    release = PurePosixPath(name).name.split("_")
    if len(release) == 3:  # COCO_train2014_000000000009
        places += [folder / release[1] / f"{name}{suffix}", folder.parent / release[1] / f"{name}{suffix}"]
    for path in places:
        if path.is_file():
            return path
    raise UserError(f"There are no {what} of {name}: looked for {' and '.join(map(str, places))}.")


def _told(value: Any) -> str:
    """A short word about a value of the wrong kind."""
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"a {type(value).__name__}{size}"
