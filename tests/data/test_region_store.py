"""Are regions read from every public layout as they were written, and are broken files named?"""

import base64
import os
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from lit_attn.data import region_tsv
from lit_attn.data.region_hdf5 import write_hdf5
from lit_attn.data.region_store import open_regions
from lit_attn.data.regions import Regions, read_label_names, write_npz
from lit_attn.errors import UserError
from tests.reference.region_files import DIM, same, some_regions, tsv_line, write_prepared, write_tsv

COUNTS = (0, 7, 1, 101, 3)
"""Boxes per picture."""


def pictures(labels: bool = True) -> list[Regions]:
    return [some_regions(f"COCO_train2014_{i:012d}", count, labels) for i, count in enumerate(COUNTS)]


def write(kind: str, folder, labels: bool):
    """The same regions in any layout; returns the path to open."""
    made = pictures(labels)
    match kind:
        case "tsv":
            write_tsv(folder / "x.tsv", made)
            return folder / "x.tsv"
        case "tsv files":
            write_tsv(folder / "x.tsv.0", made[:2])
            write_tsv(folder / "x.tsv.1", made[2:])
            return folder
        case "hdf5":
            write_hdf5(made, folder / "x.h5")
            return folder / "x.h5"
        case "npz":
            for regions in made:
                write_npz(regions, folder / f"{regions.name}.npz")
            return folder
    raise ValueError(kind)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("kind", ["tsv", "tsv files", "hdf5", "npz"])
def test_regions_come_back_from_every_layout(tmp_path, kind, labels):
    made = pictures(labels)
    store = open_regions(write(kind, tmp_path, labels))
    assert list(store.names) == [regions.name for regions in made]
    assert (len(store), store.dim) == (5, DIM)
    for regions in reversed(made):
        same(store[regions.name], regions)
        assert store[regions.name].features.dtype == np.float32
    assert "3" in store
    assert "5" not in store
    same(store["3"], made[3])
    with pytest.raises(UserError, match="has nothing for the picture '77'. It lists 5 names, such as COCO_train2014_0"):
        store["77"]


@pytest.mark.parametrize("kind", ["tsv", "hdf5", "npz"])
def test_workers_read_what_the_parent_opened(tmp_path, kind):
    class Features(Dataset):
        def __init__(self) -> None:
            self.store = open_regions(write(kind, tmp_path, True))
            self.store[self.store.names[0]]

        def __len__(self) -> int:
            return len(self.store)

        def __getitem__(self, index):
            if kind == "hdf5":
                self.store[self.store.names[0]]
                assert os.getpid() in self.store._files, "HDF5 must not read what a parent process opened"
            return torch.from_numpy(self.store[self.store.names[index]].features.sum(0))

    dataset = Features()
    for _ in range(2):
        rows = list(DataLoader(dataset, batch_size=None, num_workers=2))
        for row, regions in zip(rows, pictures(), strict=True):
            np.testing.assert_array_equal(row, regions.features.sum(0))


@pytest.mark.parametrize("kind", ["tsv", "tsv files", "hdf5", "npz"])
def test_a_store_can_be_sent_to_another_process(tmp_path, kind):
    store = open_regions(write(kind, tmp_path, True))
    store["1"]
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - ours
    same(copy["1"], pictures()[1])


@pytest.mark.parametrize("prefix", ["", "cocobu_"])
@pytest.mark.parametrize("relative", [True, False])
def test_prepared_folders_are_read(tmp_path, relative, prefix):
    made = [some_regions(str(i), count, labels=False) for i, count in enumerate(COUNTS)]
    write_prepared(tmp_path, made, relative, prefix)
    np.save(tmp_path / f"{prefix}att" / "9.npy", made[1].features)
    box = tmp_path / f"{prefix}{'box_relative' if relative else 'box'}"
    np.save(box / "9.npy", np.load(box / "1.npy"))
    paths = [tmp_path, tmp_path / f"{prefix}att"] + ([tmp_path / "cocobu"] if prefix else [])
    for path in paths:
        store = open_regions(path)
        assert list(store.names) == ["0", "1", "2", "3", "4", "9"]
        assert (store.dim, store.needs_size) == (DIM, not relative)
        for name, regions in zip(store.names, [*made, made[1]], strict=True):
            back = store.read(name, (317.0, 211.0))
            np.testing.assert_array_equal(back.features, regions.features)
            np.testing.assert_allclose(back.relative_boxes, regions.relative_boxes, atol=1e-7)
            assert back.described() == ()


def test_pixels_need_the_size_of_the_picture(tmp_path):
    write_prepared(tmp_path, [some_regions("5")], relative=False)
    with pytest.raises(UserError, match=r"boxes of 5 in .*box are pixels.*data.images.*box_relative"):
        open_regions(tmp_path)["5"]


