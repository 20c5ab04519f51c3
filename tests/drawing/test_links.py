"""Is a picture bright where a phrase is linked, and pale elsewhere?"""

import numpy as np
from PIL import Image

from lit_attn.drawing.canvas import ACCENT
from lit_attn.drawing.links import HEIGHT, WIDTH, draw_links

BOXES = np.array([[0.1, 0.4, 0.3, 0.9], [0.6, 0.4, 0.9, 0.9], [0.0, 0.0, 0.05, 0.05]])
BLUE = (10, 20, 200)


def test_linked_boxes_are_bright_and_framed():
    panel = draw_links(Image.new("RGB", (170, 150), BLUE), (170, 150), BOXES, ("cat", "dog", "mat"), [1])
    assert panel.size == (WIDTH, HEIGHT)
    pixels = np.asarray(panel)
    assert tuple(pixels[200, 255]) == BLUE  # inside the linked box
    assert tuple(pixels[200, 204]) == ACCENT  # its left edge
    red, green, blue = (int(value) for value in pixels[200, 68])  # inside another one
    assert red == green == blue > 100


def test_labels_stay_inside_and_equal_ones_are_told_once():
    boxes = np.array([[0.9, 0.0, 1.0, 0.1], [0.85, 0.02, 1.0, 0.1], [0.9, 0.95, 1.0, 1.0]])
    one = draw_links(None, (4, 3), boxes[:1], ("a very long description of a box " * 3,), [0])
    assert one.size == (WIDTH, 255)
    twice = draw_links(None, (4, 3), boxes, ("lamp", "lamp", "😀"), [0, 1, 2])
    once = draw_links(None, (4, 3), boxes, ("lamp", "", "😀"), [0, 1, 2])
    assert np.asarray(twice).shape == np.asarray(once).shape


def test_nothing_is_linked_and_nothing_is_there():
    picture = Image.new("RGB", (40, 30), BLUE)
    assert ACCENT not in {
        tuple(pixel) for pixel in np.asarray(draw_links(picture, (40, 30), BOXES, ("",) * 3, [])).reshape(-1, 3)
    }
    assert draw_links(None, (3, 4), np.zeros((0, 4)), (), []).size == (225, HEIGHT)
