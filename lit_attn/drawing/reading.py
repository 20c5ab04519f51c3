"""What did a network look at while it read an answer off a picture? One sheet: question, picture, shares, answer.

Words of the question are shaded by the square root of their weight where it is above a threshold, with the weight below.
Lines around OCR tokens are as thick as their weight, up to a weight that is written out. Objects have thin lines, in colour
above the threshold and as opaque as the root of their weight. A bar shows how all of the attention splits. Labels never
overlap: the strongest tokens take their places first, and the sheet says how many tokens found none.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import (
    ACCENT,
    FAINT,
    INK,
    LINE,
    PAPER,
    SOFT,
    Area,
    Rgb,
    cut,
    fit,
    font,
    frame,
    mixed,
    outlined,
    pixels,
    plain,
    scaled,
    shape_of,
    wrap,
)
from lit_attn.drawing.verdict import SIZE, draw_sign
from lit_attn.drawing.words import Paragraph

THRESHOLD = 0.01
THINNEST, THICKEST = 1, 10
"""Pixels of the line around an OCR token of no weight, and of the largest."""
LEAST_TOP = 0.1
"""The scale of lines ends at this weight at least, so that tokens that nobody looked at have thin ones."""

OBJECTS: Rgb = (0, 130, 95)
_PARTS: tuple[tuple[str, Rgb], ...] = (
    ("question", (0, 114, 178)),
    ("objects", OBJECTS),
    ("OCR tokens", ACCENT),
    ("answer so far", (120, 122, 128)),
)
_WIDTH = 900
_HIGHEST = 620
_MARGIN = 20
_GAP = 14
_QUESTION = 20
_NUMBER = 13
_GROUND = 0.75
"""How much colour the label of a token has whose line is thickest."""


class Row(NamedTuple):
    """The weights of one step of an answer; together they sum to 1."""

    question: Float[np.ndarray, " t"]
    objects: Float[np.ndarray, " r"]
    ocr: Float[np.ndarray, " o"]
    decoded: Float[np.ndarray, " d"]


@dataclass(frozen=True)
class ReadAnswer:
    """A question that was answered by reading, and what every layer, head and step attended to."""

    words: tuple[str, ...]
    boxes: Float[np.ndarray, "r 4"]
    """x1, y1, x2, y2 relative to the picture; so are `ocr_boxes`."""
    ocr_words: tuple[str, ...]
    ocr_boxes: Float[np.ndarray, "o 4"]
    question: Float[np.ndarray, "l h s t"]
    objects: Float[np.ndarray, "l h s r"]
    ocr: Float[np.ndarray, "l h s o"]
    decoded: Float[np.ndarray, "l h s d"]
    """Weights of what the answer has read so far, beginning with its start."""
    answer: str
    people: tuple[str, ...] = ()
    """What people answered; empty where it is not known."""
    score: float | None = None
    """How right the answer is, from 0 to 1, where it is known."""

    def __post_init__(self) -> None:
        sizes = (len(self.words), len(self.boxes), len(self.ocr_words), self.decoded.shape[-1])
        parts = (self.question, self.objects, self.ocr, self.decoded)
        heads = self.question.shape[:3]
        if any(part.shape != (*heads, size) for part, size in zip(parts, sizes, strict=True)) or 0 in heads:
            raise ValueError(
                f"Weights are {', '.join(str(part.shape) for part in parts)}; expected layers, heads and steps, the same in "
                f"all, and then {sizes[0]} words, {sizes[1]} objects, {sizes[2]} OCR tokens and what was decoded."
            )
        if len(self.ocr_boxes) != len(self.ocr_words):
            raise ValueError(f"There are {len(self.ocr_words)} OCR tokens, but {len(self.ocr_boxes)} boxes of them.")

    def row(self, layer: int = -1, head: int | None = None, step: int = 0) -> Row:
        """The weights of one layer and step, of one head or the mean of all. An answer too short gives its last step."""
        at = min(step, self.question.shape[2] - 1)
        parts = (self.question, self.objects, self.ocr, self.decoded)
        chosen = [np.nan_to_num(part[layer, :, at].astype(np.float64)) for part in parts]
        return Row(*(part.mean(0) if head is None else part[head] for part in chosen))

    def top(self, layer: int = -1, head: int | None = None, step: int = 0) -> float:
        """Where the scale of lines ends: the largest weight of an OCR token, or 0.1 if that is more."""
        return max(LEAST_TOP, float(self.row(layer, head, step).ocr.max(initial=0.0)))


def draw_reading(
    asked: ReadAnswer,
    picture: Image.Image | None,
    *,
    layer: int = -1,
    head: int | None = None,
    step: int = 0,
    threshold: float = THRESHOLD,
    top: float | None = None,
) -> Image.Image:
    """The sheet, 900 pixels wide.

    Args:
        picture: The picture, or None for a blank one.
        layer, head, step: Whose attention; None for the mean of all heads.
        threshold: Words and tokens above this weight are marked.
        top: Where the scale of lines ends, to draw several sheets on one scale.
    """
    row = asked.row(layer, head, step)
    end = asked.top(layer, head, step) if top is None else top
    inner = _WIDTH - 2 * _MARGIN
    line = round(1.4 * _QUESTION) + _NUMBER + 8
    question = Paragraph(asked.words, inner, _QUESTION, line, least=round(font(_NUMBER).getlength(".00")), gap=5)
    shown, unlabelled = _draw_picture(asked, picture, row, end, threshold, inner)
    people = wrap(_people(asked), font(16), inner) if asked.people else []
    note = wrap(_note(asked, layer, head, step, threshold, end, unlabelled), font(13), inner)
    people_height, note_height = round(LINE * 16 * len(people)), round(LINE * 13 * len(note))
    heights = [question.height + 2, shown.height + _GAP, 62, 34 + people_height + _GAP, note_height]
    sheet = Image.new("RGB", (_WIDTH, 2 * _MARGIN + sum(heights)), PAPER)
    pen = ImageDraw.Draw(sheet)
    starts = [_MARGIN + sum(heights[:place]) for place in range(len(heights))]
    _draw_question(pen, question, row.question, threshold, starts[0])
    sheet.paste(shown, ((_WIDTH - shown.width) // 2, starts[1]))
    _draw_shares(pen, row, starts[2], inner)
    _draw_answer(pen, asked, starts[3], inner)
    _draw_lines(pen, people, 16, INK, starts[3] + 34)
    _draw_lines(pen, note, 13, SOFT, starts[4])
    return sheet


def _draw_question(
    pen: ImageDraw.ImageDraw, question: Paragraph, weights: Float[np.ndarray, " t"], threshold: float, upper: int
) -> None:
    question.draw(pen, _MARGIN, upper, np.where(weights > threshold, weights, 0.0))
    for (x, y, across, _), weight in zip(question.places, weights, strict=True):
        if weight > threshold:
            text = "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:]
            middle = _MARGIN + x + across // 2
            pen.text((middle, upper + y + question.ground + 1), text, SOFT, font(_NUMBER), anchor="ma")


def _draw_picture(
    asked: ReadAnswer, picture: Image.Image | None, row: Row, top: float, threshold: float, width: int
) -> tuple[Image.Image, int]:
    """The picture with boxes and labels, and how many tokens have no label for want of room."""
    size = fit(shape_of(picture), width, _HIGHEST)
    canvas = outlined(scaled(picture, size), asked.boxes, FAINT if picture is None else PAPER, 130)
    for box, weight in zip(asked.boxes, row.objects, strict=True):
        if weight > threshold:
            frame(canvas, pixels(box, size), OBJECTS, round(255 * float(np.sqrt(min(1.0, weight)))), 2)
    order = np.argsort(-row.ocr, kind="stable").tolist()
    areas = [pixels(box, size) for box in asked.ocr_boxes]
    for token in reversed(order):
        line = thickness(float(row.ocr[token]), top)
        wide = _grown(areas[token], line - 1, size)
        frame(canvas, _grown(wide, 1, size), PAPER, 200, line + 2)
        frame(canvas, wide, ACCENT, 255, line)
    taken: list[Area] = []
    for token in order:
        weight = float(row.ocr[token])
        is_marked = weight > threshold
        text = plain(asked.ocr_words[token])
        ground = mixed(PAPER, ACCENT, _GROUND * float(np.sqrt(min(1.0, weight / top)))) if is_marked else PAPER
        label = Label(f"{text} {weight:.2f}" if is_marked else text, is_marked, ground, size[0])
        place = label.place(_grown(areas[token], thickness(weight, top), size), size, taken)
        if place is not None:
            label.draw(canvas, place)
            taken.append(place)
    return canvas, len(order) - len(taken)


def thickness(weight: float, top: float) -> int:
    """Pixels of the line around a token."""
    return THINNEST + round((THICKEST - THINNEST) * min(1.0, max(0.0, weight / top)))


def _grown(area: Area, by: int, size: tuple[int, int]) -> Area:
    """An area that is larger on all sides, inside a picture."""
    left, upper, right, lower = area
    return max(0, left - by), max(0, upper - by), min(size[0] - 1, right + by), min(size[1] - 1, lower + by)


class Label:
    """The text at a token: larger where it is marked, small and grey where it is not."""

    def __init__(self, text: str, is_marked: bool, ground: Rgb, most: int) -> None:
        text_size = 16 if is_marked else 13
        self.font = font(text_size, bold=is_marked)
        self.text = cut(text, self.font, most - 8)
        self.ground, self.ink = ground, INK if is_marked else SOFT
        self.width, self.height = round(self.font.getlength(self.text)) + 8, round(1.45 * text_size)

    def place(self, area: Area, size: tuple[int, int], taken: list[Area]) -> Area | None:
        """Above the box, below it, beside it or inside it: the first place in the picture that is free."""
        left, upper, right, lower = area
        middle = (upper + lower - self.height) // 2
        corners = [
            (left, upper - self.height),
            (left, lower + 1),
            (right + 1, middle),
            (left - self.width, middle),
            (right + 1 - self.width, upper - self.height),
            (right + 1 - self.width, lower + 1),
            (left, upper),
        ]
        for x, y in corners:
            x = max(0, min(x, size[0] - self.width))
            found = (x, y, x + self.width - 1, y + self.height - 1)
            if y >= 0 and found[3] < size[1] and not any(_overlap(found, other) for other in taken):
                return found
        return None

    def draw(self, canvas: Image.Image, place: Area) -> None:
        pen = ImageDraw.Draw(canvas)
        pen.rectangle(place, self.ground)
        pen.text((place[0] + 4, (place[1] + place[3]) // 2 + 1), self.text, self.ink, self.font, anchor="lm")


def _overlap(one: Area, other: Area) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _draw_shares(pen: ImageDraw.ImageDraw, row: Row, upper: int, width: int) -> None:
    """A bar of four parts, and the share of each below."""
    shares = [float(part.sum()) for part in row]
    whole = sum(shares) or 1.0
    x, label_x, small = float(_MARGIN), _MARGIN, font(16)
    for (name, color), share in zip(_PARTS, shares, strict=True):
        left, x = round(x), x + share / whole * width
        if round(x) > left:
            pen.rectangle((left, upper, round(x) - 1, upper + 17), color)
        pen.rectangle((label_x, upper + 29, label_x + 11, upper + 40), color)
        text = f"{name} {share:.2f}"
        pen.text((label_x + 18, upper + 35), text, INK, small, anchor="lm")
        label_x += 18 + round(small.getlength(text)) + 30


def _draw_answer(pen: ImageDraw.ImageDraw, asked: ReadAnswer, upper: int, width: int) -> None:
    small, large = font(16), font(22, bold=True)
    pen.text((_MARGIN, upper + 22), "answer", SOFT, small, anchor="ls")
    x = _MARGIN + round(small.getlength("answer")) + 12
    if asked.score is not None:
        draw_sign(pen, x, upper + 5, asked.score > 0)
        x += SIZE + 10
    score = "" if asked.score is None else f"accuracy {asked.score:.2f}"
    room = _MARGIN + width - x - round(small.getlength(score)) - 20
    answer = cut(plain(asked.answer) or "(nothing)", large, room)
    pen.text((x, upper + 22), answer, INK, large, anchor="ls")
    pen.text((_MARGIN + width, upper + 22), score, SOFT, small, anchor="rs")


def _people(asked: ReadAnswer) -> str:
    """Each different answer with the number of people who gave it, the most frequent first."""
    given = Counter(plain(answer) for answer in asked.people).most_common()
    return f"people: {', '.join(answer if count == 1 else f'{answer} ({count})' for answer, count in given)}"


def _note(
    asked: ReadAnswer, layer: int, head: int | None, step: int, threshold: float, top: float, unlabelled: int
) -> str:
    layers, heads, steps = asked.question.shape[:3]
    whose = f"mean of {heads} heads" if head is None else f"head {head % heads + 1} of {heads}"
    parts = [
        f"Layer {layer % layers + 1} of {layers}, {whose}, step {min(step, steps - 1) + 1} of {steps}.",
        f"Coloured: words and objects above {threshold:g}. Thickest line: weight {top:.2g}.",
    ]
    if unlabelled:
        parts.append(f"{unlabelled} of {len(asked.ocr_words)} tokens have no label for want of room.")
    return " ".join(parts)


def _draw_lines(pen: ImageDraw.ImageDraw, lines: list[str], text_size: int, color: Rgb, upper: int) -> None:
    for number, line in enumerate(lines):
        pen.text((_MARGIN, upper + round(LINE * text_size * number)), line, color, font(text_size))