def test_boxes_outside_are_cut_and_empty_ones_kept(tmp_path):
    boxes = np.array([[-10, -10, 50, 50], [10, 20, 10, 20], [90, 190, 300, 999]], np.float32)
    write_tsv(tmp_path / "x.tsv", [Regions("a", np.ones((3, 2), np.float32), boxes, 100.0, 200.0)])
    expected = [[0, 0, 0.5, 0.25], [0.1, 0.1, 0.1, 0.1], [0.9, 0.95, 1, 1]]
    np.testing.assert_allclose(open_regions(tmp_path / "x.tsv")["a"].relative_boxes, expected, atol=1e-7)


def test_real_features_have_labels_boxes_and_a_bedroom(shared_data):
    store = open_regions(shared_data("bottom_up/train2014_obj36.tsv"))
    objects = read_label_names(shared_data("bottom_up/objects_vocab.txt"))
    attributes = read_label_names(shared_data("bottom_up/attributes_vocab.txt"))
    assert (len(store), store.dim, len(objects), len(attributes)) == (10, 2048, 1600, 400)
    bedroom = store["84002"]
    assert bedroom.name == "COCO_train2014_000000084002"
    assert (bedroom.width, bedroom.height) == (640, 480)
    assert bedroom.features.shape == (36, 2048)
    assert bedroom.described(objects, attributes)[:3] == ("bed", "metal headboard", "white pillow")
    for name in store.names:
        boxes = store[name].relative_boxes
        assert (boxes[:, :2] <= boxes[:, 2:]).all()
        assert 0 <= boxes.min() <= boxes.max() <= 1


def test_the_first_pass_jumps_over_arrays(tmp_path, monkeypatch):
    """Only the first lines are searched for their end: all others follow from their number of boxes."""
    write_tsv(tmp_path / "x.tsv", pictures())
    searched = []
    monkeypatch.setattr(
        region_tsv.TsvFile,
        "_expected_end",
        lambda file, start, jump=region_tsv.TsvFile._expected_end: searched.append(jump(file, start)) or searched[-1],
    )
    open_regions(tmp_path / "x.tsv")
    assert searched[:2] == [None, None]
    lengths = [len(tsv_line(regions)) + 1 for regions in pictures()]
    assert searched[2:] == [sum(lengths[: i + 1]) - 1 for i in (2, 3, 4)]


@pytest.mark.parametrize("end", ["\r\n", "\n", ""])
def test_other_line_ends_are_understood(tmp_path, end):
    lines = [tsv_line(regions) for regions in pictures()]
    text = ("\n" if end == "" else end).join(lines) + end
    (tmp_path / "x.tsv").write_text(text, newline="")
    store = open_regions(tmp_path / "x.tsv")
    for regions in pictures():
        same(store[regions.name], regions)


def damaged(what: str) -> list[str]:
    """Lines of which the third is broken."""
    lines = [tsv_line(regions).split("\t") for regions in pictures(labels=False)]
    broken = lines[2]
    match what:
        case "columns":
            lines[2] = broken[:4]
        case "no tabs":
            lines[2] = ["nonsense"]
        case "count":
            broken[3] = "many"
        case "wrong count":
            broken[3] = "2"
        case "no base64":
            broken[5] = "!!!!"
        case "cut":
            broken[5] = broken[5][:20]
        case "size":
            broken[1] = "0"
        case "nan":
            broken[4] = base64.b64encode(np.full(4, np.nan, np.float32)).decode()
        case "width":
            broken[5] = base64.b64encode(np.ones(5, np.float32)).decode()
    return ["\t".join(fields) for fields in lines]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("columns", "x.tsv, line 3: 4 columns, expected 6"),
        ("no tabs", "x.tsv, line 3: 1 columns, expected 6"),
        ("count", "x.tsv, line 3: cannot be decoded .*many"),
        ("wrong count", "x.tsv, line 3: cannot be decoded .*reshape"),
        ("no base64", "x.tsv, line 3: cannot be decoded .*base64"),
        ("cut", "x.tsv, line 3: cannot be decoded .*buffer size"),
        ("size", "x.tsv, line 3: cannot be decoded .*size 0.0 x 211.0"),
        ("nan", "x.tsv, line 3: cannot be decoded .*NaN"),
        ("width", "x.tsv, line 3: 5 features per box, where earlier lines have 11"),
    ],
)
def test_a_damaged_line_is_named_and_others_stay_readable(tmp_path, what, message):
    (tmp_path / "x.tsv").write_text("\n".join(damaged(what)) + "\n")
    with pytest.raises(UserError, match=message):
        open_regions(tmp_path / "x.tsv")["2"]
    if what not in ("columns", "no tabs"):
        same(open_regions(tmp_path / "x.tsv")["3"], pictures(labels=False)[3])


