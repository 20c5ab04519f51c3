"""Does the sheet show every word, and light up what the word looked at, and nothing else?"""

import base64
import csv

import numpy as np
import pytest
from PIL import Image

from lit_attn.drawing import caption
from lit_attn.drawing.canvas import ACCENT, BLANK
from lit_attn.drawing.caption import draw_caption

BOXES = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.1, 0.6, 0.3, 0.9], [0.6, 0.1, 0.9, 0.4]])
LABELS = ("cup", "table", "cat", "lamp")


def rows(*weights: list[float]) -> np.ndarray:
    return np.array(weights, np.float64).reshape(-1, 4)


@pytest.fixture(scope="module")
def purple() -> Image.Image:
    return Image.new("RGB", (400, 300), (150, 30, 160))


def test_every_word_is_there_in_reading_order_with_the_strongest_box(drawn, purple):
    attention = rows([0.1, 0.2, 0.6, 0.1], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25])
    sheet = draw_caption(purple, (400, 300), ["a", "small", "cat"], BOXES, LABELS, attention)
    assert drawn == ["a small cat", "cat 0.60", "a", "cup 0.70", "small", "cup 0.25", "cat"]
    assert sheet.mode == "RGB"
    assert sheet.width == 1280


def panels(monkeypatch, *arguments) -> list[Image.Image]:
    """What is drawn for each word."""
    made: list[Image.Image] = []
    look = caption._look

    def keep(*inputs) -> Image.Image:
        made.append(look(*inputs))
        return made[-1]

    monkeypatch.setattr(caption, "_look", keep)
    draw_caption(*arguments)
    return made


def share(panel: Image.Image, x: float, y: float) -> tuple[int, ...]:
    return panel.getpixel((round(x * (panel.width - 1)), round(y * (panel.height - 1))))


def test_a_box_is_as_bright_as_the_root_of_its_weight(monkeypatch, purple):
    weights = [0.64, 0.25, 0.08, 0.03]
    (panel,) = panels(monkeypatch, purple, (400, 300), ["x"], BOXES, LABELS, rows(weights))
    pale, full = np.array(share(panel, 0.05, 0.55), float), np.array([150, 30, 160], float)
    assert np.ptp(pale) < 3, "what nobody looked at is grey"
    for (x, y), weight in (((0.4, 0.4), 0.64), ((0.9, 0.9), 0.25), ((0.2, 0.7), 0.08)):
        expected = pale + np.sqrt(weight) * (full - pale)
        np.testing.assert_allclose(share(panel, x, y), expected, atol=3)
    np.testing.assert_allclose(share(panel, 0.8, 0.3), pale, atol=3)  # the fourth box: only three are shown


def test_without_a_picture_boxes_are_filled_on_a_blank_canvas(monkeypatch):
    (panel,) = panels(monkeypatch, None, (4, 3), ["x"], BOXES, LABELS, rows([0.0, 1.0, 0.0, 0.0]))
    assert panel.width / panel.height == pytest.approx(4 / 3, abs=0.02)
    assert share(panel, 0.9, 0.9) == ACCENT
    assert share(panel, 0.25, 0.25) == BLANK


def test_words_that_look_like_markup_or_are_not_english_are_drawn_as_they_are(drawn, purple):
    words = ["$x^2$", "\\frac{1}{2}", "<b>bold</b>", "&amp;", "%s{0}", "Größe", "кошка", "猫", "🐈", "a\nb\t\x00c", ""]
    attention = np.full((len(words), 4), 0.25)
    draw_caption(purple, (400, 300), words, BOXES, ("$l$", "<i>", "\n", ""), attention)
    shown = [text for text in drawn[1:] if not text.endswith("0.25")]
    assert shown == [*words[:9], "a b  c", ""]
    assert drawn.count("$l$ 0.25") == len(words)


@pytest.mark.parametrize("count", [0, 1, 12, 13, 60, 150])
def test_any_number_of_words(count, drawn, purple):
    words = [f"w{number}" for number in range(count)]
    attention = np.random.default_rng(0).dirichlet(np.ones(4), count).reshape(count, 4)
    sheet = draw_caption(purple, (400, 300), words, BOXES, LABELS, attention)
    assert drawn[::-1][: 2 * count : 2] == words[::-1], "after the title, each word follows its label"
    assert count or drawn == ["(no words)"]
    assert sheet.width == 1280
    assert sheet.height < 3000


@pytest.mark.parametrize("size", [(1000, 10), (10, 1000), (1, 1), (640.0, 480.0)])
def test_any_shape_of_picture(size):
    sheet = draw_caption(None, size, ["a", "b"], BOXES, LABELS, np.full((2, 4), 0.25))
    assert sheet.width == 1280
    assert sheet.height < 1400


def test_no_boxes_one_box_and_boxes_that_leave_the_picture(purple):
    empty = draw_caption(purple, (4, 3), ["a", "b"], np.zeros((0, 4)), (), np.zeros((2, 0)))
    one = draw_caption(purple, (4, 3), ["a", "b"], BOXES[:1], LABELS[:1], np.ones((2, 1)))
    assert empty.size == one.size
    assert empty.tobytes() != one.tobytes()
    wild = np.array([[-1, -1, 2, 2], [0.9, 0.9, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5], [np.nan, 0, 1, 1]])
    draw_caption(purple, (4, 3), ["a"], wild, LABELS, rows([0.4, 0.3, 0.2, 0.1]))


def test_long_words_and_labels_are_cut_to_their_place(drawn, purple):
    draw_caption(purple, (4, 3), ["x" * 300], BOXES, ["y" * 300] * 4, rows([1, 0, 0, 0]))
    word, label = drawn[-1], drawn[-2]
    assert word.endswith("…")
    assert label.endswith("…")
    assert max(len(word), len(label)) < 60


def test_sizes_that_do_not_match_are_named(purple):
    with pytest.raises(ValueError, match="2 words by 4 regions, but there are 3 words, 4 boxes and 4 labels"):
        draw_caption(purple, (4, 3), ["a", "b", "c"], BOXES, LABELS, np.full((2, 4), 0.25))
    with pytest.raises(ValueError, match="4 boxes and 3 labels"):
        draw_caption(purple, (4, 3), ["a"], BOXES, LABELS[:3], np.full((1, 4), 0.25))


def test_a_real_picture_with_bottom_up_boxes(shared_data):
    csv.field_size_limit(1 << 30)
    with shared_data("bottom_up/train2014_obj36.tsv").open() as file:
        row = next(row for row in csv.reader(file, delimiter="\t") if row[0].endswith("84002"))
    height, width = int(row[1]), int(row[2])
    boxes = np.frombuffer(base64.b64decode(row[8]), np.float32).reshape(-1, 4) / [width, height, width, height]
    with Image.open(shared_data("bottom_up/images") / f"{row[0]}.jpg") as picture:
        attention = np.random.default_rng(0).dirichlet(np.full(36, 0.1), 5)
        labels = [f"object {number}" for number in range(36)]
        sheet = draw_caption(picture, picture.size, ["a", "bed", "with", "white", "pillows"], boxes, labels, attention)
    assert sheet.width == 1280
