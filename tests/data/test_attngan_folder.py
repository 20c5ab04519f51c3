"""Are CUB and COCO read as AttnGAN distributes them, by hand-made folders in that very layout?"""

import logging
import os
import pickle
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image

from lit_attn.data.attngan_folder import AttnGanFolder
from lit_attn.data.cropping import around, cropped, reduced
from lit_attn.errors import UserError

BIRDS = {
    "train": ["001.Gull/Gull_0001_1", "001.Gull/Gull_0002_2", "002.Wren/Wren_0003_3"],
    "test": ["003.Jay/Jay_0004_4", "003.Jay/Jay_0005_5"],
}
CLASSES = {"train": [1, 1, 2], "test": [3, 3]}
PHOTOS = {
    "train": ["COCO_train2014_000000000009", "COCO_train2014_000000000025"],
    "test": ["COCO_val2014_000000000042"],
}
LINES = (
    "This bird is black-and-white.",
    "",
    "A small BIRD with a café-brown crown!",
    "black wings \ufffd\ufffd, white",
)
SPLIT = (("this", "bird", "is", "black", "and", "white"), ("a", "small", "bird", "with", "a", "caf", "brown", "crown"),
         ("black", "wings", "white"))  # fmt: skip


def python2(value: object) -> bytes:
    """A protocol-2 pickle in which strings are bytes, as Python 2 writes them."""

    def opcodes(item: object) -> bytes:
        match item:
            case str():
                raw = item.encode("latin-1")
                return b"U" + bytes([len(raw)]) + raw
            case int():
                return pickle.dumps(item, 2)[2:-1]
            case list():
                return b"]" + b"".join(opcodes(one) + b"a" for one in item)
            case dict():
                return b"}" + b"".join(opcodes(k) + opcodes(v) + b"s" for k, v in item.items())
        raise AssertionError(item)

    return b"\x80\x02" + opcodes(value) + b"."


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def photograph(path: Path, size: tuple[int, int], mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(len(str(path.name))).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=95)


def captions_pickle(names: dict[str, list[str]], per_picture: int) -> bytes:
    words = ["<end>", "gr\xfcn", "bird", "red", "wings"]
    told = {split: [[1 + (i + j) % 4 for j in range(2 + i % 3)] for i in range(len(own) * per_picture)]
            for split, own in names.items()}  # fmt: skip
    return python2([told["train"], told["test"], dict(enumerate(words)), {word: i for i, word in enumerate(words)}])


@pytest.fixture
def birds(tmp_path) -> Path:
    root = tmp_path / "birds"
    sizes = [(50, 40), (40, 64), (30, 30), (61, 33), (35, 70)]
    names = [*BIRDS["train"], *BIRDS["test"]]
    for name, size in zip(names, sizes, strict=True):
        photograph(root / f"CUB_200_2011/images/{name}.jpg", size)
        write(root / f"text/{name}.txt", "\n".join(LINES))
    write(root / "CUB_200_2011/images.txt", "".join(f"{i} {name}.jpg\n" for i, name in enumerate(names, 1)))
    boxes = ["10.0 5.0 20.0 16.0", "3.0 30.0 20.0 20.0", "0.0 0.0 29.0 29.0", "20.0 9.0 12.0 20.0", "5.0 5.0 8.0 60.0"]
    write(root / "CUB_200_2011/bounding_boxes.txt", "".join(f"{i} {box}\n" for i, box in enumerate(boxes, 1)))
    for split, own in BIRDS.items():
        write(root / split / "filenames.pickle", python2(own))
        write(root / split / "class_info.pickle", python2(CLASSES[split]))
    write(root / "captions.pickle", captions_pickle(BIRDS, 3))
    return root


@pytest.fixture
def coco(tmp_path) -> Path:
    root = tmp_path / "coco"
    for split, own in PHOTOS.items():
        write(root / split / "filenames.pickle", python2(own))
        for name in own:
            photograph(root / "images" / name.split("_")[1] / f"{name}.jpg", (48, 60), "L")
            write(root / f"text/{name}.txt", "\n".join(LINES))
    return root


def folder(root: Path, **options) -> AttnGanFolder:
    settings = {"side": 16, "num_captions": 3, "num_workers": 0, "batch_size": 2, "eval_batch_size": 2}
    return AttnGanFolder(str(root), **(settings | options))


# What the files say.


