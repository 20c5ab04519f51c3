"""Which questions were kept whole, and what did their answers rest on?

Reads the samples of the forms `steps` and `reading` in a gallery; their arrays only when asked.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from lit_attn.drawing.reading import ReadAnswer
from lit_attn.drawing.steps import StepsAnswer
from lit_attn.report import fields
from lit_attn.report.arrays import checked_weights, read_arrays
from lit_attn.report.errors import ReportError
from lit_attn.report.gallery import Box, picture_path

_PARTS = ("question", "objects", "ocr", "decoded")


@dataclass(frozen=True)
class StepsSample:
    """A question answered in steps, without its arrays."""

    path: Path
    sample_id: str
    words: tuple[str, ...]
    answer: str
    picture: Path | None
    truth: str | None
    causes: object
    """Cells, row by row; what they may be is known with the arrays."""

    def load(self) -> StepsAnswer:
        """The sample with its arrays."""
        arrays = read_arrays(self.path, ("read", "control"))
        read = checked_weights(self.path, "read", arrays["read"], (None,) * 3, "steps, rows, columns")
        names = f"{len(read)} steps, {len(self.words)} words"
        control = checked_weights(self.path, "control", arrays["control"], (len(read), len(self.words)), names)
        causes = None
        if self.causes is not None:
            cells = fields.positions(self.path, "causes", self.causes, read[0].size)
            causes = np.isin(np.arange(read[0].size), cells).reshape(read.shape[1:])
        return StepsAnswer(self.words, read, control, self.answer, self.truth, causes)


@dataclass(frozen=True)
class ReadingSample:
    """A question answered by reading, without its arrays."""

    path: Path
    sample_id: str
    words: tuple[str, ...]
    answer: str
    picture: Path | None
    boxes: tuple[Box, ...]
    ocr_words: tuple[str, ...]
    ocr_boxes: tuple[Box, ...]
    people: tuple[str, ...]
    score: float | None

    def load(self) -> ReadAnswer:
        """The sample with its arrays."""
        arrays = read_arrays(self.path, _PARTS)
        sizes = (len(self.words), len(self.boxes), len(self.ocr_words))
        first = checked_weights(
            self.path, "question", arrays["question"], (None, None, None, sizes[0]), f"layers, heads, steps, {sizes[0]}"
        )
        heads = first.shape[:3]
        parts = {"question": first}
        for name, size in zip(_PARTS[1:], (*sizes[1:], heads[2]), strict=True):
            expected = (*heads, size)
            parts[name] = checked_weights(
                self.path, name, arrays[name], expected, ", ".join(str(axis) for axis in expected)
            )
        return ReadAnswer(
            words=self.words,
            boxes=np.array(self.boxes, np.float64).reshape(-1, 4),
            ocr_words=self.ocr_words,
            ocr_boxes=np.array(self.ocr_boxes, np.float64).reshape(-1, 4),
            **parts,
            answer=self.answer,
            people=self.people,
            score=self.score,
        )


AnswerSample = StepsSample | ReadingSample


def read_answer(path: Path, source: fields.Json) -> AnswerSample:
    """One answered question without its arrays; `source` is what its file holds."""
    sample_id, words = fields.text(path, source, "sample_id"), fields.texts(path, source, "words")
    answer = fields.text(path, source, "answer")
    picture = picture_path(path, fields.optional_text(path, source, "picture"))
    if source["form"] == "steps":
        truth = fields.optional_text(path, source, "truth")
        return StepsSample(path, sample_id, words, answer, picture, truth, source.get("causes"))
    boxes, ocr_boxes = fields.boxes(path, source, "boxes"), fields.boxes(path, source, "ocr_boxes")
    ocr_words = fields.texts(path, source, "ocr_words")
    if len(ocr_words) != len(ocr_boxes):
        raise ReportError(
            f"{path}, key 'ocr_boxes': {len(ocr_boxes)} boxes for {len(ocr_words)} OCR tokens; each token needs one."
        )
    people = fields.texts(path, source, "people")
    score = fields.optional_share(path, source, "score")
    return ReadingSample(path, sample_id, words, answer, picture, boxes, ocr_words, ocr_boxes, people, score)


def open_picture(sample: AnswerSample) -> Image.Image | None:
    """The picture of a sample, decoded."""
    if sample.picture is None:
        return None
    try:
        with Image.open(sample.picture, formats=("PNG",)) as picture:
            return picture.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError, SyntaxError) as error:
        raise ReportError(
            f"{sample.picture}: not a PNG picture ({error}). Set 'picture' to null, or save it again."
        ) from error
