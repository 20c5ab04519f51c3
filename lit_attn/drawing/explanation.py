"""Which inputs did each method blame? One sheet per sample: a row per output that is explained, a column per method.

Where there is a picture, each panel is the pale picture with items as strong as their share of the strongest one: orange
speaks for the output, violet against it (signed methods). What is known to be the cause is outlined in blue, and the
strongest item is labelled. Words stand below, on grounds of the same colours. Without a picture, each method is a line of
words. Scores are scaled by the largest of each method: panels compare items, not methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import (
    ACCENT,
    INK,
    PAPER,
    SOFT,
    TRUTH,
    Rgb,
    Title,
    cut,
    dimmed,
    fit,
    font,
    frame,
    mixed,
    pixels,
    plain,
    scaled,
    shape_of,
)
from lit_attn.drawing.words import Paragraph

AGAINST: Rgb = (94, 53, 177)
STRONGEST = 0.82
"""How opaque the strongest item is."""
OUTLINED = 3
"""So many of the strongest boxes are outlined."""

_MARGIN = 18
_GAP = 14
_PANEL = 250
_NAME = 22
_NOTE = 18
_WORD = 13
_LINE = 21
_TEXT_WIDTH = 1100
_LEGEND = 26


@dataclass(frozen=True)
class Boxes:
    """Items that are places of a picture: x1, y1, x2, y2 relative to it, and what each is."""

    boxes: Float[np.ndarray, "n 4"]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Cells:
    """Items that are cells of a grid over the whole picture, row by row."""

    rows: int
    columns: int

    @property
    def boxes(self) -> Float[np.ndarray, "n 4"]:
        y, x = np.mgrid[: self.rows, : self.columns].reshape(2, -1)
        return np.stack([x / self.columns, y / self.rows, (x + 1) / self.columns, (y + 1) / self.rows], 1)


@dataclass(frozen=True)
class Words:
    """Items that are words in their order."""

    words: tuple[str, ...]


View = Boxes | Cells | Words


@dataclass(frozen=True)
class Explained:
    """One output and what each method says of its inputs."""

    asked: str
    views: Mapping[str, View]
    scores: Mapping[str, Mapping[str, Float[np.ndarray, " n"]]]
    """By method and stream; only the first items that a view has are drawn."""
    causes: Mapping[str, Bool[np.ndarray, " n"]]
    notes: Mapping[str, str]
    """By method, a few words below its panel."""


def strength(scores: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """In [-1, 1]: shares of the largest size, with their signs; all 0 where nothing has any."""
    values = np.nan_to_num(np.asarray(scores, float))
    largest = np.abs(values).max(initial=0.0)
    return values / largest if largest > 0 else np.zeros_like(values)


def draw_explanations(picture: Image.Image | None, heading: str, rows: Sequence[Explained]) -> Image.Image:
    """The sheet of one sample."""
    methods = list(dict.fromkeys(method for row in rows for method in row.scores))
    if not any(isinstance(view, Boxes | Cells) for row in rows for view in row.views.values()):
        return _in_lines(heading, rows, methods)
    return _in_panels(picture, heading, rows, methods)


def _in_panels(
    picture: Image.Image | None, heading: str, rows: Sequence[Explained], methods: Sequence[str]
) -> Image.Image:
    size = fit(shape_of(picture), _PANEL, _PANEL)
    width = 2 * _MARGIN + (len(methods) + 1) * (_PANEL + _GAP) - _GAP
    title = Title(plain(heading), width - 2 * _MARGIN)
    texts = [
        {
            stream: Paragraph(view.words, _PANEL, _WORD, _LINE)
            for stream, view in row.views.items()
            if isinstance(view, Words)
        }
        for row in rows
    ]
    heights = [_NAME + size[1] + _NOTE + sum(text.height + 4 for text in own.values()) + _GAP for own in texts]
    top = _MARGIN + title.height + _GAP
    sheet = Image.new("RGB", (width, top + sum(heights) + _LEGEND + _MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    title.draw(pen, _MARGIN, _MARGIN)
    canvas = scaled(picture, size)
    pale = dimmed(canvas)
    y = top
    for row, own, height in zip(rows, texts, heights, strict=True):
        _name(pen, f"“{row.asked}”", _MARGIN, y, INK)
        sheet.paste(_known(canvas, row), (_MARGIN, y + _NAME))
        for column, method in enumerate(methods, 1):
            x = _MARGIN + column * (_PANEL + _GAP)
            _name(pen, method, x, y, SOFT)
            scores = row.scores.get(method)
            if scores is None:
                continue
            sheet.paste(_panel(pale, row, scores), (x, y + _NAME))
            note = cut(row.notes.get(method, ""), font(12), _PANEL)
            pen.text((x, y + _NAME + size[1] + 2), note, SOFT, font(12))
            below = y + _NAME + size[1] + _NOTE
            for stream, text in own.items():
                if stream in scores:
                    _words(pen, text, x, below, scores[stream], row.causes.get(stream))
                    below += text.height + 4
        y += height
    _legend(pen, _MARGIN, y + 4, any((values < 0).any() for r in rows for s in r.scores.values() for values in s.values()),
            any(cause.any() for row in rows for cause in row.causes.values()))  # fmt: skip
    return sheet


def _in_lines(heading: str, rows: Sequence[Explained], methods: Sequence[str]) -> Image.Image:
    """No picture: each method is a line of the words."""
    label = 190
    title = Title(plain(heading), _TEXT_WIDTH)
    laid = [
        (row, method, stream, Paragraph(view.words, _TEXT_WIDTH - label, 15, 25))
        for row in rows
        for method in methods
        for stream, view in row.views.items()
        if isinstance(view, Words) and stream in row.scores.get(method, {})
    ]
    asked = 28 * len(rows)
    height = 2 * _MARGIN + title.height + _GAP + asked + sum(text.height + 6 for *_, text in laid) + _LEGEND
    sheet = Image.new("RGB", (_TEXT_WIDTH + 2 * _MARGIN, height), PAPER)
    pen = ImageDraw.Draw(sheet)
    title.draw(pen, _MARGIN, _MARGIN)
    y, before = _MARGIN + title.height + _GAP, None
    for row, method, stream, text in laid:
        if row is not before:
            _name(pen, f"“{row.asked}”", _MARGIN, y, INK)
            y, before = y + 28, row
        pen.text((_MARGIN, y + 2), cut(method, font(13), label - 8), SOFT, font(13))
        _words(pen, text, _MARGIN + label, y, row.scores[method][stream], row.causes.get(stream))
        y += text.height + 6
    signed = any((v < 0).any() for r in rows for s in r.scores.values() for v in s.values())
    _legend(pen, _MARGIN, y + 4, signed, any(cause.any() for row in rows for cause in row.causes.values()))
    return sheet


def _name(pen: ImageDraw.ImageDraw, text: str, x: int, y: int, color: Rgb) -> None:
    pen.text((x, y), cut(plain(text), font(14, bold=True), _PANEL), color, font(14, bold=True))


def _places(row: Explained) -> list[tuple[str, Boxes | Cells]]:
    return [(stream, view) for stream, view in row.views.items() if isinstance(view, Boxes | Cells)]


def _known(canvas: Image.Image, row: Explained) -> Image.Image:
    """The picture itself, with what is known to be the cause."""
    panel = canvas.copy()
    for stream, view in _places(row):
        _outline_causes(panel, view, row.causes.get(stream))
    return panel


def _outline_causes(panel: Image.Image, view: Boxes | Cells, cause: Bool[np.ndarray, " n"] | None) -> None:
    if cause is not None:
        for box in view.boxes[np.flatnonzero(cause[: len(view.boxes)])]:
            frame(panel, pixels(box, panel.size), TRUTH, 255, 2)


def _panel(pale: Image.Image, row: Explained, scores: Mapping[str, Float[np.ndarray, " n"]]) -> Image.Image:
    """Items by strength; where they overlap, the strongest is seen."""
    panel = pale.copy()
    width, height = panel.size
    places = [(stream, view) for stream, view in _places(row) if stream in scores]
    together = strength(np.concatenate([scores[s][: len(v.boxes)] for s, v in places])) if places else np.zeros(0)
    best: tuple[float, str, np.ndarray] | None = None
    heat = np.zeros((height, width))
    at = 0
    outlines = []
    for _, view in places:
        own, at = together[at : at + len(view.boxes)], at + len(view.boxes)
        for number in np.argsort(np.abs(own), kind="stable"):
            left, up, right, down = pixels(view.boxes[number], panel.size)
            inner = heat[up : down + 1, left : right + 1]
            inner[np.abs(inner) < abs(own[number])] = own[number]
        if isinstance(view, Boxes):
            outlines += [(abs(own[n]), own[n], view.boxes[n], view.labels[n]) for n in range(len(own)) if own[n]]
    for sign, color in ((1, ACCENT), (-1, AGAINST)):
        opacity = (255 * STRONGEST * np.clip(sign * heat, 0, 1)).astype(np.uint8)
        panel.paste(color, mask=Image.fromarray(opacity))
    outlines.sort(key=lambda one: -one[0])
    for size, value, box, _ in outlines[:OUTLINED]:
        frame(panel, pixels(box, panel.size), ACCENT if value > 0 else AGAINST, round(100 + 155 * size), 1)
    if outlines and outlines[0][3]:
        best = (outlines[0][1], outlines[0][3], outlines[0][2])
    for stream, view in _places(row):
        _outline_causes(panel, view, row.causes.get(stream))
    if best is not None:
        _tag(panel, best[1], pixels(best[2], panel.size), ACCENT if best[0] > 0 else AGAINST)
    return panel


def _tag(panel: Image.Image, text: str, area: tuple[int, int, int, int], color: Rgb) -> None:
    letters = font(11)
    text = cut(plain(text), letters, panel.width - 6)
    width, height = round(letters.getlength(text)) + 6, 16
    x = max(0, min(area[0], panel.width - width))
    y = area[1] - height if area[1] >= height else min(area[3] + 1, panel.height - height)
    pen = ImageDraw.Draw(panel)
    pen.rectangle((x, y, x + width - 1, y + height - 1), color)
    pen.text((x + 3, y + height // 2), text, PAPER, letters, anchor="lm")


def _words(
    pen: ImageDraw.ImageDraw,
    text: Paragraph,
    x: int,
    y: int,
    scores: Float[np.ndarray, " n"],
    cause: Bool[np.ndarray, " n"] | None,
) -> None:
    shades = strength(scores[: len(text.places)])
    for number, ((left, upper, across, word), share) in enumerate(zip(text.places, shades, strict=True)):
        area = (x + left, y + upper, x + left + across - 1, y + upper + text.ground - 1)
        pen.rectangle(area, mixed(PAPER, ACCENT if share > 0 else AGAINST, 0.75 * abs(float(share))))
        if cause is not None and cause[number]:
            pen.rectangle(area, outline=TRUTH, width=2)
        pen.text((x + left + across / 2, y + upper + text.ground // 2), word, INK, text.font, anchor="mm")


def _legend(pen: ImageDraw.ImageDraw, x: int, y: int, signed: bool, known: bool) -> None:
    entries = [(ACCENT, "speaks for it" if signed else "matters", True)]
    entries += [(AGAINST, "speaks against it", True)] if signed else []
    entries += [(TRUTH, "known cause", False)] if known else []
    for color, text, filled in entries:
        pen.rectangle((x, y + 3, x + 13, y + 16), color if filled else PAPER, color, 2)
        pen.text((x + 20, y + 2), text, SOFT, font(12))
        x += 40 + round(font(12).getlength(text))
