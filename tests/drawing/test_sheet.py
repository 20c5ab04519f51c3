"""Does a sheet of pictures show each of them in its place, with its name and its sign?"""

import numpy as np

from lit_attn.drawing.sheet import COLUMNS, GAP, LABEL, TILE, Tile, draw_tiles
from lit_attn.drawing.verdict import RIGHT, WRONG


def tile(level: int, label: str = "red sofa", is_right: bool | None = None) -> Tile:
    return Tile(np.full((5, 7, 3), level, np.uint8), label, is_right)


def place(number: int) -> tuple[int, int]:
    row, column = divmod(number, COLUMNS)
    return GAP + column * (TILE + GAP), GAP + row * (TILE + LABEL + GAP)


def test_pictures_stand_row_by_row():
    sheet = np.asarray(draw_tiles([tile(10 * n) for n in range(11)]))
    assert sheet.shape == (GAP + 2 * (TILE + LABEL + GAP), GAP + COLUMNS * (TILE + GAP), 3)
    for number in range(11):
        x, y = place(number)
        assert (sheet[y + TILE // 2, x + TILE // 2] == 10 * number).all()
    few = draw_tiles([tile(3), tile(4)])
    assert few.size == (GAP + 2 * (TILE + GAP), GAP + TILE + LABEL + GAP)


def test_signs_tell_right_from_wrong_and_from_unknown():
    sheet = np.asarray(draw_tiles([tile(200, "", True), tile(200, "", False), tile(200, "")]))
    for number, color in ((0, RIGHT), (1, WRONG)):
        x, y = place(number)
        label = sheet[y + TILE : y + TILE + LABEL, x : x + TILE]
        assert (label == color).all(-1).any()
        assert not (label == (WRONG if color == RIGHT else RIGHT)).all(-1).any()
    x, y = place(2)
    assert (sheet[y + TILE + 1 : y + TILE + LABEL, x : x + TILE] == 255).all()


def test_long_names_stay_in_their_place():
    sheet = np.asarray(draw_tiles([tile(200, "word " * 40), tile(200, "")]))
    x, y = place(0)
    assert (sheet[y + TILE : y + TILE + LABEL, x + TILE : x + TILE + GAP] == 255).all()
    assert (sheet[y + TILE + 1 : y + TILE + LABEL, x : x + TILE] != 255).any()
