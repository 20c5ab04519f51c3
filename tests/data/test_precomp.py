"""Are the public files read as distributed, and are broken ones named?"""

import json

import numpy as np
import pytest

from lit_attn.data.coco_instances import read_supercategories
from lit_attn.data.matching import PairDataset, PictureDataset
from lit_attn.data.pictures import collate
from lit_attn.data.precomp import PrecompMatching, PrecompSource
from lit_attn.data.vocab import Vocabulary
from lit_attn.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Seven pictures with five captions each, in the layout of f30k_precomp."""
    random = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        captions = [f"A dog number {c % 5} runs over picture {c // 5} ." for c in range(35)]
        (tmp_path / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
        np.save(tmp_path / f"{split}_ims.npy", random.standard_normal((7, 36, 11)).astype(np.float32))
        (tmp_path / f"{split}_ids.txt").write_text("\n".join(map(str, range(7))))
    return tmp_path


def vocabulary() -> Vocabulary:
    return Vocabulary.build([["a", "dog", "number", "runs", "over", "picture", "."]], 1)


def test_captions_meet_their_pictures(folder):
    source = PrecompSource(folder, "train", vocabulary())
    features = np.load(folder / "train_ims.npy")
    assert (source.num_pictures, source.region_dim) == (7, 11)
    picture, (caption,) = PairDataset(source)[17]
    np.testing.assert_array_equal(picture.regions, features[3])
    assert caption.sample_id == "train-17"
    words = source.vocabulary.decode(caption.ids)
    assert words == ["<start>", "a", "dog", "number", "<unk>", "runs", "over", "picture", "<unk>", ".", "<end>"]


def test_rows_repeated_per_caption_are_understood(folder):
    features = np.load(folder / "train_ims.npy")
    np.save(folder / "train_ims.npy", features.repeat(5, 0))
    source = PrecompSource(folder, "train", vocabulary())
    np.testing.assert_array_equal(source.picture(6).regions, features[6])


def test_features_stay_on_disk(folder):
    assert isinstance(PrecompSource(folder, "train", vocabulary()).features, np.memmap)


def test_boxes_are_used_when_they_are_there(folder):
    assert PrecompSource(folder, "train", vocabulary()).picture(0).boxes.tolist() == [[0, 0, 1, 1]] * 36
    boxes = np.random.default_rng(1).random((7, 36, 4)).astype(np.float32)
    np.save(folder / "train_boxes.npy", boxes)
    np.testing.assert_array_equal(PrecompSource(folder, "train", vocabulary()).picture(2).boxes, boxes[2])
    np.save(folder / "train_boxes.npy", boxes[:3])
    with pytest.raises(UserError, match=r"train_boxes.npy has shape \(3, 36, 4\)"):
        PrecompSource(folder, "train", vocabulary())


def test_datamodule_builds_its_vocabulary_and_batches(folder):
    data = PrecompMatching(str(folder), batch_size=3, eval_batch_size=2, num_workers=0, min_count=4)
    assert "dog" in data.vocabulary.ids
    assert data.region_dim == 11
    batch = next(iter(data.train_dataloader()))
    assert batch.regions.shape == (3, 36, 11)
    assert batch.tokens.shape[0] == 3
    evaluation = list(data.val_dataloader())
    assert [len(b.image_id) for b in evaluation] == [2, 2, 2, 1]
    assert [len(b.caption_id) for b in evaluation] == [10, 10, 10, 5]
    assert evaluation[1].owner.tolist() == [0] * 5 + [1] * 5
    limited = PrecompMatching(str(folder), max_train_images=2, num_workers=0)
    assert limited.source("train").num_pictures == 2


INSTANCES = {
    "images": [{"id": number} for number in range(7)],
    "categories": [
        {"id": 3, "name": "dog", "supercategory": "animal"},
        {"id": 5, "name": "cat", "supercategory": "animal"},
        {"id": 9, "name": "car", "supercategory": "vehicle"},
    ],
    "annotations": [{"image_id": i, "category_id": c} for i, c in ((0, 9), (0, 3), (0, 5), (4, 9))],
}


def test_what_pictures_show_is_found_by_their_coco_ids(folder):
    (folder / "instances.json").write_text(json.dumps(INSTANCES))
    (folder / "dev_ids.txt").write_text("\n".join(str(number) for number in (4, 0, 1, 2, 3, 5, 6) for _ in range(5)))
    data = PrecompMatching(str(folder), num_workers=0, instances=[str(folder / "instances.json")])
    shown = [data.source("val").categories(index) for index in range(7)]
    assert shown == [("vehicle",), ("animal", "vehicle"), (), (), (), (), ()]
    assert data.source("test").categories(0) == ("animal", "vehicle")
    assert data.source("train").categories(0) == ()
    assert data.breakdown_facts("val", 1) == (
        ("animal", "vehicle"),
        tuple(f"dev-{c}" for c in range(5, 10)),
        (None,) * 5,
    )


def test_nouns_are_counted_where_the_grammar_is_known(folder):
    lines = []
    for caption in range(35):
        tokens = f"a dog number {caption % 5} runs over picture {caption // 5} .".split()
        pos = ["DET", "NOUN", "PROPN", "NUM", "VERB", "ADP", "NOUN", "NUM", "PUNCT"]
        pos[2] = "PROPN" if caption % 2 else "X"
        record = {
            "tokens": tokens,
            "lemmas": tokens,
            "pos": pos,
            "heads": [4] * 9,
            "deps": ["dep"] * 4 + ["ROOT"] + ["dep"] * 4,
        }
        lines.append(json.dumps(record))
    (folder / "grammar.jsonl").write_text("\n".join(lines))
    data = PrecompMatching(str(folder), num_workers=0, annotate=str(folder / "grammar.jsonl"))
    assert data.breakdown_facts("val", 0).nouns == (2, 3, 2, 3, 2)
    assert data.source("val").caption(3).annotation.tokens[1] == "dog"
    assert data.source("train").caption(3).annotation is None


@pytest.mark.parametrize(
    ("ids", "instances", "message"),
    [
        ("1\n2\n3", INSTANCES, "dev_ids.txt has 3 ids for 7 pictures"),
        ("a b c d e f g", INSTANCES, "dev_ids.txt is no list of COCO's picture ids"),
        ("0 1 2 3 4 5 99", INSTANCES, "1 of 7 pictures of .*dev_ids.txt are not in data.instances, such as 99"),
        ("0 1 2 3 4 5 6", {"images": []}, "instances.json is not in the layout of COCO's instances .*supercategory"),
    ],
)
def test_wrong_ids_and_objects_are_named(folder, ids, instances, message):
    (folder / "instances.json").write_text(json.dumps(instances))
    (folder / "dev_ids.txt").write_text(ids)
    with pytest.raises(UserError, match=message):
        PrecompMatching(str(folder), instances=[str(folder / "instances.json")]).source("val")


def test_real_objects_of_coco(shared_data):
    path = shared_data("coco_mini/instances.json")
    content, found = json.loads(path.read_text()), read_supercategories([path])
    names = {entry["id"]: entry["supercategory"] for entry in content["categories"]}
    assert found.keys() == {picture["id"] for picture in content["images"]}
    for picture in found:
        own = {names[a["category_id"]] for a in content["annotations"] if a["image_id"] == picture}
        assert set(found[picture]) == own


def test_collate_pads_and_marks_padding():
    class Ragged(PrecompSource):
        def __init__(self) -> None:
            self.num_pictures, self.captions_per_picture = 2, 1

        def picture(self, index):
            from lit_attn.data.pictures import Picture

            return Picture(index, np.ones((3 + 4 * index, 5), np.float32), np.ones((3 + 4 * index, 4), np.float32))

        def caption(self, index):
            from lit_attn.data.pictures import Caption

            return Caption(index, str(index), tuple(range(1, 4 + index)))

    dataset = PictureDataset(Ragged())
    batch = collate([dataset[0], dataset[1]])
    assert batch.region_mask.sum(1).tolist() == [3, 7]
    assert batch.regions[0, 3:].eq(0).all()
    assert batch.token_mask.sum(1).tolist() == [3, 4]
    assert batch.tokens[0].tolist() == [1, 2, 3, 0]


def spoil(folder, what):
    features = np.load(folder / "train_ims.npy")
    match what:
        case "missing":
            (folder / "train_ims.npy").unlink()
        case "truncated":
            data = (folder / "train_ims.npy").read_bytes()
            (folder / "train_ims.npy").write_bytes(data[: len(data) // 2])
        case "nan":
            features[6, 5, 3] = np.nan
            np.save(folder / "train_ims.npy", features)
        case "pickled":
            np.save(folder / "train_ims.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        case "flat":
            np.save(folder / "train_ims.npy", features[:, 0])
        case "captions":
            lines = (folder / "train_caps.txt").read_text().splitlines()
            (folder / "train_caps.txt").write_text("\n".join(lines[:-1]))
        case "rows":
            np.save(folder / "train_ims.npy", features[:4])
        case "empty":
            (folder / "train_caps.txt").write_text("")
        case "no captions":
            (folder / "train_caps.txt").unlink()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing", "Cannot read the features .*train_ims.npy: No such file"),
        ("truncated", "train_ims.npy is not a complete .npy array"),
        ("nan", "train_ims.npy: row 6 holds NaN"),
        ("pickled", "train_ims.npy is not a complete .npy array of numbers"),
        ("flat", r"expected floats \[pictures, regions, channels\]"),
        ("captions", "34 captions, which is not a multiple of 5"),
        ("rows", "has 4 rows for 35 captions"),
        ("empty", "train_caps.txt is empty"),
        ("no captions", "Cannot read the captions .*train_caps.txt"),
    ],
)
def test_broken_files_are_named(folder, what, message):
    spoil(folder, what)
    with pytest.raises(UserError, match=message):
        PrecompSource(folder, "train", vocabulary())


def test_nan_between_the_checked_rows_is_found_when_it_is_read(folder, monkeypatch):
    features = np.load(folder / "train_ims.npy")
    features[3, 0, 0] = np.inf
    np.save(folder / "train_ims.npy", features)
    source = PrecompSource(folder, "train", vocabulary())
    with pytest.raises(UserError, match="row 3 holds NaN or infinity"):
        source.picture(3)


def test_a_folder_that_is_none_is_named():
    with pytest.raises(UserError, match="data.root 'nowhere' is not a folder"):
        PrecompMatching("nowhere")
