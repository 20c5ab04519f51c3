"""Are printed words read with their boxes, once per picture, and does nothing get mixed, lost or left half done?"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw, ImageFont

from lit_attn.errors import UserError
from lit_attn.extract.ocr import Reader, Token, claim, extract, padded, split_quad, tokens_of_line, upright
from lit_attn.extract.pictures import find_pictures

SETTINGS = {"reader": "some", "threshold": 0.5}
LINE = np.array([[10, 20], [120, 20], [120, 40], [10, 40]], np.float64)


class Counting:
    """Stands for a reader: the colour of the first pixel, as a word in every picture that is not black."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, picture: Image.Image) -> list[Token]:
        self.seen += 1
        red = picture.getpixel((0, 0))[0]
        return [Token(f"é{red}", (0.0, 0.0, 1.5, 2.0), 0.5)] if red else []


def paint(path: Path, red: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (red, 0, 0)).save(path)


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    for number, name in enumerate(("black", "a", "deep/a")):
        paint(folder / f"{name}.png", 10 * number)
    return folder


def run(images: Path, out: Path, read=None) -> dict[str, tuple[str, str]]:
    claim(out, SETTINGS)
    outcomes = extract(find_pictures([images]), read or Counting(), out)
    return {str(o.source.path.relative_to(images)): (o.result.value, o.reason) for o in outcomes}


