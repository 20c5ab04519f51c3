"""Are features found wherever they are, in any process, without running what files say?"""

import base64
import os
import pickle
import sys

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from lit_attn.data.ocr_tokens import OcrFile
from lit_attn.data.reading_store import LmdbFeatures, RegionFeatures, open_features
from lit_attn.data.regions import write_npz
from lit_attn.errors import UserError
from tests.reference.reading_files import DIM, some_boxes, some_features, write_lmdb, write_ocr
from tests.reference.region_files import some_regions

A, B = "0054c91397f2fe05", "005635e119b9f32f"
SIZE = np.array([200, 100, 200, 100], np.float32)


def mmf(picture: str, count: int, **more: object) -> dict:
    return {"feature_path": picture, "features": some_features(picture, count), **more}


def study(picture: str, count: int) -> dict:
    boxes = some_boxes(picture, count) * SIZE
    return {
        "image_id": picture,
        "features": some_features(picture, count),
        "boxes": boxes,
        "image_h": 100,
        "image_w": 200,
    }


def test_an_lmdb_of_mmf_has_features_and_mostly_boxes(tmp_path):
    boxes = some_boxes(B, 5) * SIZE
    sized = mmf(B, 5, bbox=boxes, image_height=100, image_width=200, num_boxes=5)
    write_lmdb(tmp_path / "x.lmdb", {f"train/{A}": mmf(A, 3), f"train/{B}": sized})
    store = open_features(tmp_path / "x.lmdb")
    assert isinstance(store, LmdbFeatures)
    assert store.dim == DIM
    name = store.find(f"train/{A}", A)
    assert name == f"train/{A}"
    np.testing.assert_array_equal(store.read(name).features, some_features(A, 3))
    assert store.read(name).boxes is None
    np.testing.assert_allclose(store.read(f"train/{B}").boxes, some_boxes(B, 5), atol=1e-6)


def test_an_lmdb_of_the_comparison_lists_its_keys(tmp_path):
    write_lmdb(tmp_path / "obj", {A: study(A, 3), B: study(B, 0)}, keys=True)
    store = open_features(tmp_path / "obj")
    assert store.find(f"train/{A}", A) == A
    np.testing.assert_allclose(store.read(A).boxes, some_boxes(A, 3), atol=1e-6)
    assert store.read(B).features.shape == (0, DIM)
    assert store.find("keys") is None


def test_packed_flat_and_padded_features_are_unpacked(tmp_path):
    features, boxes = some_features(A, 3, 2048), some_boxes(A, 3) * SIZE
    packed = {
        "num_boxes": "3",
        "features": base64.b64encode(features),
        "boxes": base64.b64encode(boxes).decode(),
        "image_h": "100",
        "image_w": "200",
    }
    padded = np.concatenate([features, np.zeros((4, 2048), np.float32)])
    entries = {
        "packed": packed,
        "flat": {"features": features.reshape(-1)},
        "padded": {"features": padded, "num_boxes": 3},
    }
    write_lmdb(tmp_path / "x.lmdb", entries)
    store = open_features(tmp_path / "x.lmdb")
    for name in entries:
        np.testing.assert_array_equal(store.read(name).features, features)
    np.testing.assert_allclose(store.read("packed").boxes, some_boxes(A, 3), atol=1e-6)


def test_boxes_that_reach_out_are_cut(tmp_path):
    boxes = np.array([[-20, 0, 300, 50]], np.float32)
    entry = {"features": some_features(A, 1), "boxes": boxes, "image_h": 100, "image_w": 200}
    write_lmdb(tmp_path / "x.lmdb", {A: entry})
    np.testing.assert_allclose(open_features(tmp_path / "x.lmdb").read(A).boxes, [[0, 0, 1, 0.5]])


class Everything(Dataset):
    """Reads each picture of a store."""

    def __init__(self, store: LmdbFeatures) -> None:
        self.store = store

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> np.ndarray:
        return self.store.read(f"train/{index}").features


