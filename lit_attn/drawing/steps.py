"""How did a network reason in steps? One sheet: the question, the picture, and a column for every step.

A step's column shows the pale picture with its cells as hot as the square root of their weight, so that small weights can
still be seen, on one scale for the whole sheet that is written out; then the words with most weight; then the whole
question, each word shaded by the root of its weight. An even spread over all cells looks pale on purpose: the scale ends at
ten times an even share at least. Where it is known which cells show what the answer rests on, they are outlined.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import (
    ACCENT,
    FAINT,
    INK,
    PAPER,
    SOFT,
    TRUTH,
    Title,
    cut,
    dimmed,
    fit,
    font,
    mixed,
    plain,
    scaled,
    shape_of,
)
from lit_attn.drawing.verdict import draw_sign
from lit_attn.drawing.words import Paragraph

TOP_WORDS = 3
EVEN_SHARES = 10
"""The colour scale ends at so many times an even share of attention, at least."""
HOTTEST = 0.9
"""How opaque the hottest cell is."""

_WIDTH = 1280
_MARGIN = 20
_GAP = 16
_MOST_COLUMNS = 6
_WIDEST = 300
_LABEL = 24
_BAR = 22
_TRUTH_LINE = 27
_SCALE = 62
_CAUSES_LINE = 24


@dataclass(frozen=True)
class StepsAnswer:
    """A question that was answered in steps, and what each step attended to."""

    words: tuple[str, ...]
    read: Float[np.ndarray, "s y x"]
    """Weights of the cells in each step."""
    control: Float[np.ndarray, "s t"]
    """Weights of the words in each step."""
    answer: str
    truth: str | None = None
    causes: Bool[np.ndarray, "y x"] | None = None
    """Cells that show what the right answer rests on, where that is known."""

    def __post_init__(self) -> None:
        if self.control.shape != (len(self.read), len(self.words)) or not len(self.read):
            raise ValueError(
                f"control is {self.control.shape}; expected one row for each of {len(self.read)} steps and one column for "
                f"each of {len(self.words)} words, and a step at least."
            )
        if self.causes is not None and self.causes.shape != self.read.shape[1:]:
            raise ValueError(f"causes are {self.causes.shape} cells, but the steps read {self.read.shape[1:]}.")

    @property
    def top(self) -> float:
        """Where the colour scale ends: the largest weight, or ten times an even share if that is more."""
        even = 1 / max(1, self.read[0].size)
        return min(1.0, max(float(np.nanmax(self.read, initial=0.0)), EVEN_SHARES * even))


def draw_steps(asked: StepsAnswer, picture: Image.Image | None, top: float | None = None) -> Image.Image:
    """The sheet, at most 1280 pixels wide.

    Args:
        picture: The picture, or None for a blank one.
        top: Where the colour scale ends, to draw several sheets on one scale.
    """
    end = asked.top if top is None else top
    rows = -(-(len(asked.read) + 1) // _MOST_COLUMNS)
    columns = -(-(len(asked.read) + 1) // rows)
    cell = min(_WIDEST, (_WIDTH - 2 * _MARGIN + _GAP) // columns - _GAP)
    width = 2 * _MARGIN + columns * (cell + _GAP) - _GAP
    size = fit(shape_of(picture), cell, round(1.3 * cell))
    letters = 15 if len(asked.words) <= 24 else 13 if len(asked.words) <= 60 else 11
    question = Paragraph(asked.words, cell, letters, round(1.5 * letters))
    title = Title(" ".join(question.words) or "(no question)", width - 2 * _MARGIN)
    shown = min(TOP_WORDS, len(asked.words))
    words_height = shown * _BAR + 8 + question.height
    step_height = _LABEL + size[1] + 10 + words_height + _GAP
    first = _MARGIN + title.height + 8
    second = first + step_height + max(0, _answer_height(asked) - words_height)
    sheet = Image.new("RGB", (width, second + (rows - 1) * step_height - _GAP + _MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    title.draw(pen, _MARGIN, _MARGIN)
    canvas = scaled(picture, size)
    sheet.paste(canvas, (_MARGIN, first + _LABEL))
    _draw_answer(sheet, asked, end, (_MARGIN, first + _LABEL + size[1] + 10), cell)
    pale = canvas if picture is None else dimmed(canvas)
    for step, (read, control) in enumerate(zip(asked.read, asked.control, strict=True)):
        row, column = divmod(step + 1, columns)
        x, y = _MARGIN + column * (cell + _GAP), second + (row - 1) * step_height if row else first
        pen.text((x, y), f"step {step + 1}", SOFT, font(15, bold=True))
        sheet.paste(heat_map(pale, read, end, asked.causes), (x, y + _LABEL))
        y += _LABEL + size[1] + 10
        _draw_top_words(pen, question.words, control, x, y, cell)
        question.draw(pen, x, y + shown * _BAR + 8, control)
    return sheet


def heat_map(
    pale: Image.Image, weights: Float[np.ndarray, "y x"], top: float, causes: Bool[np.ndarray, "y x"] | None
) -> Image.Image:
    """The picture with its cells coloured by weight, and the causing ones outlined."""
    panel = pale.copy()
    heat = HOTTEST * np.sqrt(np.clip(np.nan_to_num(weights) / (top or 1.0), 0, 1))
    mask = Image.fromarray(np.rint(255 * heat).astype(np.uint8)).resize(pale.size, Image.Resampling.NEAREST)
    panel.paste(ACCENT, mask=mask)
    if causes is not None:
        outline_cells(panel, causes)
    return panel


def outline_cells(panel: Image.Image, cells: Bool[np.ndarray, "y x"]) -> None:
    """A line between the cells that count and those that do not; the edge of the picture is such a border, too."""
    pen = ImageDraw.Draw(panel)
    rows, columns = cells.shape
    padded = np.pad(cells, 1)
    xs = [round(column * (panel.width - 2) / columns) for column in range(columns + 1)]
    ys = [round(row * (panel.height - 2) / rows) for row in range(rows + 1)]
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    lines = [(xs[x], ys[y], xs[x + 1] + 1, ys[y] + 1) for y, x in across]
    lines += [(xs[x], ys[y], xs[x] + 1, ys[y + 1] + 1) for y, x in down]
    for left, upper, right, lower in lines:
        pen.rectangle((left - 1, upper - 1, right + 1, lower + 1), PAPER)
    for line in lines:
        pen.rectangle(line, TRUTH)


def _draw_top_words(
    pen: ImageDraw.ImageDraw, words: list[str], weights: Float[np.ndarray, " t"], x: int, y: int, width: int
) -> None:
    """The strongest words as bars; one that goes all the way across would have weight 1."""
    letters, number = font(15, bold=True), font(14)
    for place, word in enumerate(np.argsort(-np.nan_to_num(weights), kind="stable")[:TOP_WORDS].tolist()):
        weight, upper = float(np.nan_to_num(weights[word])), y + place * _BAR
        pen.rectangle((x, upper, x + width - 1, upper + _BAR - 4), mixed(PAPER, FAINT, 0.18))
        if weight > 0:
            pen.rectangle((x, upper, x + round(weight * (width - 1)), upper + _BAR - 4), mixed(PAPER, ACCENT, 0.45))
        middle = upper + (_BAR - 4) // 2
        pen.text((x + 5, middle), cut(words[word], letters, width - 55), INK, letters, anchor="lm")
        pen.text((x + width - 5, middle), f"{weight:.2f}", INK, number, anchor="rm")


def _answer_height(asked: StepsAnswer) -> int:
    causes = asked.causes is not None and bool(asked.causes.any())
    return 50 + (0 if asked.truth is None else _TRUTH_LINE) + _SCALE + (_CAUSES_LINE if causes else 0)


def _draw_answer(sheet: Image.Image, asked: StepsAnswer, top: float, place: tuple[int, int], width: int) -> None:
    """The answer against the truth, and what the colours mean."""
    pen = ImageDraw.Draw(sheet)
    x, y = place
    small, large = font(14), font(19, bold=True)
    pen.text((x, y), "answer", SOFT, small)
    indent = 0
    if asked.truth is not None:
        draw_sign(pen, x, y + 20, asked.answer == asked.truth)
        indent = 28
    pen.text((x + indent, y + 18), cut(plain(asked.answer), large, width - indent), INK, large)
    y += 50
    if asked.truth is not None:
        pen.text((x, y), cut(f"truth  {plain(asked.truth)}", small, width), SOFT, small)
        y += _TRUTH_LINE
    _draw_scale(pen, top, x, y + 6, width)
    y += _SCALE
    if asked.causes is not None and asked.causes.any():
        pen.rectangle((x + 1, y + 9, x + 14, y + 22), outline=TRUTH, width=2)
        pen.text((x + 22, y + 16), cut("what the answer rests on", small, width - 22), SOFT, small, anchor="lm")


def _draw_scale(pen: ImageDraw.ImageDraw, top: float, x: int, y: int, width: int) -> None:
    """Colours from no weight to the largest, with the weights written below; halfway stands a quarter, by the root."""
    small = font(14)
    pen.text((x, y), cut("weight of a cell", small, width), SOFT, small)
    y += 21
    for column in range(width):
        color = mixed(PAPER, ACCENT, HOTTEST * column / max(1, width - 1))
        pen.line((x + column, y, x + column, y + 11), color)
    pen.rectangle((x, y, x + width - 1, y + 11), outline=FAINT)
    for across, value, anchor in ((0, 0.0, "la"), (width // 2, top / 4, "ma"), (width - 1, top, "ra")):
        pen.text((x + across, y + 15), f"{value:.2g}", SOFT, font(13), anchor=anchor)
