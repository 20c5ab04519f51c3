"""Do captions meet the regions of their own picture, whatever the layout, the workers and the flaws of the files?"""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.picture_folder import PictureFolder
from lit_attn.data.regions import read_npz, write_npz
from lit_attn.errors import UserError
from tests.reference.region_files import DIM, some_regions, write_prepared, write_tsv

COUNTS = {101: 7, 103: 0, 107: 101, 109: 1, 113: 3, 127: 5, 131: 2}
"""Boxes by cocoid."""
SPLITS = dict(zip(COUNTS, ["train", "train", "restval", "val", "test", "train", "val"], strict=True))


def image(number: int) -> dict:
    captions = [f"a dog {i} of {number}".split() for i in range(1 + number % 5)]
    return {
        "filepath": "train2014",
        "filename": f"COCO_train2014_{number:012d}.jpg",
        "cocoid": number,
        "split": SPLITS[number],
        "sentences": [{"tokens": tokens} for tokens in captions],
    }


def write(path, images: list[dict]) -> None:
    path.write_text(json.dumps({"images": images}))


@pytest.fixture
def folder(tmp_path):
    """Seven pictures with captions in Karpathy's layout, and a folder of npz files."""
    write(tmp_path / "dataset.json", [image(number) for number in COUNTS])
    for number, count in COUNTS.items():
        name = f"COCO_train2014_{number:012d}"
        write_npz(some_regions(name, count), tmp_path / "regions" / f"{name}.npz")
    return tmp_path


def data_of(folder, **more) -> KarpathyCaptions:
    settings = {"captions": str(folder / "dataset.json"), "regions": str(folder / "regions"), "min_count": 1}
    return KarpathyCaptions(**settings | {"batch_size": 2, "eval_batch_size": 3, "num_workers": 0} | more)


