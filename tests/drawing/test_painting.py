"""Does a sheet show every stage and the right words on one honest scale, whatever the caption?"""

import numpy as np
import pytest
from PIL import Image

from lit_attn.drawing.canvas import ACCENT, PAPER
from lit_attn.drawing.painting import (
    CELL,
    EVEN_SHARES,
    HOTTEST,
    Painting,
    draw_painting,
    enlarged,
    heat,
    strongest_words,
)

GREY = Image.new("RGB", (CELL, CELL), (200, 200, 200))


def painted(count: int = 7, sides: tuple[int, ...] = (4, 8, 16), real: int | None = 16, **more: object) -> Painting:
    rng = np.random.default_rng(count)

    def picture(side: int) -> np.ndarray:
        return rng.integers(0, 256, (side, side, 3), np.uint8)

    def maps(side: int) -> np.ndarray:
        return rng.dirichlet(np.ones(count), side * side).T.reshape(count, side, side)

    fixed = {
        "words": tuple(f"word{number}" for number in range(count)),
        "stages": tuple(picture(side) for side in sides),
        "maps": tuple(maps(side) for side in sides[:-1]),
        "real": None if real is None else picture(real),
    }
    return Painting(**(fixed | more))


def test_every_picture_is_shown_with_its_size(drawn):
    painting = painted()
    sheet = draw_painting(painting)
    assert drawn[0] == "word0 word1 word2 word3 word4 word5 word6"
    assert drawn[1:9] == [
        "real picture", "  16 × 16", "stage 1", "  4 × 4", "stage 2", "  8 × 8", "stage 3", "  16 × 16",
    ]  # fmt: skip
    shown = np.asarray(sheet)
    for place, pixels in enumerate((painting.real, *painting.stages)):
        x, panel = 20 + place * (CELL + 16), np.asarray(enlarged(pixels))
        rows = [y for y in range(sheet.height - CELL) if (shown[y, x : x + CELL] == panel[0]).all()]
        assert any((shown[y : y + CELL, x : x + CELL] == panel).all() for y in rows), f"picture {place} is on the sheet"


def test_without_a_real_picture_the_stages_come_first(drawn):
    sheet = draw_painting(painted(real=None))
    assert drawn[1] == "stage 1"
    assert "real picture" not in drawn
    assert sheet.size == draw_painting(painted()).size


def test_five_words_with_the_largest_mean_weight_stand_below_with_their_numbers(drawn):
    weights = np.zeros((7, 2, 2))
    weights[[3, 5, 0, 6, 1, 2], ...] = np.array([0.4, 0.2, 0.15, 0.12, 0.1, 0.03])[:, None, None]
    weights[3, 0, 1], weights[4, 0, 1] = 0.0, 0.4  # a single position does not lift word 4 over the others
    assert strongest_words(weights) == [3, 5, 0, 6, 1]
    draw_painting(painted(sides=(2, 4), maps=(weights,)))
    row = drawn[drawn.index("  asks the words at 2 × 2 positions; words with most attention:") + 1 :]
    assert row[:10:2] == ["word3", "word5", "word0", "word6", "word1"]
    assert row[1] == "word 4   share 0.30   largest 0.40"
    assert row[3] == "word 6   share 0.20   largest 0.20"


def test_words_of_equal_weight_stand_in_reading_order():
    assert strongest_words(np.full((7, 3, 3), 1 / 7)) == [0, 1, 2, 3, 4]
    assert strongest_words(np.full((2, 3, 3), 1 / 2)) == [0, 1]


def test_heat_is_linear_in_the_weight_and_rows_are_rows():
    weights = np.zeros((2, 4))
    weights[0, 3], weights[1, 0] = 0.8, 0.2
    panel = heat(GREY, weights, 0.8)
    assert panel.getpixel((30, 60)) == (200, 200, 200)
    full = [round(200 + HOTTEST * (a - 200)) for a in ACCENT]
    np.testing.assert_allclose(panel.getpixel((CELL - 5, 60)), full, atol=2)
    quarter = [200 + HOTTEST / 4 * (a - 200) for a in ACCENT]
    np.testing.assert_allclose(panel.getpixel((5, CELL - 5)), quarter, atol=2)
    assert heat(GREY, np.full((2, 2), np.nan), 1.0).tobytes() == GREY.tobytes()


def test_an_even_spread_looks_pale_and_the_scale_is_written(drawn):
    even = painted(10, (2, 4), maps=(np.full((10, 2, 2), 0.1),))
    assert even.top == pytest.approx(EVEN_SHARES / 10)
    draw_painting(even)
    assert drawn[-3:] == ["weight of a word at a position", "0", "0.3"]
    strong = np.full((10, 2, 2), 0.01)
    strong[2, 1, 1] = 0.91
    assert painted(10, (2, 4), maps=(strong,)).top == pytest.approx(0.91)
    assert painted(1, (2, 4), maps=(np.ones((1, 2, 2)),)).top == 1.0


@pytest.mark.parametrize("words", [0, 1, 5, 60])
@pytest.mark.parametrize("sides", [(8, 16), (2, 4, 8, 16, 32), (128, 256, 512)])
def test_any_caption_and_any_stages(words, sides, drawn):
    maps = tuple(np.zeros((words, 4, 4)) for _ in sides[1:])
    sheet = draw_painting(painted(max(words, 1), sides, words=tuple("w" * words), maps=maps))
    assert sheet.width == 1384
    assert sum(text.startswith("  asks") for text in drawn) == len(sides) - 1
    edges = np.asarray(sheet)
    for edge in (edges[:5], edges[-5:], edges[:, :5], edges[:, -5:]):
        assert (edge == PAPER).all(), "nothing runs over the edge"


def test_strange_words_are_drawn_as_they_are(drawn):
    draw_painting(painted(3, words=("$x_1$", "größer\n", "w" * 90)))
    assert "$x_1$" in drawn
    assert "größer " in drawn
    assert any(text.endswith("…") for text in drawn)


def test_the_same_painting_gives_the_same_sheet():
    assert draw_painting(painted()).tobytes() == draw_painting(painted()).tobytes()
    assert draw_painting(painted()).tobytes() != draw_painting(painted(8)).tobytes()


def test_small_pictures_show_their_pixels():
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[0, 1] = 255
    large = np.asarray(enlarged(pixels))
    assert set(np.unique(large)) == {0, 255}
    assert large[: CELL // 2, CELL // 2 :].min() == 255
    assert enlarged(np.zeros((512, 512, 3), np.uint8)).size == (CELL, CELL)


def test_stages_and_maps_must_fit():
    with pytest.raises(ValueError, match="3 stages have 2 maps, got 1"):
        painted(maps=(np.zeros((7, 2, 2)),))
    with pytest.raises(ValueError, match="stage 2 are of 3 words, not 7"):
        painted(maps=(np.zeros((3, 2, 2)), np.zeros((7, 2, 2))))
