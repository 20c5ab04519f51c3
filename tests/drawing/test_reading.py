"""Does a sheet of reading show where attention went: thicker lines, shaded words, shares that add up?"""

import numpy as np
import pytest
from PIL import Image

from lit_attn.drawing import reading
from lit_attn.drawing.canvas import ACCENT, PAPER
from lit_attn.drawing.reading import THICKEST, THINNEST, ReadAnswer, draw_reading, thickness
from lit_attn.drawing.verdict import RIGHT, WRONG

BOXES = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
OCR_BOXES = np.array([[0.1, 0.4, 0.3, 0.6], [0.6, 0.4, 0.8, 0.6]])
WORDS = ("<start>", "which", "word", "<end>")


def answered(row: dict[str, list[float]] | None = None, **more: object) -> ReadAnswer:
    """Two layers, three heads and two steps; the given weights are those of the last layer's first step, all heads alike."""
    fixed: dict[str, object] = {"words": WORDS, "boxes": BOXES, "ocr_words": ("stop", "shop"), "ocr_boxes": OCR_BOXES}
    given = {"question": [0.2, 0.0, 0.1, 0.004], "objects": [0.1, 0.096], "ocr": [0.4, 0.05], "decoded": [0.05, 0.0]}
    for name, weights in (given | (row or {})).items():
        fixed[name] = np.zeros((2, 3, 2, len(weights)))
        fixed[name][-1, :, 0] = weights
    return ReadAnswer(**(fixed | {"answer": "stop"} | more))


def picture_of(asked: ReadAnswer, monkeypatch, **options) -> Image.Image:
    """The picture part of the sheet."""
    kept = []
    original = reading._draw_picture

    def keep(*inputs):
        kept.append(original(*inputs))
        return kept[-1]

    monkeypatch.setattr(reading, "_draw_picture", keep)
    draw_reading(asked, Image.new("RGB", (400, 300), (90, 120, 150)), **options)
    return kept[0][0]


def line_width(picture: Image.Image, box: np.ndarray) -> int:
    """Pixels of colour on the way from the middle of a box to the right."""
    y = round((box[1] + box[3]) / 2 * picture.height)
    x = round((box[0] + box[2]) / 2 * picture.width)
    row = np.asarray(picture)[y, x : x + round(0.14 * picture.width)]
    return int((row == ACCENT).all(-1).sum())


def has(sheet: Image.Image, color: tuple[int, int, int]) -> bool:
    return bool((np.asarray(sheet) == color).all(-1).any())


def test_lines_are_as_thick_as_their_weight(monkeypatch):
    asked = answered({"ocr": [0.4, 0.1]})
    picture = picture_of(asked, monkeypatch)
    widths = [line_width(picture, box) for box in OCR_BOXES]
    assert widths == [THICKEST, THINNEST + round((THICKEST - THINNEST) / 4)]
    assert [thickness(weight, 0.4) for weight in (0.0, 0.4, 9.0)] == [THINNEST, THICKEST, THICKEST]


def test_tokens_that_nobody_looked_at_have_thin_lines(monkeypatch):
    picture = picture_of(answered({"ocr": [0.001, 0.0005]}), monkeypatch)
    assert [line_width(picture, box) for box in OCR_BOXES] == [THINNEST, THINNEST]


def test_equal_weights_have_equal_lines(monkeypatch):
    picture = picture_of(answered({"ocr": [0.3, 0.3]}), monkeypatch)
    assert [line_width(picture, box) for box in OCR_BOXES] == [THICKEST, THICKEST]


def test_two_sheets_can_share_a_scale(monkeypatch):
    picture = picture_of(answered(), monkeypatch, top=1.6)
    assert line_width(picture, OCR_BOXES[0]) == THINNEST + round((THICKEST - THINNEST) / 4)


def test_labels_words_and_shares_are_written(drawn):
    draw_reading(answered(), None)
    assert "stop 0.40" in drawn
    assert "shop 0.05" in drawn
    assert [text for text in drawn if text.startswith(".")] == [".20", ".10"], "only words above the threshold"
    assert drawn.index("stop 0.40") < drawn.index("shop 0.05"), "the strongest takes its place first"
    shares = [text for text in drawn if text.split(" ")[0] in ("question", "objects", "OCR")]
    assert shares == ["question 0.30", "objects 0.20", "OCR tokens 0.45"]
    assert "answer so far 0.05" in drawn
    assert any(
        "Layer 2 of 2, mean of 3 heads, step 1 of 2. Coloured: words and objects above 0.01. Thickest line: weight 0.4."
        in text
        for text in drawn
    )