def test_processes_of_a_loader_read_the_same_after_the_main_process_has_read(tmp_path):
    write_lmdb(tmp_path / "x.lmdb", {f"train/{i}": mmf(str(i), 2) for i in range(6)})
    own = Everything(LmdbFeatures(tmp_path / "x.lmdb"))
    here = [own[i] for i in range(6)]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(own))[3], here[3])  # noqa: S301 - as a new process gets it
    loader = DataLoader(own, batch_size=None, num_workers=2, multiprocessing_context="fork")
    for one, other in zip(here, loader, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(own[0], here[0])


class Calls:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("place", ["value", "keys"])
def test_no_code_of_an_lmdb_runs(tmp_path, place):
    marker = tmp_path / "ran"
    evil = pickle.dumps({"features": Calls(f"touch {marker}")})
    write_lmdb(tmp_path / "x.lmdb", {A: evil} if place == "value" else {A: mmf(A, 1), "keys": evil})
    with pytest.raises(UserError, match="x.lmdb, .* is refused: it wants to use posix.system"):
        open_features(tmp_path / "x.lmdb").dim  # noqa: B018
    assert not marker.exists()


@pytest.mark.parametrize("entry", [{"boxes": 3}, [1, 2], {"features": "no base64!"}, {"features": [[1, 2], [3]]}])
def test_values_that_are_no_features_are_named(tmp_path, entry):
    write_lmdb(tmp_path / "x.lmdb", {A: entry})
    with pytest.raises(UserError, match=f"x.lmdb, picture '{A}', is no dict with features"):
        open_features(tmp_path / "x.lmdb").read(A)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    write_lmdb(tmp_path / "x.lmdb", {f"train/{A}": mmf(A, 1)})
    store = open_features(tmp_path / "x.lmdb")
    assert store.find(f"train/{B}", B) is None
    with pytest.raises(UserError, match=f"x.lmdb has nothing for the picture '{B}'. It lists 1 names"):
        raise store.not_found(B)
    with pytest.raises(UserError, match="There are no features at .*absent.lmdb"):
        open_features(tmp_path / "absent.lmdb")
    write_lmdb(tmp_path / "empty.lmdb", {})
    with pytest.raises(UserError, match="empty.lmdb holds no features"):
        open_features(tmp_path / "empty.lmdb").dim  # noqa: B018
    (tmp_path / "text.lmdb").write_text("hello " * 2000)
    with pytest.raises(UserError, match="text.lmdb is no LMDB"):
        open_features(tmp_path / "text.lmdb").dim  # noqa: B018
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(UserError, match="x.lmdb needs the package lmdb"):
        open_features(tmp_path / "x.lmdb")


def test_folders_of_regions_serve_too(tmp_path):
    regions = some_regions("room", 5)
    write_npz(regions, tmp_path / "room.npz")
    store = open_features(tmp_path)
    assert isinstance(store, RegionFeatures)
    assert store.dim == DIM
    assert store.find("train/room", "room") == "room"
    np.testing.assert_array_equal(store.read("room").features, regions.features)
    np.testing.assert_array_equal(store.read("room").boxes, regions.relative_boxes)
    with pytest.raises(UserError, match="has nothing for the picture 'hall'"):
        raise store.not_found("hall")


def test_tokens_of_a_file_have_relative_boxes(tmp_path):
    write_ocr(tmp_path / "ocr.jsonl", {"room.jpg": [("OPEN", (20, 10, 100, 50)), ("é", (-5, 0, 400, 20))], "hall": []})
    for path in (tmp_path, tmp_path / "ocr.jsonl"):
        tokens = OcrFile(path).read("room.png", "room")
        assert tokens.texts == ("OPEN", "é")
        np.testing.assert_allclose(tokens.boxes, [[0.1, 0.1, 0.5, 0.5], [0, 0, 1, 0.2]], atol=1e-7)
    assert OcrFile(tmp_path).read("hall").texts == ()
    assert OcrFile(tmp_path).read("hall").boxes.shape == (0, 4)


def test_tokens_that_are_missing_or_damaged_are_named(tmp_path):
    write_ocr(tmp_path / "ocr.jsonl", {"room": []})
    with pytest.raises(UserError, match="ocr.jsonl has nothing for the picture 'hall'"):
        OcrFile(tmp_path).read("hall")
    with pytest.raises(UserError, match="Cannot read the OCR tokens .*absent.jsonl: No such file"):
        OcrFile(tmp_path / "absent.jsonl").read("hall")
    for line in (
        '{"name": "a", "width": 3, "height": 4}',
        "{",
        '{"name": "a", "width": 1, "height": 1, "tokens": [{}]}',
        "3",
    ):
        (tmp_path / "bad.jsonl").write_text(f"\n{line}\n")
        with pytest.raises(UserError, match="bad.jsonl, line 2 is no picture with name, width, height and tokens"):
            OcrFile(tmp_path / "bad.jsonl").read("a")
