"""Which boxes is a phrase linked to? The pale picture, bright inside the linked boxes; one of each kind has its label."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import ACCENT, FAINT, PAPER, cut, dimmed, fit, font, frame, outlined, pixels, plain, scaled

WIDTH, HEIGHT = 340, 300
_TEXT = 12
_LINE = 17


def draw_links(
    picture: Image.Image | None,
    size: tuple[float, float],
    boxes: Float[np.ndarray, "r 4"],
    labels: Sequence[str],
    linked: Sequence[int],
) -> Image.Image:
    """A panel of at most 340 by 300 pixels.

    Args:
        picture: The picture, or None for a blank one with all boxes as thin lines.
        size: Its width and height; only their ratio counts.
        boxes: x1, y1, x2, y2 relative to the picture.
        labels: What each box shows.
        linked: Numbers of the boxes that count.
    """
    whole = scaled(picture, fit(size, WIDTH, HEIGHT))
    panel = outlined(whole, boxes, FAINT, 60) if picture is None else dimmed(whole)
    areas = {region: pixels(boxes[region], panel.size) for region in linked}
    for left, top, right, bottom in areas.values():
        if picture is not None:
            panel.paste(whole.crop((left, top, right + 1, bottom + 1)), (left, top))
    for area in areas.values():
        frame(panel, area, ACCENT, 255, 2)
    pen, letters = ImageDraw.Draw(panel), font(_TEXT)
    taken: list[tuple[int, int, int]] = []
    for label, (left, top, _, _) in {plain(labels[region]): area for region, area in reversed(areas.items())}.items():
        text = cut(label, letters, panel.width - 6)
        width = round(letters.getlength(text)) + 6
        x, y = max(0, min(left, panel.width - width)), top - _LINE if top >= _LINE else top
        while any(abs(y - other) < _LINE and x < right and start < x + width for start, right, other in taken):
            y += _LINE
        taken.append((x, x + width, y))
        pen.rectangle((x, y, x + width - 1, y + _LINE - 1), ACCENT)
        pen.text((x + 3, y + _LINE // 2), text, PAPER, letters, anchor="lm")
    return panel
