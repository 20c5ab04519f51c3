"""Was the answer right? A tick or a cross, drawn with lines: the shape says it, whatever the colours look like."""

from PIL import ImageDraw

from lit_attn.drawing.canvas import Rgb

RIGHT: Rgb = (0, 105, 77)
WRONG: Rgb = (176, 32, 32)
SIZE = 18


def draw_sign(pen: ImageDraw.ImageDraw, x: int, y: int, is_right: bool) -> None:
    """The sign with its upper left corner at this place, 18 pixels wide and high."""
    if is_right:
        pen.line([(x + 1, y + 10), (x + 6, y + 15), (x + 16, y + 3)], RIGHT, 4, joint="curve")
    else:
        pen.line([(x + 3, y + 3), (x + 15, y + 15)], WRONG, 4)
        pen.line([(x + 3, y + 15), (x + 15, y + 3)], WRONG, 4)