def test_of_pictures_listed_twice_the_first_counts(tmp_path, caplog):
    write_tsv(tmp_path / "x.tsv", [*pictures(), *(replace(regions, width=5.0) for regions in pictures()[:2])])
    with caplog.at_level("WARNING"):
        store = open_regions(tmp_path / "x.tsv")
    assert (len(store), store["1"].width) == (5, 317.0)
    assert "lists 2 pictures again" in caplog.text


def test_a_folder_of_our_own_files_may_have_any_name(tmp_path):
    write_npz(pictures()[1], tmp_path / "bed_att" / "5.npz")
    same(open_regions(tmp_path / "bed_att")["5"], pictures()[1])


def test_files_that_other_systems_leave_are_no_pictures(tmp_path):
    write_npz(pictures()[1], tmp_path / "5.npz")
    (tmp_path / "._5.npz").touch()
    assert list(open_regions(tmp_path).names) == ["5"]


def test_names_and_half_precision_survive_hdf5(tmp_path):
    named = Regions(
        "a", np.ones((2, 3), np.float32), np.ones((2, 4), np.float32), 5.0, 7.0,
        attributes_conf=np.array([0.5, 0.05], np.float32), object_names=("café", "bed"), attribute_names=("red", "big"),
    )  # fmt: skip
    write_hdf5([named], tmp_path / "x.h5", half=True)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["a/feat"].dtype == np.float16
        assert dict(file["a"].attrs) == {"image_w": 5.0, "image_h": 7.0}
    back = open_regions(tmp_path / "x.h5")["a"]
    same(back, named)
    assert back.described() == ("red café", "bed")


@pytest.mark.parametrize("names", [["a", "a"], ["a/b"], [""]])
def test_hdf5_refuses_names_that_it_cannot_tell_apart(tmp_path, names):
    with pytest.raises(UserError, match="cannot hold a picture named"):
        write_hdf5([some_regions(name) for name in names], tmp_path / "x.h5")
    assert not (tmp_path / "x.h5").exists()


def test_half_a_file_is_named(tmp_path):
    write_hdf5(pictures(), tmp_path / "x.h5")
    data = (tmp_path / "x.h5").read_bytes()
    (tmp_path / "x.h5").write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="x.h5 is no complete HDF5 file"):
        open_regions(tmp_path / "x.h5")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["5/feat"] = np.ones((2, 3))
    with pytest.raises(UserError, match="the picture 5 lacks bbox, image_h, image_w"):
        open_regions(tmp_path / "y.h5")["5"]
    write_npz(pictures()[1], tmp_path / "npz" / "5.npz")
    data = (tmp_path / "npz" / "5.npz").read_bytes()
    (tmp_path / "npz" / "5.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="5.npz is no complete npz file"):
        open_regions(tmp_path / "npz")["5"]
    write_prepared(tmp_path / "prepared", [some_regions("5"), some_regions("6"), some_regions("7")], relative=True)
    (tmp_path / "prepared" / "box_relative" / "5.npy").unlink()
    (tmp_path / "prepared" / "att" / "6.npz").write_bytes(b"PK")
    np.save(tmp_path / "prepared" / "box_relative" / "7.npy", np.array([{}]), allow_pickle=True)
    store = open_regions(tmp_path / "prepared")
    with pytest.raises(UserError, match="Cannot read .*5.npy: No such file"):
        store["5"]
    with pytest.raises(UserError, match="6.npz is no complete file of numbers named feat"):
        store["6"]
    with pytest.raises(UserError, match="7.npy is no complete file of numbers"):
        store["7"]


def test_places_without_regions_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "two.tsv").write_text("a\tb\n")
    (tmp_path / "x.txt").touch()
    (tmp_path / "alone" / "att").mkdir(parents=True)
    for name in ("a_att", "b_att"):
        (tmp_path / "several" / name).mkdir(parents=True)
    (tmp_path / "mixed").mkdir()
    write_tsv(tmp_path / "mixed" / "a.tsv", [some_regions("1", dim=5)])
    write_tsv(tmp_path / "mixed" / "b.tsv", [some_regions("2", dim=7)])
    for name, message in {
        "absent": "There are no regions at .*absent",
        "empty": "The folder .*empty holds no regions",
        "empty.tsv": "empty.tsv is empty",
        "two.tsv": r"two.tsv, line 1: 2 columns, expected 6 \(without labels\) or 10",
        "x.txt": "Regions are a .tsv, .h5 or .hdf5 file, or a folder; .*x.txt is none",
        "alone": "att has no boxes beside it: expected the folder .*box_relative or .*box",
        "several": "several folders of features .a_att, b_att.",
        "mixed": "differ in the number of features per box: a.tsv 5, b.tsv 7",
    }.items():
        with pytest.raises(UserError, match=message):
            open_regions(tmp_path / name)
