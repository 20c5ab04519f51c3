"""Which method finds the cause, at a glance? A heat map: methods down, settings across, one panel per measure.

Colour is how far a value lies above chance on the way to 1, so that settings with easier causes do not look better; below
chance is violet. The number in each cell is the value itself.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import ACCENT, BLANK, INK, PAPER, SOFT, Rgb, cut, font, mixed
from lit_attn.drawing.explanation import AGAINST

Cell = tuple[str, str, str, float, float]
"""Method, setting, measure, value, chance."""

_MARGIN = 20
_LABEL = 170
_ACROSS, _DOWN = 84, 25
_HEAD = 128
_TITLE = 30
_GAP = 26


def above_chance(value: float, chance: float) -> float:
    """In [-1, 1]: 0 at chance, 1 at a perfect 1, -1 at 0."""
    if not np.isfinite(value):
        return 0.0
    room = 1 - chance if value >= chance else chance
    return float(np.clip((value - chance) / room, -1, 1)) if room > 0 else 0.0


def draw_truth(cells: Sequence[Cell]) -> Image.Image:
    """The heat map of all measures."""
    methods = list(dict.fromkeys(cell[0] for cell in cells))
    settings = list(dict.fromkeys(cell[1] for cell in cells))
    measures = list(dict.fromkeys(cell[2] for cell in cells))
    known = {cell[:3]: cell[3:] for cell in cells}
    panel = len(settings) * _ACROSS
    width = 2 * _MARGIN + _LABEL + len(measures) * (panel + _GAP) - _GAP
    sheet = Image.new("RGB", (width, 2 * _MARGIN + _TITLE + _HEAD + len(methods) * _DOWN), PAPER)
    pen = ImageDraw.Draw(sheet)
    top = _MARGIN + _TITLE + _HEAD
    for row, method in enumerate(methods):
        pen.text(
            (_MARGIN, top + row * _DOWN + _DOWN // 2), cut(method, font(14), _LABEL - 8), INK, font(14), anchor="lm"
        )
    for number, measure in enumerate(measures):
        x = _MARGIN + _LABEL + number * (panel + _GAP)
        pen.text((x, _MARGIN), measure.replace("_", " "), INK, font(18, bold=True))
        for column, setting in enumerate(settings):
            _upright(sheet, setting, x + column * _ACROSS, top - 6)
            for row, method in enumerate(methods):
                found = known.get((method, setting, measure))
                area = (
                    x + column * _ACROSS,
                    top + row * _DOWN,
                    x + (column + 1) * _ACROSS - 2,
                    top + (row + 1) * _DOWN - 2,
                )
                pen.rectangle(area, BLANK if found is None else color_of(above_chance(*found)))
                if found is not None:
                    middle = ((area[0] + area[2]) // 2, (area[1] + area[3]) // 2)
                    pen.text(middle, f"{found[0]:.2f}", INK, font(13), anchor="mm")
    return sheet


def color_of(share: float) -> Rgb:
    return mixed(PAPER, ACCENT if share > 0 else AGAINST, 0.85 * abs(share))


def _upright(sheet: Image.Image, text: str, x: int, bottom: int) -> None:
    """A heading in short lines that end at `bottom`."""
    words, lines = text.split(), [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font(12).getlength(longer) > _ACROSS - 4:
            lines.append(word)
        else:
            lines[-1] = longer
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(reversed(lines)):
        pen.text((x, bottom - 16 * (number + 1)), cut(line, font(12), _ACROSS - 2), SOFT, font(12))