def test_captions_and_words_are_those_of_the_pickle(birds):
    data = folder(birds)
    assert data.vocabulary.words == ("gr\xfcn", "bird", "red", "wings")
    assert len(data.vocabulary) == data.vocab_size == 5
    sayings = data.pictures("train").sayings(1)
    assert [saying.caption_id for saying in sayings] == [3, 4, 5]
    assert [saying.ids for saying in sayings] == [(4, 1), (1, 2, 3), (2, 3, 4, 1)]
    assert sayings[0].words == ("wings", "gr\xfcn")
    assert sayings[2].sample_id == "001.Gull/Gull_0002_2-2"


def test_birds_have_classes_and_other_pictures_their_own(birds, coco):
    batch = next(iter(folder(birds).val_dataloader()))
    assert batch.class_id.tolist() == [3, 3]
    assert batch.image_id.tolist() == [0, 1]
    assert batch.picture_name == tuple(BIRDS["test"])
    assert [folder(coco).pictures("train").class_id(i) for i in range(2)] == [0, 1]


def test_without_the_pickle_captions_are_read_from_the_texts(coco):
    data = folder(coco, num_captions=5)
    assert data.vocabulary.words == tuple(dict.fromkeys(word for line in SPLIT for word in line))
    assert [saying.words for saying in data.pictures("test").sayings(0)] == list(SPLIT)
    assert len(folder(coco, num_captions=2).pictures("test").sayings(0)) == 2
    pool = data.caption_pool("train")
    assert len(pool) == 6
    assert pool.class_id.tolist() == [0, 0, 0, 1, 1, 1]


def test_coco_pictures_may_lie_in_the_folders_of_their_release(coco):
    inside = next(iter(folder(coco).val_dataloader()))
    (coco / "images/val2014").rename(coco / "val2014")
    beside = next(iter(folder(coco).val_dataloader()))
    (coco / "val2014" / f"{PHOTOS['test'][0]}.jpg").rename(coco / "images" / f"{PHOTOS['test'][0]}.jpg")
    flat = next(iter(folder(coco).val_dataloader()))
    assert (inside.image == beside.image).all()
    assert (inside.image == flat.image).all()


def test_greyscale_becomes_colour(coco):
    batch = next(iter(folder(coco).val_dataloader()))
    assert batch.image.shape == (1, 3, 16, 16)
    assert (batch.image[:, 0] == batch.image[:, 1]).all()
    assert batch.image.std() > 0.05


def test_other_words_may_be_used_and_those_left_out_are_told(birds, tmp_path, caplog):
    words = tmp_path / "words.json"
    words.write_text('{"ix_to_word": {"1": "wings", "2": "red", "3": "bird", "4": "sky"}}')
    data = folder(birds, vocabulary=str(words))
    with caplog.at_level(logging.WARNING):
        sayings = data.pictures("train").sayings(2)
    assert [saying.words for saying in sayings] == [("red", "wings"), ("wings", "bird"), ("bird", "red", "wings")]
    assert sayings[2].ids == (3, 2, 1)
    assert "does not have 1 words of the train captions, such as 'gr\xfcn'" in caplog.text
    words.write_text('{"ix_to_word": {"1": "sky"}}')
    with pytest.raises(UserError, match="The caption 001.Gull/Gull_0001_1-0 has no word that the vocabulary knows"):
        folder(birds, vocabulary=str(words)).pictures("train").sayings(0)


def test_own_sentences_need_words_but_no_folder(tmp_path):
    words = tmp_path / "words.json"
    words.write_text('{"ix_to_word": {"1": "wings", "2": "red"}}')
    data = folder(tmp_path / "gone", vocabulary=str(words), sentences="Red wings!")
    (batch,) = data.predict_dataloader()
    assert batch.tokens.tolist() == [[2, 1]]
    with pytest.raises(UserError, match="data.root '.*gone' is not a folder"):
        data.val_dataloader()


# Which part of a picture is seen.


