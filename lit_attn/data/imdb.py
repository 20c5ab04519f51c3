"""Which questions does an imdb file ask? MMF's image databases, `.npy` arrays of Python dicts, read without running code.

Two layouts, told apart by their entries: MMF's (`imdb_train_ocr_en.npy`: `ocr_tokens`, `ocr_normalized_boxes`,
`obj_normalized_boxes`) and that of the code base of the 2022 comparison (`tvqa_train_imdb.npy`: `google_ocr_tokens_filtered`,
boxes beside the features). The first element may be a header, which asks nothing.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lit_attn.data.picture_folder import SUFFIXES
from lit_attn.errors import UserError
from lit_attn.unpickle import OBJECT_ARRAYS, unpickled

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PictureQuestion:
    """A question about a picture, as a file lists it. What the file does not tell is None."""

    question_id: int
    picture: str
    """The picture's id or file name."""
    text: str
    answers: tuple[str, ...] = ()
    ocr_tokens: tuple[str, ...] | None = None
    ocr_boxes: Floats | None = None
    """Relative to the picture, as `object_boxes`."""
    object_boxes: Floats | None = None
    feature_path: str | None = None
    """Where MMF keeps the picture's features."""

    @property
    def sample_id(self) -> str:
        return str(self.question_id)

    @property
    def names(self) -> tuple[str, ...]:
        """What the picture may be called: as the file says, and without a suffix."""
        path = PurePosixPath(self.picture)
        return (self.picture, str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else self.picture)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names under which the features of the picture may be listed."""
        stated = () if self.feature_path is None else (self.feature_path.removesuffix(".npy"),)
        return (*stated, *(f"{split}/{self.picture}" for split in ("train", "val", "test")), *self.names)


def read_imdb(path: Path) -> list[PictureQuestion]:
    """All questions of an imdb file, in their order."""
    entries = read_object_array(path)
    questions = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise UserError(f"{path}: entry {place} is of type {type(entry).__name__}; a question is a dict.")
        if place == 0 and "question" not in entry:
            continue
        try:
            questions.append(_question(entry, place))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: entry {place} is no question of TextVQA: {error!r}.") from error
    return questions


def read_object_array(path: Path) -> list[Any]:
    """The values of a one-dimensional `.npy` array of Python values."""
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
            data = file.read()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is no .npy file: {error}.") from error
    if dtype.kind != "O" or len(shape) != 1:
        raise UserError(f"{path} holds an array {shape} of {dtype}; an imdb file holds a list of dicts.")
    values = unpickled(data, str(path), OBJECT_ARRAYS)
    if not isinstance(values, np.ndarray) or values.dtype.kind != "O" or values.shape != shape:
        raise UserError(f"{path} is damaged: its header announces {shape[0]} entries, and something else follows.")
    return list(values)


def _question(entry: dict[str, Any], place: int) -> PictureQuestion:
    number = entry.get("question_id", place)
    # Where there are Google's tokens, boxes in the entry belong to those of another OCR system.
    has_google = "google_ocr_tokens_filtered" in entry
    tokens = entry.get("google_ocr_tokens_filtered" if has_google else "ocr_tokens")
    return PictureQuestion(
        question_id=int(number) if str(number).isdecimal() else place,
        picture=str(entry["image_id"]),
        text=str(entry["question"]),
        answers=tuple(map(str, entry.get("answers", entry.get("valid_answers")) or ())),
        ocr_tokens=None if tokens is None else tuple(map(str, tokens)),
        ocr_boxes=None if has_google else _boxes(entry.get("ocr_normalized_boxes")),
        object_boxes=None if has_google else _boxes(entry.get("obj_normalized_boxes")),
        feature_path=entry.get("feature_path"),
    )


def _boxes(values: Any) -> Floats | None:
    return None if values is None else np.asarray(values, np.float32).reshape(-1, 4)