def test_the_threshold_decides_what_is_marked(drawn):
    draw_reading(answered(), None, threshold=0.15)
    assert [text for text in drawn if text.startswith(".")] == [".20"]
    assert "stop 0.40" in drawn
    assert "shop" in drawn


def test_shares_fill_the_bar_in_proportion():
    sheet = np.asarray(draw_reading(answered(boxes=np.zeros((2, 4)), ocr_boxes=np.zeros((2, 4))), None))
    counts = [int((sheet == color).all(-1).sum(1).max()) for _, color in reading._PARTS]
    np.testing.assert_allclose(counts, [860 * share for share in (0.304, 0.196, 0.45, 0.05)], atol=2)


def test_layer_head_and_step_choose_the_weights():
    asked = answered()
    asked.ocr[0, 1, 1] = [0.0, 0.9]
    np.testing.assert_allclose(asked.row(layer=0, head=1, step=1).ocr, [0.0, 0.9])
    np.testing.assert_allclose(asked.row(layer=0, step=1).ocr, [0.0, 0.3])
    np.testing.assert_allclose(asked.row().ocr, [0.4, 0.05])
    np.testing.assert_allclose(asked.row(layer=0, head=1, step=7).ocr, [0.0, 0.9], err_msg="the last step there is")
    assert draw_reading(asked, None).tobytes() != draw_reading(asked, None, layer=0, head=1, step=1).tobytes()


def test_the_answer_against_those_of_people(drawn):
    people = ("stop", "Stop", "stop")
    right = draw_reading(answered(people=people, score=0.6), None)
    wrong = draw_reading(answered(people=people, score=0.0), None)
    unknown = draw_reading(answered(), None)
    assert (has(right, RIGHT), has(wrong, WRONG)) == (True, True)
    assert not has(unknown, RIGHT)
    assert not has(unknown, WRONG)
    assert "people: stop (2), Stop" in drawn
    assert "accuracy 0.60" in drawn


def test_labels_never_overlap_and_missing_ones_are_counted(drawn, monkeypatch):
    count = 60
    rng = np.random.default_rng(0)
    corners = rng.random((count, 2)) * [0.2, 0.1] + 0.4
    taken: list[tuple[int, int, int, int]] = []
    monkeypatch.setattr(reading.Label, "draw", lambda label, canvas, place: taken.append(place))
    boxes = np.concatenate([corners, corners + 0.01], 1)
    row = {"ocr": list(rng.dirichlet(np.ones(count)))}
    draw_reading(answered(row, ocr_words=("token",) * count, ocr_boxes=boxes), None)
    assert 5 < len(taken) < count
    for place, one in enumerate(taken):
        for other in taken[place + 1 :]:
            apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
            assert apart, (one, other)
    assert f"{count - len(taken)} of {count} tokens have no label" in " ".join(drawn)


def test_nothing_to_read_nothing_to_see_nothing_to_say(drawn):
    nothing = answered(
        {"ocr": [], "objects": []}, ocr_words=(), ocr_boxes=np.zeros((0, 4)), boxes=np.zeros((0, 4)), answer=""
    )
    for picture in (None, Image.new("RGB", (30, 900)), Image.new("L", (900, 30))):
        assert draw_reading(nothing, picture).width == 900
    assert "(nothing)" in drawn
    assert "OCR tokens 0.00" in drawn


def test_strange_texts_and_boxes(drawn):
    words = ("<script>", "кошка", "猫", "q" * 400, "a\nb")
    wild = np.array([[-1.0, -1.0, 2.0, 2.0], [np.nan, 0.0, 1.0, 1.0]])
    asked = answered(
        {"question": [0.2] * 5},
        words=words,
        boxes=wild,
        ocr_boxes=wild,
        ocr_words=("<b>&amp;", "l" * 500),
        answer="<i>",
    )
    draw_reading(asked, None)
    assert {"<script>", "кошка", "猫", "a b", "<b>&amp; 0.40", "<i>"} <= set(drawn)
    assert any(text.startswith("lll") and text.endswith("…") for text in drawn)


@pytest.mark.parametrize("count", [1, 400])
def test_questions_of_any_length(count, drawn):
    sheet = draw_reading(answered({"question": [0.3 / count] * count}, words=("how",) * count), None)
    assert drawn.count("how") == count
    assert sheet.height < 4000
    assert sheet.getpixel((2, sheet.height // 2)) == PAPER


def test_sizes_that_do_not_match_are_named():
    with pytest.raises(ValueError, match="4 words, 2 objects, 2 OCR tokens"):
        answered({"question": [0.1, 0.2]})
    with pytest.raises(ValueError, match="2 OCR tokens, but 1 boxes"):
        answered(ocr_boxes=OCR_BOXES[:1])
