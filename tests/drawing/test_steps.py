"""Does a sheet of steps show every step on one honest scale, whatever the question and the picture?"""

import numpy as np
import pytest
from PIL import Image, ImageChops

from lit_attn.drawing.canvas import BLANK, PAPER, TRUTH
from lit_attn.drawing.steps import HOTTEST, StepsAnswer, draw_steps, heat_map
from lit_attn.drawing.verdict import RIGHT, WRONG

GREY = Image.new("RGB", (140, 140), (200, 200, 200))


def answered(steps: int = 3, side: int = 7, words: int = 5, **more: object) -> StepsAnswer:
    rng = np.random.default_rng(steps)
    fixed = {
        "words": tuple(f"word{number}" for number in range(words)),
        "read": rng.dirichlet(np.ones(side * side), steps).reshape(steps, side, side),
        "control": rng.dirichlet(np.ones(words), steps),
        "answer": "red",
    }
    return StepsAnswer(**(fixed | more))


def has(sheet: Image.Image, color: tuple[int, int, int]) -> bool:
    return bool((np.asarray(sheet) == color).all(-1).any())


def redness(panel: Image.Image, row: int, column: int, side: int) -> int:
    """How much less blue than red the middle of a cell is: nothing where there is no weight on grey."""
    red, _, blue = panel.getpixel((round((column + 0.5) * 140 / side), round((row + 0.5) * 140 / side)))
    return red - blue


@pytest.mark.parametrize("side", [2, 7, 14])
def test_hotter_cells_have_more_weight_by_the_root(side):
    weights = np.zeros((side, side))
    weights[0, 1], weights[1, 0], weights[1, 1] = 0.8, 0.2, 0.05
    panel = heat_map(GREY, weights, 0.8, None)
    heat = np.array([[redness(panel, row, column, side) for column in range(side)] for row in range(side)])
    assert np.unravel_index(heat.argmax(), heat.shape) == (0, 1)
    full = heat[0, 1]
    np.testing.assert_allclose([heat[1, 0], heat[1, 1]], [full / 2, full / 4], atol=3)
    assert heat[0, 0] == 0
    assert full == pytest.approx(HOTTEST * (214 - 8), abs=2)


def test_grids_need_not_be_square_and_rows_are_rows():
    weights = np.zeros((2, 5))
    weights[1, 4] = 1.0
    panel = heat_map(GREY, weights, 1.0, None)
    red, _, blue = panel.getpixel((126, 105))
    assert red > blue + 100
    assert panel.getpixel((70, 35)) == (200, 200, 200)


def test_all_steps_have_one_scale():
    read = np.zeros((2, 3, 3))
    read[0, 0, 0], read[1] = 1.0, 1 / 9
    asked = answered(2, 3, read=read)
    assert asked.top == 1.0
    sheets = [draw_steps(asked, None, top) for top in (None, 1.0, 2.0)]
    assert sheets[0].tobytes() == sheets[1].tobytes()
    assert sheets[0].tobytes() != sheets[2].tobytes()


def test_an_even_spread_looks_pale_and_its_scale_is_written(drawn):
    asked = answered(1, 14, read=np.full((1, 14, 14), 1 / 196))
    assert asked.top == pytest.approx(10 / 196)
    panel = heat_map(GREY, asked.read[0], asked.top, None)
    assert len(set(panel.getdata())) == 1
    assert redness(panel, 0, 0, 14) < 0.4 * HOTTEST * 206
    draw_steps(asked, None)
    assert drawn[drawn.index("weight of a cell") + 1 :][:3] == ["0", "0.013", "0.051"]


def test_causes_are_outlined_around_their_union():
    causes = np.zeros((7, 7), bool)
    causes[2, 2:4] = True
    panel = heat_map(GREY, np.zeros((7, 7)), 1.0, causes)
    outline = (np.asarray(panel) == TRUTH).all(-1)
    rows, columns = outline.any(1).nonzero()[0], outline.any(0).nonzero()[0]
    assert (rows.min(), rows.max()) == (pytest.approx(40, abs=2), pytest.approx(60, abs=2))
    assert (columns.min(), columns.max()) == (pytest.approx(40, abs=2), pytest.approx(80, abs=2))
    assert not outline[50, 55:65].any(), "no line between two causing cells"
    assert has(draw_steps(answered(causes=causes), None), TRUTH)
    assert not has(draw_steps(answered(causes=np.zeros((7, 7), bool)), None), TRUTH)
    assert not has(draw_steps(answered(), None), TRUTH)


