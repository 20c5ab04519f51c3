"""Which part of a photograph does a sample show? The square around a bird, then a crop of the reduced picture.

As in AttnGAN (Xu et al. 2018): the square reaches 0.75 times the longer side of the bird's box from its middle in each
direction, as far as the picture goes. The shorter side of what is left becomes 76/64 of the wanted one, and a square of the
wanted size is cut from it: anywhere in training, from the middle in evaluation.
"""

from random import Random

from PIL import Image

Box = tuple[int, int, int, int]
"""x, y, width, height."""
Corners = tuple[int, int, int, int]
"""x1, y1, x2, y2."""

REACH = 0.75


def around(box: Box, width: int, height: int) -> Corners:
    """The square around a box, inside a picture of this size. It is empty where the box lies outside."""
    x, y, wide, high = box
    half = int(max(wide, high) * REACH)
    middle_x, middle_y = int((2 * x + wide) / 2), int((2 * y + high) / 2)
    return max(0, middle_x - half), max(0, middle_y - half), min(width, middle_x + half), min(height, middle_y + half)


def reduced(picture: Image.Image, side: int) -> Image.Image:
    """With a shorter side of 76/64 of `side`."""
    short = side * 76 // 64
    width, height = picture.size
    size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    return picture.resize(size, Image.Resampling.BILINEAR)


def cropped(picture: Image.Image, side: int, chance: Random | None) -> Image.Image:
    """A square of `side` pixels across: anywhere, or from the middle without chance."""
    free_x, free_y = picture.width - side, picture.height - side
    if chance is None:
        x, y = round(free_x / 2), round(free_y / 2)
    else:
        x, y = chance.randint(0, free_x), chance.randint(0, free_y)
    return picture.crop((x, y, x + side, y + side))
