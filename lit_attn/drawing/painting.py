"""How did a picture come about, and which words were looked at where? One sheet per caption.

First come the real picture, if there is one, and the painted one at every stage, all in one size. Then, for every stage
that attends to words, the five words with most attention: a word's share is the mean of its weight over all positions, and
since a position's weights sum to 1 over words, so do the shares. Each word has a pale copy of what the stage painted, as hot
as the weight at each position. All maps of a sheet have one scale, linear and written out, which ends at the largest weight,
or at three times an even share if that is more: attention that is spread evenly looks pale on purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import ACCENT, FAINT, INK, PAPER, SOFT, Title, cut, dimmed, fitting, font, mixed, plain

TOP_WORDS = 5
EVEN_SHARES = 3
"""The colour scale ends at so many times an even share of attention, at least."""
HOTTEST = 0.9
"""How opaque the hottest position is."""
CELL = 256
"""Pixels across every picture of the sheet: what stages paint goes into it without a rest."""

_MARGIN = 20
_GAP = 16
_COLUMNS = TOP_WORDS
_WIDTH = 2 * _MARGIN + _COLUMNS * (CELL + _GAP) - _GAP
_LABEL = 26
_HEAD = 40
_WORD = 62
_FOOT = 46
_SCALE_WIDTH = 260


@dataclass(frozen=True)
class Painting:
    """A caption, what was painted of it, and the attention to its words."""

    words: tuple[str, ...]
    stages: tuple[UInt8[np.ndarray, "_ _ 3"], ...]
    """The picture at every stage, small to large."""
    maps: tuple[Float[np.ndarray, "t _ _"], ...]
    """Of every stage but the first: the weight of each word at each position."""
    real: UInt8[np.ndarray, "_ _ 3"] | None = None

    def __post_init__(self) -> None:
        if len(self.maps) != len(self.stages) - 1:
            raise ValueError(f"{len(self.stages)} stages have {len(self.stages) - 1} maps, got {len(self.maps)}.")
        for number, weights in enumerate(self.maps, 2):
            if len(weights) != len(self.words):
                raise ValueError(f"The maps of stage {number} are of {len(weights)} words, not {len(self.words)}.")

    @property
    def top(self) -> float:
        """Where the colour scale ends."""
        largest = max((float(np.nanmax(weights, initial=0.0)) for weights in self.maps), default=0.0)
        return min(1.0, max(largest, EVEN_SHARES / max(1, len(self.words))))


def draw_painting(painting: Painting) -> Image.Image:
    """The sheet, 1384 pixels wide."""
    shown = [] if painting.real is None else [("real picture", painting.real)]
    shown += [(f"stage {number}", pixels) for number, pixels in enumerate(painting.stages, 1)]
    title = Title(plain(" ".join(painting.words)) or "(no words)", _WIDTH - 2 * _MARGIN)
    first = _MARGIN + title.height + 12
    rows = -(-len(shown) // _COLUMNS)
    below = first + rows * (_LABEL + CELL + _GAP)
    step = _HEAD + CELL + _WORD
    sheet = Image.new("RGB", (_WIDTH, below + len(painting.maps) * step + _FOOT + _MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    title.draw(pen, _MARGIN, _MARGIN)
    for place, (label, pixels) in enumerate(shown):
        row, column = divmod(place, _COLUMNS)
        x, y = _left(column), first + row * (_LABEL + CELL + _GAP)
        side = f"  {pixels.shape[1]} × {pixels.shape[0]}"
        pen.text((x, y), label, INK, font(15, bold=True))
        pen.text((x + font(15, bold=True).getlength(label), y), side, SOFT, font(15))
        sheet.paste(enlarged(pixels), (x, y + _LABEL))
    for number, weights in enumerate(painting.maps):
        _draw_stage(sheet, painting, number + 1, weights, below + number * step)
    _draw_scale(pen, painting.top, below + len(painting.maps) * step + 10)
    return sheet


def enlarged(pixels: UInt8[np.ndarray, "y x 3"]) -> Image.Image:
    """In the size of the sheet's pictures. Small ones show their pixels as they are."""
    picture = Image.fromarray(pixels)
    grows = picture.width <= CELL and picture.height <= CELL
    return picture.resize((CELL, CELL), Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS)


