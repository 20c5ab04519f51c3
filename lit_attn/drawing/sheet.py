"""What do many painted pictures look like at a glance? A sheet of them, each with what was asked for and whether it came."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from lit_attn.drawing.canvas import FAINT, INK, PAPER, cut, font, plain, scaled
from lit_attn.drawing.verdict import SIZE, draw_sign

COLUMNS = 8
TILE = 128
GAP = 10
LABEL = 22


@dataclass(frozen=True)
class Tile:
    """One picture."""

    pixels: UInt8[np.ndarray, "y x 3"]
    label: str
    """What was asked for, in few words; longer ones are cut."""
    is_right: bool | None = None
    """None where nobody knows."""


def draw_tiles(tiles: Sequence[Tile]) -> Image.Image:
    """The pictures row by row, eight across."""
    rows = -(-len(tiles) // COLUMNS)
    across, down = TILE + GAP, TILE + LABEL + GAP
    sheet = Image.new("RGB", (GAP + min(len(tiles), COLUMNS) * across, GAP + rows * down), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, tile in enumerate(tiles):
        row, column = divmod(number, COLUMNS)
        x, y = GAP + column * across, GAP + row * down
        sheet.paste(scaled(Image.fromarray(tile.pixels), (TILE, TILE)), (x, y))
        pen.rectangle((x, y, x + TILE - 1, y + TILE - 1), outline=FAINT)
        room = TILE if tile.is_right is None else TILE - SIZE - 4
        text_font = font(12)
        pen.text((x, y + TILE + 3), cut(plain(tile.label), text_font, room), INK, text_font)
        if tile.is_right is not None:
            draw_sign(pen, x + TILE - SIZE, y + TILE + 3, tile.is_right)
    return sheet