def test_a_sample_is_a_picture_with_all_its_captions(folder):
    data = data_of(folder)
    dataset = data.dataset("train")
    assert [picture.picture_id for picture in dataset.pictures] == [101, 103, 107, 127]
    assert data.dataset("train") is dataset
    picture, captions = dataset[2]
    expected = read_npz(folder / "regions" / "COCO_train2014_000000000107.npz")
    np.testing.assert_array_equal(picture.regions, expected.features)
    np.testing.assert_array_equal(picture.boxes, expected.relative_boxes)
    assert (picture.image_id, picture.name) == (2, "COCO_train2014_000000000107.jpg")
    assert picture.references == ("a dog 0 of 107", "a dog 1 of 107", "a dog 2 of 107")
    words = data.vocabulary
    assert [words.decode(caption.ids[1:]) for caption in captions] == [line.split() for line in picture.references]
    assert all(caption.ids[0] == caption.ids[-1] == 0 for caption in captions)
    assert [caption.sample_id for caption in captions] == [f"COCO_train2014_000000000107-{i}" for i in range(3)]
    ids = [caption.caption_id for index in range(4) for caption in dataset[index][1]]
    assert ids == list(range(2 + 4 + 3 + 3))
    assert list(data.training_references()) == [dataset[index][0].references for index in range(4)]
    assert [p.picture_id for p in data.dataset("val").pictures] == [109, 131]
    assert [p.picture_id for p in data.dataset("predict").pictures] == [113]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_hold_every_picture_once(folder, num_workers):
    data = data_of(folder, num_workers=num_workers)
    assert (data.region_dim, data.vocab_size) == (DIM, len(data.vocabulary))
    batches = list(data.train_dataloader())
    assert sorted(name for batch in batches for name in batch.picture_name) == [
        f"COCO_train2014_{number:012d}.jpg" for number in (101, 103, 107, 127)
    ]
    for batch in batches:
        for row, name in enumerate(batch.picture_name):
            number = int(name[15:-4])
            assert batch.region_mask[row].sum() == COUNTS[number]
            mine = batch.owner == row
            assert mine.sum() == 1 + number % 5
            assert batch.references[row] == tuple(f"a dog {i} of {number}" for i in range(1 + number % 5))
            for tokens, mask in zip(batch.tokens[mine], batch.token_mask[mine], strict=True):
                assert data.vocabulary.decode(tokens[mask].tolist()[1:])[-1] == str(number)
    (evaluation,) = list(data.val_dataloader())
    assert evaluation.picture_name == ("COCO_train2014_000000000109.jpg", "COCO_train2014_000000000131.jpg")
    assert evaluation.region_mask.sum(1).tolist() == [1, 2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_training_goes_on_where_it_stopped(folder, num_workers):
    def names(loader, count):
        batches = iter(loader)
        return [next(batches).picture_name for _ in range(count)]

    whole = data_of(folder, seed=3, batch_size=1, num_workers=num_workers)
    loader = whole.train_dataloader()
    order = names(loader, 4) + names(loader, 4)
    first = data_of(folder, seed=3, batch_size=1, num_workers=num_workers)
    assert names(first.train_dataloader(), 3) == order[:3]
    second = data_of(folder, seed=3, batch_size=1, num_workers=num_workers)
    second.load_state_dict(first.state_dict())
    loader = second.train_dataloader()
    assert names(loader, 1) + names(loader, 4) == order[3:]


def test_a_split_can_be_sent_to_another_process(folder):
    dataset = data_of(folder).dataset("train")
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301 - ours
    np.testing.assert_array_equal(copy[2][0].regions, dataset[2][0].regions)
    assert copy[2][1] == dataset[2][1]


def test_a_picture_without_boxes_may_be_alone_in_its_batch(folder):
    batches = list(data_of(folder, batch_size=1).train_dataloader())
    (empty,) = [batch for batch in batches if "103" in batch.picture_name[0]]
    assert empty.regions.shape == (1, 0, DIM)
    assert empty.boxes.shape == (1, 0, 4)


def test_words_are_given_or_counted_over_all_splits(folder):
    # The number of a picture is in as many captions as it has: 4 for 103 and 113, 5 for 109, of 23 in all.
    assert data_of(folder, min_count=4).vocabulary.words == (
        "a",
        "dog",
        "0",
        "of",
        "1",
        "103",
        "2",
        "109",
        "113",
        "UNK",
    )
    default = KarpathyCaptions(str(folder / "dataset.json"), str(folder / "regions"))
    assert (default.min_count, default.max_words, default.batch_size, default.eval_batch_size) == (6, 16, 15, 50)
    (folder / "words.json").write_text(json.dumps({"ix_to_word": {"1": "dog", "2": "UNK"}}))
    data = data_of(folder, vocabulary=str(folder / "words.json"))
    assert data.dataset("val")[1][1][0].ids == (0, 2, 1, 2, 2, 2, 0)


def test_long_captions_are_cut_and_references_stay_whole(folder, caplog):
    with caplog.at_level("INFO"):
        picture, (caption, _) = data_of(folder, max_words=3).dataset("val")[1]
    assert len(caption.ids) == 5
    assert picture.references[0] == "a dog 0 of 131"
    assert caplog.text.count("val: 2 pictures, 7 captions cut at 3 words") == 1
    with caplog.at_level("INFO"):
        data_of(folder, max_words=5).dataset("val")
    assert "val: 2 pictures." in caplog.text


def test_empty_captions_are_left_out_and_pictures_that_have_no_other(folder, caplog):
    images = [image(number) for number in COUNTS]
    images[0]["sentences"][0]["tokens"] = []
    images[1]["sentences"] = [{"tokens": []}]
    images[3]["sentences"] = [{"tokens": []}]
    images[4]["sentences"] = []
    write(folder / "dataset.json", images)
    data = data_of(folder)
    with caplog.at_level("WARNING"):
        assert [p.picture_id for p in data.dataset("train").pictures] == [101, 107, 127]
        assert [references[0] for references in data.training_references()] == [
            "a dog 1 of 101",
            "a dog 0 of 107",
            "a dog 0 of 127",
        ]
        assert data.dataset("train")[0][0].references == ("a dog 1 of 101",)
        assert [p.picture_id for p in data.dataset("val").pictures] == [131]
    assert [record.message.split(": ", 1)[1] for record in caplog.records] == [
        "3 captions have no words and are left out."
    ]
    assert [p.picture_id for p in data.dataset("predict").pictures] == [113]
    with pytest.raises(UserError, match="no picture with a caption for 'test'"):
        data.dataset("test")


def test_missing_regions_are_counted_and_named_when_a_split_is_opened(folder):
    for number in (101, 107):
        (folder / "regions" / f"COCO_train2014_{number:012d}.npz").unlink()
    data = data_of(folder)
    message = (
        "2 of 4 pictures for 'train' have no regions, such as COCO_train2014_000000000101, COCO_train2014_000000000107. "
        ".*regions has nothing for the picture 'COCO_train2014_000000000101' or '101'. It lists 5 names, such as COCO_"
    )
    with pytest.raises(UserError, match=message):
        data.train_dataloader()
    data.val_dataloader()
    write_npz(some_regions("sofa"), folder / "other" / "sofa.npz")
    with pytest.raises(UserError, match="4 of 4 pictures for 'train' have no regions.*It lists 1 names, such as sofa"):
        data_of(folder, regions=str(folder / "other")).train_dataloader()


def test_a_file_that_is_damaged_or_of_another_width_is_named_when_it_is_read(folder):
    data = data_of(folder)
    damaged = folder / "regions" / "COCO_train2014_000000000109.npz"
    damaged.write_bytes(damaged.read_bytes()[:99])
    with pytest.raises(UserError, match="000000000109.npz is no complete npz file"):
        next(iter(data.val_dataloader()))
    write_npz(some_regions("x", dim=5), damaged)
    with pytest.raises(
        UserError, match="the regions of COCO_train2014_000000000109 have 5 features, those of others 11"
    ):
        next(iter(data.val_dataloader()))


def test_labels_are_named_where_the_regions_have_some(folder):
    (folder / "objects.txt").write_text("\n".join(f"thing{i},synonym" for i in range(1600)))
    (folder / "attributes.txt").write_text("\n".join(f"kind{i}" for i in range(400)))
    names = {"object_names": str(folder / "objects.txt"), "attribute_names": str(folder / "attributes.txt")}
    picture, _ = data_of(folder, **names).dataset("train")[0]
    regions = some_regions("COCO_train2014_000000000101", 7)
    expected = [
        f"kind{attribute} thing{thing}" if sure > 0.1 else f"thing{thing}"
        for thing, attribute, sure in zip(regions.objects, regions.attributes, regions.attributes_conf, strict=True)
    ]
    assert list(picture.labels) == expected
    write_tsv(folder / "x.tsv", [some_regions(str(number), labels=False) for number in COUNTS])
    assert data_of(folder, regions=str(folder / "x.tsv"), **names).dataset("train")[0][0].labels == ()


def draw(folder, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.new("RGB", (317, 211), (200, 30, 40)).save(folder / name)


def test_pixel_boxes_take_the_size_from_the_pictures(folder):
    made = [some_regions(str(number), count, labels=False) for number, count in COUNTS.items()]
    write_prepared(folder / "prepared", made, relative=False)
    with pytest.raises(UserError, match="are pixels, and the size of the picture is not known"):
        data_of(folder, regions=str(folder / "prepared")).dataset("val")[0]
    draw(folder / "images" / "train2014", "COCO_train2014_000000000109.jpg")
    data = data_of(folder, regions=str(folder / "prepared"), images=str(folder / "images"))
    np.testing.assert_allclose(data.dataset("val")[0][0].boxes, made[3].relative_boxes, atol=1e-7)
    images = [image(number) | {"width": 317, "height": 211} for number in COUNTS]
    write(folder / "dataset.json", images)
    data = data_of(folder, regions=str(folder / "prepared"))
    np.testing.assert_allclose(data.dataset("val")[1][0].boxes, made[6].relative_boxes, atol=1e-7)


def test_pictures_are_not_opened_where_regions_know_their_size(folder, monkeypatch):
    draw(folder / "images" / "train2014", "COCO_train2014_000000000109.jpg")
    monkeypatch.setattr(PictureFolder, "size", None)
    picture, _ = data_of(folder, images=str(folder / "images")).dataset("val")[0]
    assert len(picture.boxes) == COUNTS[109]


def test_pictures_are_shown_from_nested_and_flat_folders(folder):
    draw(folder / "images" / "train2014", "COCO_train2014_000000000109.jpg")
    Image.new("L", (317, 211)).save(folder / "images" / "131.png")
    data = data_of(folder, images=str(folder / "images"))
    for image_id in (0, 1):
        shown = data.show(image_id, "val")
        assert (shown.size, shown.mode) == ((317, 211), "RGB")
    assert data.show(0, "train") is None
    assert data_of(folder).show(0, "val") is None
    draw(folder / "flat", "COCO_train2014_000000000109.jpg")
    Image.new("RGB", (5, 7)).save(folder / "flat" / "COCO_train2014_000000000109.png")
    assert data_of(folder, images=str(folder / "flat")).show(0, "val").size == (317, 211)
    with pytest.raises(UserError, match="data.images 'nowhere' is not a folder"):
        data_of(folder, images="nowhere")


def test_coco_files_are_taken_together(folder):
    for split, numbers in {"train": (101, 107), "val": (109, 131)}.items():
        images = [{"id": n, "file_name": f"{n:012d}.jpg", "width": 317, "height": 211} for n in numbers]
        annotations = [{"image_id": n, "caption": f"Picture {n}."} for n in numbers]
        path = folder / f"captions_{split}2017.json"
        path.write_text(json.dumps({"images": images, "annotations": annotations}))
    files = [str(folder / f"captions_{split}2017.json") for split in ("train", "val")]
    data = data_of(folder, captions=files, test_split="val")
    assert data.dataset("train")[1][0].references == ("picture 107",)
    assert data.dataset("test")[0][0].references == ("picture 109",)
    assert len(data.dataset("test")[0][0].regions) == COUNTS[109]
    with pytest.raises(UserError, match="no pictures of the split 'test', only of train, val"):
        data_of(folder, captions=files).dataset("test")


def unnumbered(folder, first_file: int) -> None:
    """Captions without cocoid: `imgid` counts from 0, files from `first_file`."""
    images = [
        {"filename": f"{first_file + i}.tif", "imgid": i, "split": "train", "sentences": [{"tokens": [f"w{i}"]}]}
        for i in range(7)
    ]
    write(folder / "dataset.json", images)


@pytest.mark.parametrize(("first_listed", "by"), [(0, "id"), (1, "file")])
def test_pictures_without_a_number_are_found_under_the_naming_that_fits(folder, first_listed, by):
    unnumbered(folder, first_file=1)
    made = [some_regions(str(first_listed + i), 5) for i in range(7)]
    write_tsv(folder / "x.tsv", made)
    for more in ({}, {"regions_by": by}):
        dataset = data_of(folder, regions=str(folder / "x.tsv"), **more).dataset("train")
        for i, regions in enumerate(made):
            np.testing.assert_array_equal(dataset[i][0].regions, regions.features)


def test_two_namings_that_fit_equally_well_are_not_guessed(folder):
    unnumbered(folder, first_file=1)
    write_tsv(folder / "x.tsv", [some_regions(str(i)) for i in range(8)])
    with pytest.raises(UserError, match="both find 7 of 7. Say which: data.regions_by file, or data.regions_by id"):
        data_of(folder, regions=str(folder / "x.tsv")).dataset("train")
    unnumbered(folder, first_file=0)
    assert len(data_of(folder, regions=str(folder / "x.tsv")).dataset("train")) == 7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"regions_by": "name"}, "data.regions_by is 'name'; expected 'file', 'id' or nothing"),
        ({"test_split": "tset"}, "data.test_split is 'tset'. Did you mean 'test'"),
        ({"object_names": "absent.txt"}, "Cannot read the label names absent.txt"),
        ({"max_words": 0}, "data.max_words must be at least 1"),
    ],
)
def test_wrong_settings_are_named(folder, more, message):
    with pytest.raises(UserError, match=message):
        data_of(folder, **more)


