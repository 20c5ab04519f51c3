"""What did each word of a caption look at? One sheet: the picture, and a small dimmed copy of it for every word.

Each copy shows the three boxes that the word attended to most, as bright as the square root of their weight, so that small
weights can still be seen and equal weights look equal in all copies; the strongest is labelled. Every word has its place,
in reading order, function words, too: what they look at is a question of its own. Longer texts get smaller copies.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import (
    ACCENT,
    FAINT,
    INK,
    PAPER,
    Area,
    Title,
    cut,
    dimmed,
    fit,
    fitting,
    font,
    frame,
    outlined,
    pixels,
    plain,
    scaled,
)

BOXES_PER_WORD = 3

_WIDTH = 1280
_MARGIN = 16
_GAP = 8
_WORDS_BY_COLUMNS = ((12, 6), (20, 7), (42, 9), (90, 11))
"""Up to so many words, so many columns; the picture itself takes two columns and two rows."""
_MOST_COLUMNS = 13
_OUTLINE = 110
"""How opaque thin lines are, of 255."""


def draw_caption(
    picture: Image.Image | None,
    size: tuple[float, float],
    caption: Sequence[str],
    boxes: Float[np.ndarray, "r 4"],
    labels: Sequence[str],
    attention: Float[np.ndarray, "t r"],
) -> Image.Image:
    """The sheet, 1280 pixels wide.

    Args:
        picture: The picture, or None for a blank one.
        size: Its width and height; only their ratio counts.
        caption: The words in reading order.
        boxes: x1, y1, x2, y2 relative to the picture.
        labels: What each box shows.
        attention: The weights of each word over the boxes.
    """
    if not len(boxes) == len(labels) == attention.shape[1] or len(caption) != attention.shape[0]:
        raise ValueError(
            f"attention is {attention.shape[0]} words by {attention.shape[1]} regions, but there are "
            f"{len(caption)} words, {len(boxes)} boxes and {len(labels)} labels."
        )
    words = [plain(word) for word in caption]
    columns = next((columns for most, columns in _WORDS_BY_COLUMNS if len(words) <= most), _MOST_COLUMNS)
    cell = (_WIDTH - 2 * _MARGIN + _GAP) // columns - _GAP
    copy = fit(size, cell, round(1.3 * cell))
    word_size = max(11, min(19, cell // 8))
    step = copy[1] + round(1.7 * word_size) + _GAP
    title = Title(" ".join(words) or "(no words)", _WIDTH - 2 * _MARGIN)
    top = _MARGIN + title.height + _GAP
    places = _places(len(words), columns)
    rows = max(2, 1 + max((row for row, _ in places), default=0))
    sheet = Image.new("RGB", (_WIDTH, top + rows * step + _MARGIN - _GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    title.draw(pen, _MARGIN, _MARGIN)
    large = fit(size, 2 * cell + _GAP, 2 * step - _GAP)
    faint = FAINT if picture is None else PAPER
    overview = outlined(scaled(picture, large), boxes, faint, _OUTLINE)
    sheet.paste(overview, (_MARGIN + (2 * cell + _GAP - large[0]) // 2, top))
    canvas = scaled(picture, copy)
    if picture is None:
        pale, bright = outlined(canvas, boxes, faint, _OUTLINE // 2), Image.new("RGB", copy, ACCENT)
    else:
        pale, bright = dimmed(canvas), canvas
    for (row, column), word, weights in zip(places, words, attention, strict=True):
        x, y = _MARGIN + column * (cell + _GAP), top + row * step
        panel = _look(pale, bright, boxes, labels, weights, max(9, word_size - 4))
        sheet.paste(panel, (x + (cell - copy[0]) // 2, y))
        letters = fitting(word, cell, word_size)
        pen.text((x + cell // 2, y + copy[1] + 2), cut(word, letters, cell), INK, letters, anchor="ma")
    return sheet


def _places(words: int, columns: int) -> list[tuple[int, int]]:
    """Row and column of each word, around the picture in the upper left corner."""
    free = ((row, column) for row in range(words + 2) for column in range(columns) if row > 1 or column > 1)
    return [place for place, _ in zip(free, range(words), strict=False)]


def _look(
    pale: Image.Image,
    bright: Image.Image,
    boxes: Float[np.ndarray, "r 4"],
    labels: Sequence[str],
    weights: Float[np.ndarray, " r"],
    text_size: int,
) -> Image.Image:
    """The dimmed copy, bright where a word looked."""
    panel = pale.copy()
    strongest = np.argsort(-weights, kind="stable")[:BOXES_PER_WORD].tolist()
    for region in reversed(strongest):
        opacity = round(255 * float(np.sqrt(np.clip(weights[region], 0, 1))))
        left, top, right, bottom = pixels(boxes[region], panel.size)
        inside = (left, top, right + 1, bottom + 1)
        panel.paste(bright.crop(inside), (left, top), Image.new("L", (right + 1 - left, bottom + 1 - top), opacity))
        line = 2 if region == strongest[0] else 1
        frame(panel, (left, top, right, bottom), ACCENT, max(opacity, _OUTLINE), line)
    if strongest:
        first = strongest[0]
        _tag(panel, f"{plain(labels[first])} {weights[first]:.2f}".strip(), pixels(boxes[first], panel.size), text_size)
    return panel


def _tag(panel: Image.Image, text: str, area: Area, text_size: int) -> None:
    """A label above a box where there is room, else within a tall one or below it; never outside the panel."""
    letters = font(text_size)
    text = cut(text, letters, panel.width - 6)
    width, height = round(letters.getlength(text)) + 6, round(1.45 * text_size)
    x = max(0, min(area[0], panel.width - width))
    tall = area[3] - area[1] >= 2 * height
    y = area[1] - height if area[1] >= height else area[1] if tall else area[3] + 1
    y = max(0, min(y, panel.height - height))
    pen = ImageDraw.Draw(panel)
    pen.rectangle((x, y, x + width - 1, y + height - 1), ACCENT)
    pen.text((x + 3, y + height // 2), text, PAPER, letters, anchor="lm")
