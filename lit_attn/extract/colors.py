"""Which colour has a region? The one of eleven names that most pixels of its box have.

Torchvision's detectors know no attributes; this one can be measured. Each pixel takes the name of the nearest example in
CIELAB (D65), where distances are roughly those that people see. The box counts, not the thing in it: a thin lamp before a
white wall is "white". The confidence is the share of the box's pixels that have the name.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""Rows, columns, and red, green and blue in sRGB."""
Floats = NDArray[np.float64]

EXAMPLES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "red": ((200, 30, 35), (140, 15, 20), (235, 60, 50)),
    "green": ((45, 150, 60), (20, 75, 30), (140, 210, 100), (100, 120, 50), (120, 180, 140), (150, 175, 20)),
    "blue": ((40, 80, 200), (15, 20, 85), (110, 170, 225), (60, 110, 150), (195, 235, 245), (50, 20, 210)),
    "yellow": ((245, 210, 40), (250, 240, 130), (205, 180, 30)),
    "purple": ((125, 50, 165), (75, 25, 85), (170, 130, 205), (120, 85, 115), (175, 30, 240)),
    "orange": ((240, 130, 30), (225, 95, 20), (250, 170, 90)),
    "pink": ((245, 140, 180), (225, 60, 130), (250, 190, 200), (245, 110, 225)),
    "brown": ((130, 80, 45), (75, 45, 25), (170, 125, 85), (150, 105, 10), (145, 75, 10)),
    "black": ((10, 10, 10), (32, 32, 34)),
    "white": ((252, 252, 252), (236, 234, 230)),
    "gray": ((140, 142, 146), (85, 87, 90), (195, 197, 200)),
}
COLORS = tuple(EXAMPLES)

_LEVELS = 32
"""Steps of each channel in the table from pixel to name."""
_SAMPLES = 64
"""At most so many rows and columns of a box are looked at."""

_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
_WHITE = np.array([0.95047, 1.0, 1.08883])


def color_of_boxes(pixels: Pixels, boxes: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each box (x1, y1, x2, y2 in pixels) the number of its colour in `COLORS`, and the share of pixels that have it."""
    height, width = pixels.shape[:2]
    names = np.zeros(len(boxes), np.int64)
    shares = np.zeros(len(boxes), np.float32)
    for i, (x1, y1, x2, y2) in enumerate(boxes):
        columns, rows = _sample(x1, x2, width), _sample(y1, y2, height)
        counts = np.bincount(color_of_pixels(pixels[np.ix_(rows, columns)]).ravel(), minlength=len(COLORS))
        names[i] = counts.argmax()
        shares[i] = counts.max() / counts.sum()
    return names, shares


def _sample(start: float, end: float, size: int) -> NDArray[np.int64]:
    """Pixels between two edges, evenly spread, at least one."""
    first = min(max(round(start), 0), size - 1)
    last = min(max(round(end), first + 1), size)
    return first + np.arange(min(last - first, _SAMPLES)) * (last - first) // min(last - first, _SAMPLES)


def color_of_pixels(pixels: Pixels) -> NDArray[np.int64]:
    """The number of each pixel's colour in `COLORS`."""
    red, green, blue = np.moveaxis(pixels // (256 // _LEVELS), -1, 0)
    return _table()[red, green, blue]


@cache
def _table() -> NDArray[np.int64]:
    levels = (np.arange(_LEVELS) + 0.5) * (256 / _LEVELS)
    return nearest_example(np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1))


def nearest_example(rgb: Floats) -> NDArray[np.int64]:
    """The number in `COLORS` of the nearest example to each colour."""
    owner = np.array([i for i, examples in enumerate(EXAMPLES.values()) for _ in examples])
    examples = np.array([example for examples in EXAMPLES.values() for example in examples], np.float64)
    places, wanted = cielab(examples), cielab(rgb)
    distances = np.stack([((wanted - place) ** 2).sum(-1) for place in places], -1)
    return owner[distances.argmin(-1)]


def cielab(rgb: Floats) -> Floats:
    """sRGB of 0 to 255 as lightness, green to red, and blue to yellow (CIE 1976, white point D65)."""
    light = rgb / 255
    linear = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    ratio = linear @ _XYZ.T / _WHITE
    x, y, z = np.moveaxis(np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)
