"""What do all sheets share? Letters, colours, and the small skills of placing them: fit, wrap, cut, outline, label.

Text is drawn by Pillow with matplotlib's DejaVu Sans: wide coverage of scripts, and no word is taken for markup.
"""

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
SOFT: Rgb = (95, 98, 105)
FAINT: Rgb = (150, 152, 158)
BLANK: Rgb = (236, 237, 240)
"""What stands for a picture that is not there."""
ACCENT: Rgb = (214, 78, 8)
TRUTH: Rgb = (0, 92, 175)
"""What is known to be right, whatever was attended to."""

BLANK_SHAPE = (4.0, 3.0)
"""Width and height of a picture that is not there."""
LINE = 1.35
"""Height of a line of text over that of its letters."""
DIMMED = 0.62
"""Share of white in dimmed pictures."""


def plain(text: str) -> str:
    """The text on one line, without characters that have no look."""
    return "".join(character if character.isprintable() else " " for character in text)


def fit(size: tuple[float, float], width: int, height: int) -> tuple[int, int]:
    """The largest size of the same shape within the given one."""
    scale = min(width / size[0], height / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def shape_of(picture: Image.Image | None) -> tuple[float, float]:
    """Width and height; only their ratio counts."""
    return BLANK_SHAPE if picture is None else picture.size


def scaled(picture: Image.Image | None, size: tuple[int, int]) -> Image.Image:
    """The picture in this size, or a blank one."""
    if picture is None:
        return Image.new("RGB", size, BLANK)
    return picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def dimmed(picture: Image.Image) -> Image.Image:
    """Grey and pale, so that colour on it means something."""
    return Image.blend(ImageOps.grayscale(picture).convert("RGB"), Image.new("RGB", picture.size, PAPER), DIMMED)


def mixed(low: Rgb, high: Rgb, share: float) -> Rgb:
    """The colour at this share of the way from one to the other."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def outlined(canvas: Image.Image, boxes: Float[np.ndarray, "r 4"], color: Rgb, opacity: int) -> Image.Image:
    """The canvas with all boxes as thin lines."""
    canvas = canvas.copy()
    for box in boxes:
        frame(canvas, pixels(box, canvas.size), color, opacity, 1)
    return canvas


def frame(canvas: Image.Image, area: Area, color: Rgb, opacity: int, line: int) -> None:
    """The outline of an area, inside it."""
    layer = Image.new("L", canvas.size)
    ImageDraw.Draw(layer).rectangle(area, outline=opacity, width=line)
    canvas.paste(color, mask=layer)


def pixels(box: Float[np.ndarray, " 4"], size: tuple[int, int]) -> Area:
    """A box in whole pixels of a picture, inside it, in the right order."""
    width, height = size
    x1, y1, x2, y2 = np.clip(np.nan_to_num(box), 0, 1) * (width - 1, height - 1, width - 1, height - 1)
    return round(min(x1, x2)), round(min(y1, y2)), round(max(x1, x2)), round(max(y1, y2))


def wrap(text: str, text_font: Font, width: int) -> list[str]:
    """Lines of at most this width; a word that is wider alone is cut."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and text_font.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [cut(line, text_font, width) for line in [*lines, line]]


class Title:
    """A bold text in lines of a width, its letters smaller when it is long."""

    def __init__(self, text: str, width: int) -> None:
        self.size = 22 if len(text) <= 200 else 17
        self.font = font(self.size, bold=True)
        self.lines = wrap(text, self.font, width)

    @property
    def height(self) -> int:
        return round(LINE * self.size * len(self.lines))

    def draw(self, pen: ImageDraw.ImageDraw, x: int, y: int) -> None:
        for number, line in enumerate(self.lines):
            pen.text((x, y + round(LINE * self.size * number)), line, INK, self.font)


def fitting(word: str, width: int, text_size: int) -> Font:
    """The largest bold letters, down to 9 pixels, in which the word fits."""
    sizes = range(text_size, 8, -1)
    return next((font(s, bold=True) for s in sizes if font(s, bold=True).getlength(word) <= width), font(9, bold=True))


def cut(text: str, text_font: Font, width: int) -> str:
    """As much of the text as fits, with an ellipsis where something is missing."""
    if text_font.getlength(text) <= width:
        return text
    while text and text_font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"


@cache
def font(size: int, bold: bool = False) -> Font:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