def test_causes_at_the_edge_of_the_picture_are_closed():
    panel = heat_map(GREY, np.zeros((7, 7)), 1.0, np.ones((7, 7), bool))
    outline = (np.asarray(panel) == TRUTH).all(-1)
    assert outline[:3].any()
    assert outline[-3:].any()
    assert outline[:, :3].any()
    assert outline[:, -3:].any()


def test_strongest_words_stand_first_with_their_weights(drawn):
    control = np.array([[0.1, 0.6, 0.25, 0.05], [0.0, 0.0, 0.0, 1.0]])
    draw_steps(answered(2, words=4, control=control), None)
    first = drawn[drawn.index("step 1") + 1 :]
    assert first[:6] == ["word1", "0.60", "word2", "0.25", "word0", "0.10"]
    assert first[6:10] == ["word0", "word1", "word2", "word3"], "then the whole question"
    assert drawn[drawn.index("step 2") + 1 :][:2] == ["word3", "1.00"]


def test_answer_against_truth(drawn):
    right, wrong, open_end = (draw_steps(answered(truth=truth), None) for truth in ("red", "blue", None))
    assert (has(right, RIGHT), has(right, WRONG)) == (True, False)
    assert (has(wrong, RIGHT), has(wrong, WRONG)) == (False, True)
    assert (has(open_end, RIGHT), has(open_end, WRONG)) == (False, False)
    assert "truth  blue" in drawn


@pytest.mark.parametrize("steps", [1, 4, 16])
@pytest.mark.parametrize("words", [1, 13, 200])
def test_any_number_of_steps_and_words(steps, words, drawn):
    sheet = draw_steps(answered(steps, words=words), None)
    assert sheet.width <= 1280
    assert sheet.height < 6000
    assert [text for text in drawn if text.startswith("step ")] == [f"step {step + 1}" for step in range(steps)]
    assert drawn.count(f"word{words - 1}") >= steps
    border = ImageChops.difference(sheet, Image.new("RGB", sheet.size, PAPER)).getbbox()
    assert border is not None
    assert border[0] >= 18
    assert border[1] >= 10
    assert border[2] <= sheet.width - 10
    assert border[3] <= sheet.height - 10


def test_words_that_look_like_markup_or_are_not_english_are_drawn_as_they_are(drawn):
    words = ("<script>", "$x^2$", "Größe", "кошка", "猫", "🐈", "a\nb", "", "w" * 300)
    control = np.full((1, len(words)), 1 / len(words))
    draw_steps(StepsAnswer(words, np.full((1, 2, 2), 0.25), control, "</script>", "x"), None)
    assert set(words[:6]) <= set(drawn)
    assert "a b" in drawn
    assert "</script>" in drawn
    assert any(text.startswith("www") and text.endswith("…") for text in drawn)


def test_no_picture_and_any_shape_of_picture():
    assert has(draw_steps(answered(), None), BLANK)
    for size in ((1000, 10), (10, 1000), (1, 1)):
        assert draw_steps(answered(), Image.new("RGB", size)).height < 2000
    draw_steps(answered(), Image.new("L", (30, 20)))


def test_weights_that_are_not_numbers_do_no_harm():
    asked = answered(2, read=np.full((2, 7, 7), np.nan), control=np.full((2, 5), np.nan))
    draw_steps(asked, None)


def test_sizes_that_do_not_match_are_named():
    with pytest.raises(ValueError, match=r"control is \(3, 4\); expected one row for each of 3 steps.*5 words"):
        answered(control=np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"causes are \(2, 2\) cells, but the steps read \(7, 7\)"):
        answered(causes=np.ones((2, 2), bool))