def entries(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "ocr.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_line_per_picture(images, tmp_path):
    out = tmp_path / "out"
    assert {result for result, _ in run(images, out).values()} == {"made"}
    a, black, deep = entries(out)
    assert [entry["name"] for entry in (a, black, deep)] == ["a", "black", "deep/a"]
    assert a["tokens"] == [{"text": "é10", "box": [0, 0, 1.5, 2], "confidence": 0.5}]
    assert (a["width"], a["height"], len(a["sha256"])) == (8, 6, 64)
    assert black["tokens"] == []
    assert deep["tokens"][0]["text"] == "é20"
    assert "é" in (out / "ocr.jsonl").read_text(encoding="utf-8")
    again = Counting()
    assert {result for result, _ in run(images, out, again).values()} == {"kept"}
    assert again.seen == 0
    assert len(entries(out)) == 3


def test_a_line_that_a_kill_cut_off_is_made_again(images, tmp_path):
    out, again = tmp_path / "out", Counting()
    run(images, out)
    whole = (out / "ocr.jsonl").read_bytes()
    for cut in (1, 30, len(whole.splitlines()[2])):
        (out / "ocr.jsonl").write_bytes(whole[:-cut])
        assert [name for name, (result, _) in run(images, out, again).items() if result == "made"] == ["deep/a.png"]
        assert (out / "ocr.jsonl").read_bytes() == whole
    assert again.seen == 3
    (out / "ocr.jsonl").write_bytes(b"[1]\n" + whole)
    with pytest.raises(UserError, match=r"ocr\.jsonl, line 1 is damaged. Delete that line"):
        run(images, out)


def test_other_pictures_and_other_settings_are_refused(images, tmp_path):
    out = tmp_path / "out"
    run(images, out)
    assert yaml.safe_load((out / "ocr.yaml").read_text()) == SETTINGS
    paint(images / "a.png", 99)
    assert run(images, out)["a.png"] == ("skipped", "its tokens were read from another picture, choose another --out")
    with pytest.raises(UserError, match=r"out holds tokens that were made otherwise: threshold was 0\.5, is 0\.6"):
        claim(out, SETTINGS | {"threshold": 0.6})
    (out / "ocr.yaml").unlink()
    with pytest.raises(UserError, match=r"holds jsonl files, but no ocr\.yaml"):
        claim(out, SETTINGS)


def test_broken_pictures_are_skipped(images, tmp_path):
    (images / "b.png").write_bytes(b"?")
    paint(images / "a.bmp", 99)
    done = run(images, tmp_path / "out")
    assert done["b.png"] == ("skipped", "it is not a picture, or its header is damaged")
    assert done["a.png"] == ("skipped", "a.bmp has the same name, rename one of them")
    assert [entry["name"] for entry in entries(tmp_path / "out")] == ["a", "black", "deep/a"]


def test_words_of_the_reader_are_taken_where_they_are_those_of_the_line():
    box = [[20, 21], [50, 20], [50, 38], [20, 39]]
    words = (("Is", 0.9, box), ("open", 0.8, (np.array(box) + 40).tolist()))
    assert tokens_of_line("Is open", 0.7, LINE, words, (200, 100)) == [
        Token("Is", (20, 20, 50, 39), 0.9),
        Token("open", (60, 60, 90, 79), 0.8),
    ]
    share = 110 / 7
    in_proportion = [
        Token("Is", (10, 20, round(10 + 2 * share, 2), 40), 0.7),
        Token("open", (round(10 + 3 * share, 2), 20, 120, 40), 0.7),
    ]
    for others in ((("Isopen", 0.9, box),), (), (("Is", 0.9, box), ("open", 0.8, None))):
        assert tokens_of_line("Is open", 0.7, LINE, others, (200, 100)) == in_proportion
    assert tokens_of_line("  ", 0.7, LINE, (), (200, 100)) == []


def test_parts_of_a_slanted_line_follow_it():
    quad = np.array([[0, 0], [40, 20], [30, 40], [-10, 20]], np.float64)
    first, second = split_quad(quad, "ab a")
    np.testing.assert_allclose(first, [[0, 0], [20, 10], [10, 30], [-10, 20]])
    np.testing.assert_allclose(second, [[30, 15], [40, 20], [30, 40], [20, 35]])


@pytest.mark.parametrize(
    ("corners", "box"),
    [
        ([[-5, 3], [30, -2], [60, 8], [1, 9]], (0, 0, 50, 9)),
        ([[7, 7], [7, 7], [7, 7], [7, 7]], (7, 7, 8, 8)),
        ([[70, 50], [80, 50], [80, 60], [70, 60]], (49, 39, 50, 40)),
    ],
)
def test_boxes_are_upright_inside_the_picture_and_have_an_area(corners, box):
    assert upright(np.array(corners, np.float64), (50, 40)) == box


@pytest.mark.parametrize(
    ("size", "wider"),
    [((9, 2), (9, 3)), ((2, 901), (226, 901)), ((8, 2), (8, 2)), ((1, 1), (1, 1)), ((7, 5), (7, 5))],
)
def test_narrow_pictures_get_white_beside_them(size, wider):
    picture = padded(Image.new("RGB", size, (5, 6, 7)))
    assert picture.size == wider
    assert picture.getpixel((size[0] - 1, size[1] - 1)) == (5, 6, 7)
    if wider != size:
        assert picture.getpixel((wider[0] - 1, wider[1] - 1)) == (255, 255, 255)


def test_without_rapidocr_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(UserError, match=r'Reading pictures needs RapidOCR \(.*pip install "lit_attn\[ocr\]"'):
        Reader()
    with pytest.raises(UserError, match="a confidence between 0 and 1, got 2"):
        Reader(threshold=2)


@pytest.fixture(scope="module")
def reader() -> Reader:
    for module in ("rapidocr", "onnxruntime"):
        pytest.importorskip(module, reason=f'{module} is not installed: pip install "lit_attn[ocr]" to run this')
    return Reader()


def printed(lines: dict[str, tuple[int, int]]) -> tuple[Image.Image, dict[str, tuple[float, ...]]]:
    """Text at places, and the box of each word."""
    picture = Image.new("RGB", (480, 270), "white")
    draw, font, boxes = ImageDraw.Draw(picture), ImageFont.load_default(size=32), {}
    for text, (x, y) in lines.items():
        draw.text((x, y), text, fill=(120, 20, 20), font=font)
        for word in text.split():
            left = x + draw.textlength(text[: text.index(word)], font=font)
            boxes[word] = draw.textbbox((left, y), word, font=font)
    return picture, boxes


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Area of the intersection over that of the union."""
    width, height = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    both = max(width, 0) * max(height, 0)
    return both / (sum(area) - both)


def test_printed_words_are_read_where_they_are(reader):
    picture, boxes = printed({"SALE today": (30, 30), "Coffee House": (200, 120), "EXIT": (60, 200)})
    tokens = reader(picture)
    assert [token.text for token in tokens] == list(boxes)
    for token in tokens:
        assert token.confidence > 0.9
        assert overlap(token.box, boxes[token.text]) > 0.5


def test_turned_words_are_read(reader):
    picture, boxes = printed({"SALE today": (30, 30), "Coffee House": (200, 120)})
    tokens = reader(picture.rotate(10, expand=True, fillcolor="white"))
    assert sorted(token.text for token in tokens) == sorted(boxes)


@pytest.mark.parametrize("size", [(1, 1), (900, 2)])
def test_pictures_without_words_have_none(reader, size):
    assert reader(Image.new("RGB", size, "white")) == []


def test_a_reader_that_fails_names_why(reader, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no memory\nmore")

    monkeypatch.setattr(reader, "_engine", fail)
    with pytest.raises(UserError, match="RapidOCR fails on it: no memory$"):
        reader(Image.new("RGB", (5, 5)))
