"""Which method finds the cause, at a glance? A heat map: methods down, settings across, a band per task, a panel per measure.

Colour is how far a value lies above chance on the way to 1, so that settings with easier causes do not look better; below
chance is violet. The number in each cell is the value itself.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import ACCENT, BLANK, INK, PAPER, SOFT, Rgb, cut, font, mixed
from lit_attn.drawing.explanation import AGAINST

Cell = tuple[str, str, str, str, float, float]
"""Task, method, setting, measure, value, chance."""

_MARGIN = 20
_LABEL = 170
_ACROSS, _DOWN = 98, 25
_LINE = 16
_TITLE = 30
_GAP = 26


def above_chance(value: float, chance: float) -> float:
    """In [-1, 1]: 0 at chance, 1 at a perfect 1, -1 at 0."""
    if not np.isfinite(value):
        return 0.0
    room = 1 - chance if value >= chance else chance
    return float(np.clip((value - chance) / room, -1, 1)) if room > 0 else 0.0


def draw_truth(cells: Sequence[Cell]) -> Image.Image:
    """The heat map of all tasks and measures."""
    tasks = list(dict.fromkeys(cell[0] for cell in cells))
    bands = [_band([cell for cell in cells if cell[0] == task], task) for task in tasks]
    height = sum(band.height for band in bands) + _GAP * (len(bands) - 1) + 2 * _MARGIN
    sheet = Image.new("RGB", (max(band.width for band in bands) + 2 * _MARGIN, height), PAPER)
    y = _MARGIN
    for band in bands:
        sheet.paste(band, (_MARGIN, y))
        y += band.height + _GAP
    return sheet


def _band(cells: Sequence[Cell], task: str) -> Image.Image:
    methods = list(dict.fromkeys(cell[1] for cell in cells))
    settings = list(dict.fromkeys(cell[2] for cell in cells))
    measures = list(dict.fromkeys(cell[3] for cell in cells))
    known = {cell[1:4]: cell[4:] for cell in cells}
    title = font(18, bold=True)
    names = {measure: measure.replace("_", " ") for measure in measures}
    panel = max(len(settings) * _ACROSS, *(int(title.getlength(name)) + 1 for name in names.values()))
    top = _TITLE + _LINE * max(len(_lines(setting)) for setting in settings) + 8
    width = _LABEL + len(measures) * (panel + _GAP) - _GAP
    band = Image.new("RGB", (width, top + len(methods) * _DOWN), PAPER)
    pen = ImageDraw.Draw(band)
    pen.text((0, 0), cut(task, title, _LABEL - 8), INK, title)
    for row, method in enumerate(methods):
        y = top + row * _DOWN + _DOWN // 2
        pen.text((0, y), cut(method, font(14), _LABEL - 8), INK, font(14), anchor="lm")
    for number, measure in enumerate(measures):
        left = _LABEL + number * (panel + _GAP)
        pen.text((left, 0), names[measure], INK, title)
        for column, setting in enumerate(settings):
            x = left + column * _ACROSS
            _upright(band, setting, x, top - 6)
            for row, method in enumerate(methods):
                y, found = top + row * _DOWN, known.get((method, setting, measure))
                color = BLANK if found is None else color_of(above_chance(*found))
                pen.rectangle((x, y, x + _ACROSS - 2, y + _DOWN - 2), color)
                if found is not None:
                    middle = (x + _ACROSS // 2 - 1, y + _DOWN // 2 - 1)
                    pen.text(middle, f"{found[0]:.2f}", INK, font(13), anchor="mm")
    return band


def color_of(share: float) -> Rgb:
    return mixed(PAPER, ACCENT if share > 0 else AGAINST, 0.85 * abs(share))


def _upright(sheet: Image.Image, text: str, x: int, bottom: int) -> None:
    """A heading in short lines that end at `bottom`."""
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(reversed(_lines(text))):
        pen.text((x, bottom - _LINE * (number + 1)), cut(line, font(12), _ACROSS - 2), SOFT, font(12))


def _lines(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font(12).getlength(longer) > _ACROSS - 4:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