def slow_view(picture: Image.Image, box: tuple[int, int, int, int] | None, side: int) -> np.ndarray:
    """The middle crop, written down step by step."""
    if box is not None:
        x, y, width, height = box
        half = int(0.75 * (width if width > height else height))
        across = [
            column for column in range(x + width // 2 - half, x + width // 2 + half) if 0 <= column < picture.width
        ]
        down = [row for row in range(y + height // 2 - half, y + height // 2 + half) if 0 <= row < picture.height]
        picture = Image.fromarray(np.asarray(picture)[down][:, across])
    short = int(side * 76 / 64)
    scale = short / min(picture.size)
    picture = picture.resize(tuple(int(edge * scale + 1e-9) for edge in picture.size), Image.Resampling.BILINEAR)
    left, top = round((picture.width - side) / 2), round((picture.height - side) / 2)
    return np.asarray(picture)[top : top + side, left : left + side]


def test_evaluation_shows_the_middle_of_the_square_around_the_bird(birds):
    data = folder(birds)
    boxes = [(20, 9, 12, 20), (5, 5, 8, 60)]
    for index, (name, box) in enumerate(zip(BIRDS["test"], boxes, strict=True)):
        picture = Image.open(birds / f"CUB_200_2011/images/{name}.jpg")
        view, _ = data.dataset("test")[index]
        assert (view.pixels == slow_view(picture, box, 16)).all()
        assert data.show(index, "test").size == (around(box, *picture.size)[2] - around(box, *picture.size)[0],
                                                 around(box, *picture.size)[3] - around(box, *picture.size)[1])  # fmt: skip


def test_evaluation_without_boxes_shows_the_middle(coco):
    picture = Image.open(coco / f"images/val2014/{PHOTOS['test'][0]}.jpg").convert("RGB")
    view, _ = folder(coco).dataset("val")[0]
    assert (view.pixels == slow_view(picture, None, 16)).all()


def test_the_square_stays_inside_the_picture():
    assert around((10, 10, 8, 4), 100, 100) == (8, 6, 20, 18)
    assert around((0, 0, 40, 10), 50, 30) == (0, 0, 50, 30)
    assert around((60, 27, 325, 304), 500, 335) == (0, 0, 465, 335)


@pytest.mark.parametrize(
    ("size", "wanted"), [((500, 300), (506, 304)), ((300, 500), (304, 506)), ((40, 40), (304, 304))]
)
def test_the_shorter_side_becomes_304_for_256(size, wanted):
    assert reduced(Image.new("RGB", size), 256).size == wanted


def test_training_crops_anywhere_and_mirrors_half_the_time(birds):
    ramp = np.zeros((9, 12, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(12), np.arange(9)[:, None]
    corners = {tuple(np.asarray(cropped(Image.fromarray(ramp), 5, Random(i)))[0, 0, :2].tolist()) for i in range(400)}
    assert corners == {(x, y) for x in range(8) for y in range(5)}
    data = folder(birds)
    shown = [data.dataset("train")[3 * epoch][0].pixels for epoch in range(40)]
    photo = reduced(data.pictures("train").photograph(0), 16)
    crops = {
        np.asarray(photo.crop((x, y, x + 16, y + 16))).tobytes()
        for x in range(photo.width - 15)
        for y in range(photo.height - 15)
    }
    plain = [pixels.tobytes() in crops for pixels in shown]
    mirrored = [np.ascontiguousarray(pixels[:, ::-1]).tobytes() in crops for pixels in shown]
    assert all(one != other for one, other in zip(plain, mirrored, strict=True))
    assert 8 < sum(plain) < 32


def test_training_repeats_with_the_seed(birds):
    one, two, other = folder(birds), folder(birds), folder(birds, seed=5)
    for index in (0, 4, 8):
        assert (one.dataset("train")[index][0].pixels == two.dataset("train")[index][0].pixels).all()
    assert any((one.dataset("train")[i][0].pixels != other.dataset("train")[i][0].pixels).any() for i in range(9))


# What may be wrong.


@pytest.mark.parametrize("name", ["captions.pickle", "train/filenames.pickle", "test/class_info.pickle"])
def test_a_pickle_that_would_run_code_is_refused(birds, tmp_path, name):
    class Harm:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "harm"),))

    write(birds / name, pickle.dumps([Harm()], 2))
    with pytest.raises(UserError, match=f"{name} is refused: it wants to use posix.mkdir"):
        folder(birds).dataset("val")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train/filenames.pickle", python2([]), "must hold a list of names of pictures, got a list of 0"),
        ("train/filenames.pickle", python2([3]), "must hold a list of names of pictures"),
        ("test/filenames.pickle", b"nothing", "filenames.pickle is no complete pickle"),
        ("test/class_info.pickle", python2([3]), "has 1 classes for the 2 pictures"),
        ("test/class_info.pickle", python2(["gull", "jay"]), "must hold a list of class numbers, got a list of 2"),
        ("captions.pickle", python2([[], []]), "must hold the training captions.*got a list of 2"),
        ("captions.pickle", python2([[], [], {1: "a"}, {}]), "has no word with the number 0"),
        ("captions.pickle", python2([[], [], {0: "a"}, {}]), r"word 0 must be '<end>', got \('a',\)"),
        ("captions.pickle", captions_pickle(BIRDS, 5), "has 15 train captions for 3 pictures, but data.num_captions is 3"),
        ("captions.pickle", python2([[[1]] * 9, [[1]] * 5 + [[]], {0: "<end>", 1: "a"}, {}]),
         "a caption of 003.Jay/Jay_0005_5 has no words"),
        ("captions.pickle", python2([[[1]] * 8 + [[0]], [[1]] * 6, {0: "<end>", 1: "a"}, {}]),
         "a caption of 002.Wren/Wren_0003_3 has the word 0; words are 1 to 1"),
        ("captions.pickle", python2([[[2]] + [[1]] * 8, [[1]] * 6, {0: "<end>", 1: "a"}, {}]), "has the word 2"),
        ("captions.pickle", python2([["a"] * 9, [[1]] * 6, {0: "<end>", 1: "a"}, {}]), "is no list of numbers, but a str of 1"),
        ("CUB_200_2011/bounding_boxes.txt", "1 2 3\n", "expected 5 values in row 1, got '1 2 3'"),
        ("CUB_200_2011/bounding_boxes.txt", "1 2 3 4 wide\n", "the box of picture 1 is no four numbers: '2 3 4 wide'"),
        ("CUB_200_2011/bounding_boxes.txt", "9 2 3 4 5\n", "has a box of picture 9, which .*images.txt does not list"),
        ("CUB_200_2011/bounding_boxes.txt", "1 2 3 4 5\n", "has no box of 003.Jay/Jay_0004_4"),
        ("CUB_200_2011/bounding_boxes.txt", "4 900 3 4 5\n", r"The box \(900, 3, 4, 5\) of 003.Jay/Jay_0004_4 .* 61 x 33"),
        ("CUB_200_2011/images/003.Jay/Jay_0004_4.jpg", b"\xff\xd8 broken", "The picture .*Jay_0004_4.jpg cannot be read"),
    ],
)  # fmt: skip
def test_bad_files_are_named(birds, name, content, message):
    write(birds / name, content)
    with pytest.raises(UserError, match=message):
        next(iter(folder(birds).val_dataloader()))


