"""What did each word of a caption look at? One sheet: the picture, and a small dimmed copy of it for every word.

Each copy shows the three boxes that the word attended to most, as bright as the square root of their weight, so that small
weights can still be seen and equal weights look equal in all copies; the strongest is labelled. Every word has its place,
in reading order, function words, too: what they look at is a question of its own. Longer texts get smaller copies.

Text is drawn by Pillow with matplotlib's DejaVu Sans: wide coverage of scripts, and no word is taken for markup.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont, ImageOps

Rgb = tuple[int, int, int]
Area = tuple[int, int, int, int]
Font = ImageFont.FreeTypeFont

PAPER: Rgb = (255, 255, 255)
INK: Rgb = (28, 28, 32)
FAINT: Rgb = (150, 152, 158)
BLANK: Rgb = (236, 237, 240)
"""What stands for a picture that is not there."""
ACCENT: Rgb = (214, 78, 8)
BOXES_PER_WORD = 3

_WIDTH = 1280
_MARGIN = 16
_GAP = 8
_WORDS_BY_COLUMNS = ((12, 6), (20, 7), (42, 9), (90, 11))
"""Up to so many words, so many columns; the picture itself takes two columns and two rows."""
_MOST_COLUMNS = 13
_DIMMED = 0.62
"""Share of white in the copies."""
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
    words = [_plain(word) for word in caption]
    columns = next((columns for most, columns in _WORDS_BY_COLUMNS if len(words) <= most), _MOST_COLUMNS)
    cell = (_WIDTH - 2 * _MARGIN + _GAP) // columns - _GAP
    copy = _fit(size, cell, round(1.3 * cell))
    word_size = max(11, min(19, cell // 8))
    step = copy[1] + round(1.7 * word_size) + _GAP
    title, title_size = _wrap(" ".join(words) or "(no words)", _WIDTH - 2 * _MARGIN)
    top = _MARGIN + round(1.35 * title_size * len(title)) + _GAP
    places = _places(len(words), columns)
    rows = max(2, 1 + max((row for row, _ in places), default=0))
    sheet = Image.new("RGB", (_WIDTH, top + rows * step + _MARGIN - _GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(title):
        pen.text((_MARGIN, _MARGIN + round(1.35 * title_size * number)), line, INK, _font(title_size, bold=True))
    large = _fit(size, 2 * cell + _GAP, 2 * step - _GAP)
    faint = FAINT if picture is None else PAPER
    overview = _outlined(_canvas(picture, large), boxes, faint, _OUTLINE)
    sheet.paste(overview, (_MARGIN + (2 * cell + _GAP - large[0]) // 2, top))
    canvas = _canvas(picture, copy)
    if picture is None:
        dimmed, bright = _outlined(canvas, boxes, faint, _OUTLINE // 2), Image.new("RGB", copy, ACCENT)
    else:
        dimmed, bright = (
            Image.blend(ImageOps.grayscale(canvas).convert("RGB"), Image.new("RGB", copy, PAPER), _DIMMED),
            canvas,
        )
    for (row, column), word, weights in zip(places, words, attention, strict=True):
        x, y = _MARGIN + column * (cell + _GAP), top + row * step
        panel = _look(dimmed, bright, boxes, labels, weights, max(9, word_size - 4))
        sheet.paste(panel, (x + (cell - copy[0]) // 2, y))
        font = _fitting(word, cell, word_size)
        pen.text((x + cell // 2, y + copy[1] + 2), _cut(word, font, cell), INK, font, anchor="ma")
    return sheet


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _places(words: int, columns: int) -> list[tuple[int, int]]:
    """Row and column of each word, around the picture in the upper left corner."""
    free = ((row, column) for row in range(words + 2) for column in range(columns) if row > 1 or column > 1)
    return [place for place, _ in zip(free, range(words), strict=False)]


def _fit(size: tuple[float, float], width: int, height: int) -> tuple[int, int]:
    """The largest size of the same shape within the given one."""
    scale = min(width / size[0], height / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _canvas(picture: Image.Image | None, size: tuple[int, int]) -> Image.Image:
    if picture is None:
        return Image.new("RGB", size, BLANK)
    return picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _outlined(canvas: Image.Image, boxes: Float[np.ndarray, "r 4"], color: Rgb, opacity: int) -> Image.Image:
    """The canvas with all boxes as thin lines."""
    canvas = canvas.copy()
    for box in boxes:
        _frame(canvas, _pixels(box, canvas.size), color, opacity, 1)
    return canvas


def _frame(canvas: Image.Image, area: Area, color: Rgb, opacity: int, line: int) -> None:
    layer = Image.new("L", canvas.size)
    ImageDraw.Draw(layer).rectangle(area, outline=opacity, width=line)
    canvas.paste(color, mask=layer)


def _look(
    dimmed: Image.Image,
    bright: Image.Image,
    boxes: Float[np.ndarray, "r 4"],
    labels: Sequence[str],
    weights: Float[np.ndarray, " r"],
    text_size: int,
) -> Image.Image:
    """The dimmed copy, bright where a word looked."""
    panel = dimmed.copy()
    strongest = np.argsort(-weights, kind="stable")[:BOXES_PER_WORD].tolist()
    for region in reversed(strongest):
        opacity = round(255 * float(np.sqrt(np.clip(weights[region], 0, 1))))
        left, top, right, bottom = _pixels(boxes[region], panel.size)
        inside = (left, top, right + 1, bottom + 1)
        panel.paste(bright.crop(inside), (left, top), Image.new("L", (right + 1 - left, bottom + 1 - top), opacity))
        line = 2 if region == strongest[0] else 1
        _frame(panel, (left, top, right, bottom), ACCENT, max(opacity, _OUTLINE), line)
    if strongest:
        first = strongest[0]
        _tag(
            panel, f"{_plain(labels[first])} {weights[first]:.2f}".strip(), _pixels(boxes[first], panel.size), text_size
        )
    return panel


def _tag(panel: Image.Image, text: str, area: Area, text_size: int) -> None:
    """A label above a box where there is room, else within a tall one or below it; never outside the panel."""
    font = _font(text_size)
    text = _cut(text, font, panel.width - 6)
    width, height = round(font.getlength(text)) + 6, round(1.45 * text_size)
    x = max(0, min(area[0], panel.width - width))
    tall = area[3] - area[1] >= 2 * height
    y = area[1] - height if area[1] >= height else area[1] if tall else area[3] + 1
    y = max(0, min(y, panel.height - height))
    pen = ImageDraw.Draw(panel)
    pen.rectangle((x, y, x + width - 1, y + height - 1), ACCENT)
    pen.text((x + 3, y + height // 2), text, PAPER, font, anchor="lm")


def _pixels(box: Float[np.ndarray, " 4"], size: tuple[int, int]) -> Area:
    """A box in whole pixels of a picture, inside it, in the right order."""
    width, height = size
    x1, y1, x2, y2 = np.clip(np.nan_to_num(box), 0, 1) * (width - 1, height - 1, width - 1, height - 1)
    return round(min(x1, x2)), round(min(y1, y2)), round(max(x1, x2)), round(max(y1, y2))


def _wrap(text: str, width: int) -> tuple[list[str], int]:
    """The lines of the title, and the size of its letters: smaller when the text is long."""
    text_size = 22 if len(text) <= 200 else 17
    font = _font(text_size, bold=True)
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and font.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [_cut(line, font, width) for line in [*lines, line]], text_size


def _fitting(word: str, width: int, text_size: int) -> Font:
    """The largest bold letters, down to 9 pixels, in which the word fits."""
    sizes = range(text_size, 8, -1)
    return next(
        (_font(s, bold=True) for s in sizes if _font(s, bold=True).getlength(word) <= width), _font(9, bold=True)
    )


def _cut(text: str, font: Font, width: int) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"


@cache
def _font(size: int, bold: bool = False) -> Font:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