def strongest_words(weights: Float[np.ndarray, "t y x"]) -> list[int]:
    """The words with most attention over the whole picture, the first of them first; of equal ones, in reading order."""
    return np.argsort(-_shares(weights), kind="stable")[:TOP_WORDS].tolist()


def _shares(weights: Float[np.ndarray, "t y x"]) -> Float[np.ndarray, " t"]:
    return np.nan_to_num(weights).mean((1, 2))


def heat(pale: Image.Image, weights: Float[np.ndarray, "y x"], top: float) -> Image.Image:
    """The pale picture, as coloured at each position as its weight says."""
    opacity = HOTTEST * np.clip(np.nan_to_num(weights) / top, 0, 1)
    mask = Image.fromarray(np.rint(255 * opacity).astype(np.uint8)).resize(pale.size, Image.Resampling.NEAREST)
    panel = pale.copy()
    panel.paste(ACCENT, mask=mask)
    return panel


def _draw_stage(
    sheet: Image.Image, painting: Painting, stage: int, weights: Float[np.ndarray, "t y x"], upper: int
) -> None:
    """A row of maps, each with its word, the word's place in the caption, its share and its largest weight."""
    pen = ImageDraw.Draw(sheet)
    pen.line((_MARGIN, upper, _WIDTH - _MARGIN - 1, upper), mixed(PAPER, FAINT, 0.5))
    label, bold = f"stage {stage + 1}", font(15, bold=True)
    cells = f"  asks the words at {weights.shape[2]} × {weights.shape[1]} positions; words with most attention:"
    pen.text((_MARGIN, upper + 12), label, INK, bold)
    pen.text((_MARGIN + bold.getlength(label), upper + 12), cells, SOFT, font(15))
    pale, shares = dimmed(enlarged(painting.stages[stage])), _shares(weights)
    for column, word in enumerate(strongest_words(weights)):
        x, y = _left(column), upper + _HEAD
        sheet.paste(heat(pale, weights[word], painting.top), (x, y))
        text = plain(painting.words[word])
        letters = fitting(text, CELL, 18)
        pen.text((x + CELL // 2, y + CELL + 4), cut(text, letters, CELL), INK, letters, anchor="ma")
        largest = float(np.nan_to_num(weights[word]).max())
        facts = f"word {word + 1}   share {shares[word]:.2f}   largest {largest:.2f}"
        pen.text((x + CELL // 2, y + CELL + 28), facts, SOFT, font(13), anchor="ma")


def _draw_scale(pen: ImageDraw.ImageDraw, top: float, y: int) -> None:
    """Colours from no weight to the largest."""
    small = font(14)
    label = "weight of a word at a position"
    pen.text((_MARGIN, y), label, SOFT, small)
    x = _MARGIN + round(small.getlength(label)) + 16
    for column in range(_SCALE_WIDTH):
        color = mixed(PAPER, ACCENT, HOTTEST * column / (_SCALE_WIDTH - 1))
        pen.line((x + column, y + 3, x + column, y + 14), color)
    pen.rectangle((x, y + 3, x + _SCALE_WIDTH - 1, y + 14), outline=FAINT)
    ticks: Sequence[tuple[int, float, str]] = ((0, 0.0, "la"), (_SCALE_WIDTH - 1, top, "ra"))
    for across, value, anchor in ticks:
        pen.text((x + across, y + 18), f"{value:.2g}", SOFT, font(13), anchor=anchor)


def _left(column: int) -> int:
    return _MARGIN + column * (CELL + _GAP)