def test_a_cut_picture_is_named(birds):
    path = birds / "CUB_200_2011/images/003.Jay/Jay_0004_4.jpg"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(UserError, match="The picture .*Jay_0004_4.jpg cannot be read: .*truncated"):
        folder(birds).dataset("val")[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train/filenames.pickle", "Cannot read .*train/filenames.pickle: No such file"),
        ("CUB_200_2011/images.txt", "Cannot read .*images.txt: No such file.*comes with CUB_200_2011"),
        (
            "CUB_200_2011/images/003.Jay/Jay_0004_4.jpg",
            "There are no pixels of 003.Jay/Jay_0004_4: looked for .*Jay_0004_4.jpg",
        ),
    ],
)
def test_missing_files_are_named(birds, name, message):
    (birds / name).unlink()
    with pytest.raises(UserError, match=message):
        next(iter(folder(birds).val_dataloader()))


def test_bad_texts_are_named(coco):
    path = coco / f"text/{PHOTOS['train'][1]}.txt"
    path.write_text("\n . \n")
    with pytest.raises(UserError, match=re.escape(f"{path} has no caption of {PHOTOS['train'][1]}")):
        folder(coco).dataset("train")
    path.write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="are not UTF-8"):
        folder(coco).dataset("train")
    path.unlink()
    with pytest.raises(UserError, match=f"There are no captions of {PHOTOS['train'][1]}"):
        folder(coco).dataset("train")


@pytest.mark.parametrize("name", ["side", "num_captions"])
def test_sizes_below_one_are_named(birds, name):
    with pytest.raises(UserError, match=f"data.{name} must be at least 1, got 0"):
        folder(birds, **{name: 0})


def test_a_root_that_is_no_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="data.root '.*gone' is not a folder"):
        folder(tmp_path / "gone")
