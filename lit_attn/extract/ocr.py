"""Which words are printed in a picture, and where? Tokens and boxes, read by RapidOCR.

RapidOCR finds lines of text as quadrilaterals and can tell the words of a line apart. Where its words are not those of the
line split at blanks, the line's box is split in proportion to the characters instead. Boxes become upright and end at the
picture's border.

A folder gets `ocr.jsonl`, a line per picture: its name, width, height and sha256, and its tokens with text, box (x1, y1,
x2, y2 in pixels) and confidence. `ocr.yaml` beside it says what made them. Lines are written whole; one that a kill cut off
is made again.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lit_attn.errors import UserError
from lit_attn.extract.outcome import Outcome, Result, Setting, append_line, claim_folder, named_once, read_content
from lit_attn.extract.pictures import Source, open_picture

SETTINGS = "ocr.yaml"
TOKENS = "ocr.jsonl"
LONGEST_TO_SHORTEST = 4
"""Sides of a picture as RapidOCR gets it; a narrower one is padded."""

Quad = NDArray[np.float64]
"""Four corners, x and y each: upper left, upper right, lower right, lower left as the text runs."""


@dataclass(frozen=True)
class Token:
    """A printed word."""

    text: str
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 in pixels."""
    confidence: float


class Reader:
    """RapidOCR.

    Args:
        threshold: Lines below this confidence are left out.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        if not 0 <= threshold <= 1:
            raise UserError(f"The threshold is a confidence between 0 and 1, got {threshold}.")
        try:
            import onnxruntime  # noqa: F401 - RapidOCR asks for it too late
            from rapidocr import RapidOCR
        except ImportError as error:
            raise UserError(
                f'Reading pictures needs RapidOCR ({error}). Install it with pip install "lit_attn[ocr]".'
            ) from error
        self.threshold = threshold
        self._engine: Any = RapidOCR(params={"Global.log_level": "error", "Global.text_score": threshold})

    @property
    def settings(self) -> dict[str, Setting]:
        """Whatever decides what is read."""
        return {"reader": f"rapidocr {importlib.metadata.version('rapidocr')}", "threshold": self.threshold}

    def __call__(self, picture: Image.Image) -> list[Token]:
        pixels = np.array(padded(picture.convert("RGB")))[:, :, ::-1]  # it takes blue first
        try:
            found = self._engine(np.ascontiguousarray(pixels), return_word_box=True)
        except Exception as error:  # OpenCV and onnxruntime raise many kinds
            raise UserError(f"RapidOCR fails on it: {str(error).strip().splitlines()[0]}") from error
        if found.txts is None:
            return []
        words = found.word_results if len(found.word_results) == len(found.txts) else [()] * len(found.txts)
        lines = zip(found.txts, found.scores, found.boxes, words, strict=True)
        return [token for line in lines for token in tokens_of_line(*line, picture.size)]


def padded(picture: Image.Image) -> Image.Image:
    """White on the right or below a narrow picture. RapidOCR enlarges the shorter side to 736 pixels, so that a strip of
    2 x 900 pixels would take gigabytes."""
    width, height = picture.size
    least = -(-max(width, height) // LONGEST_TO_SHORTEST)
    if min(width, height) >= least:
        return picture
    wider = Image.new("RGB", (max(width, least), max(height, least)), "white")
    wider.paste(picture, (0, 0))
    return wider


def tokens_of_line(
    text: str,
    confidence: float,
    quad: Quad,
    words: Sequence[tuple[str, float, Sequence[Sequence[float]] | None]],
    size: tuple[int, int],
) -> list[Token]:
    """The words of a line of text, split at blanks.

    Args:
        text, confidence, quad: The line.
        words: What RapidOCR says of its words: text, confidence and corners.
        size: Width and height of the picture.
    """
    expected = text.split()
    if [word for word, _, _ in words] == expected and all(corners is not None for _, _, corners in words):
        return [
            Token(word, upright(np.asarray(corners, np.float64), size), float(sure)) for word, sure, corners in words
        ]
    return [
        Token(word, upright(part, size), float(confidence))
        for word, part in zip(expected, split_quad(np.asarray(quad, np.float64), text), strict=True)
    ]


def split_quad(quad: Quad, text: str) -> list[Quad]:
    """The parts of a line's quadrilateral that belong to its words, if all characters are equally wide."""
    upper_left, upper_right, lower_right, lower_left = quad
    parts, place = [], 0
    for word in text.split():
        first = text.index(word, place)
        place = first + len(word)
        begin, end = first / len(text), place / len(text)
        top = [upper_left + share * (upper_right - upper_left) for share in (begin, end)]
        bottom = [lower_left + share * (lower_right - lower_left) for share in (end, begin)]
        parts.append(np.stack([*top, *bottom]))
    return parts


def upright(quad: Quad, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The smallest upright box around a quadrilateral, cut at the picture's border, and never without area."""
    limit = np.array(size, np.float64)
    low = np.clip(quad.min(0), 0, limit - 1)
    high = np.clip(quad.max(0), low + 1, limit)
    x1, y1, x2, y2 = (round(float(value), 2) for value in (*low, *high))
    return x1, y1, x2, y2


def claim(folder: Path, settings: Mapping[str, Setting]) -> None:
    """Writes the settings into the folder. Raises if it holds tokens that were made otherwise."""
    claim_folder(folder, settings, SETTINGS, "tokens", TOKENS)


def extract(sources: Sequence[Source], read: Callable[[Image.Image], list[Token]], folder: Path) -> Iterator[Outcome]:
    """Adds a line to `<folder>/ocr.jsonl` for each picture that has none; says after each what became of it.

    Args:
        sources: The pictures.
        read: A `Reader`, or anything else from a picture to its tokens.
        folder: Where to write; `claim` it first.
    """
    file = folder / TOKENS
    made = _checksums(file)
    pictures, left_out = named_once(sources)
    yield from left_out
    for source in pictures:
        try:
            content = read_content(source.path)
            checksum = hashlib.sha256(content).hexdigest()
            if source.name in made:
                if made[source.name] != checksum:
                    raise UserError("its tokens were read from another picture, choose another --out")
                yield Outcome(source, Result.KEPT)
                continue
            picture = open_picture(content)
            tokens = [asdict(token) for token in read(picture)]
        except UserError as error:
            yield Outcome(source, Result.SKIPPED, str(error))
            continue
        entry = {"name": source.name, "width": picture.width, "height": picture.height, "sha256": checksum}
        append_line(file, json.dumps({**entry, "tokens": tokens}, ensure_ascii=False))
        yield Outcome(source, Result.MADE)


def _checksums(file: Path) -> dict[str, str]:
    """Name to sha256 of the pictures that are done. A last line that a kill cut off is removed."""
    content = file.read_bytes() if file.exists() else b""
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with file.open("r+b") as opened:
            opened.truncate(whole)
    made = {}
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            entry = json.loads(line)
            made[entry["name"]] = entry["sha256"]
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{file}, line {number} is damaged. Delete that line, or choose another --out.") from error
    return made
