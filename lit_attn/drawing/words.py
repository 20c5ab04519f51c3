"""How is a question shown with the weights of its words? In lines, each word on a ground as strong as its weight."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from PIL import ImageDraw

from lit_attn.drawing.canvas import ACCENT, INK, PAPER, Rgb, cut, font, mixed, plain

_SHADE = 0.75
"""How much colour a word of weight 1 has."""


class Paragraph:
    """Words in lines of a width, each at a place of its own.

    Args:
        line: Pixels from one line to the next.
        least: Pixels that a word takes even if it is shorter.
        gap: Pixels between words.
    """

    def __init__(self, words: Sequence[str], width: int, size: int, line: int, *, least: int = 0, gap: int = 2) -> None:
        self.words = [plain(word) for word in words]
        self.font = font(size)
        self.line = line
        self.ground = round(1.4 * size)
        self.places: list[tuple[int, int, int, str]] = []
        x = y = 0
        for word in self.words:
            shown = cut(word, self.font, width - 4)
            across = max(least, round(self.font.getlength(shown)) + 4)
            if x and x + across > width:
                x, y = 0, y + line
            self.places.append((x, y, across, shown))
            x += across + gap
        self.height = y + line

    def draw(self, pen: ImageDraw.ImageDraw, left: int, upper: int, weights: Float[np.ndarray, " t"]) -> None:
        for (x, y, across, word), weight in zip(self.places, weights, strict=True):
            area = (left + x, upper + y, left + x + across - 1, upper + y + self.ground - 1)
            pen.rectangle(area, shade(float(weight)))
            pen.text((left + x + across / 2, upper + y + self.ground // 2), word, INK, self.font, anchor="mm")


def shade(weight: float) -> Rgb:
    """White for 0, and as strong as the square root of the weight: one scale for all words of all sheets."""
    return mixed(PAPER, ACCENT, _SHADE * float(np.sqrt(np.clip(np.nan_to_num(weight), 0, 1))))