def test_real_pictures_with_real_regions(shared_data, tmp_path):
    tsv = shared_data("bottom_up/train2014_obj36.tsv")
    numbers = (132417, 207647, 84002, 306661)
    images = [
        {"filepath": "train2014", "filename": f"COCO_train2014_{n:012d}.jpg", "cocoid": n, "split": "val",
         "sentences": [{"tokens": ["a", "picture"]}]}
        for n in numbers
    ]  # fmt: skip
    write(tmp_path / "dataset.json", images)
    names = {kind: str(shared_data(f"bottom_up/{kind}s_vocab.txt")) for kind in ("object", "attribute")}
    data = KarpathyCaptions(
        str(tmp_path / "dataset.json"),
        str(tsv),
        images=str(shared_data("bottom_up/images")),
        object_names=names["object"],
        attribute_names=names["attribute"],
        min_count=1,
        num_workers=0,
    )
    (batch,) = list(data.val_dataloader())
    assert batch.regions.shape == (4, 36, 2048)
    assert batch.region_labels[2][:2] == ("bed", "metal headboard")
    sizes = {132417: (500, 333), 84002: (640, 480)}
    for place, number in enumerate(numbers):
        shown = data.show(place, "val")
        assert shown is not None
        assert shown.size == sizes.get(number, shown.size)
