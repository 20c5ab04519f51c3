"""Are grids found by number in public files and by name in ours, read as they are, and are broken files named?"""

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from lit_attn.data.grid_store import GridStore
from lit_attn.errors import UserError

SHAPE = (5, 7, 3, 2)
NAMES = ("train/a", "train/b", "val/a", "c", "deep/er/d")


def values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def write(path: Path, dataset: str = "features", names=None, done=None, **arrays) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in ({dataset: values()} | arrays).items():
            file[name] = array
        if names is not None:
            file.create_dataset("names", data=np.array(names, object), dtype=h5py.string_dtype())
        if done is not None:
            file["done"] = np.array(done)
    return path


@pytest.mark.parametrize("dataset", ["features", "data"])
def test_public_files_are_indexed_by_number(tmp_path, dataset):
    store = GridStore(write(tmp_path / "x.h5", dataset))
    assert (len(store), store.shape, store.names) == (5, (7, 3, 2), None)
    for index, expected in enumerate(values()):
        grid = store.read(store.row(index, "whatever"))
        np.testing.assert_array_equal(grid, expected)
    for index in (5, -1):
        with pytest.raises(UserError, match=rf"x\.h5 has 5 rows, none for image_index {index} \(some\)"):
            store.row(index, "some")


def test_half_precision_comes_back_as_float32(tmp_path):
    store = GridStore(write(tmp_path / "x.h5", features=values().astype(np.float16)))
    assert store.read(2).dtype == np.float32
    np.testing.assert_array_equal(store.read(2), values()[2].astype(np.float16))


def test_our_files_are_indexed_by_name(tmp_path):
    store = GridStore(write(tmp_path / "x.h5", names=NAMES, done=[True, True, True, False, True]))
    assert [store.row(0, name) for name in ("train/a", "b", "val/a", "d", "deep/er/d")] == [0, 1, 2, 4, 4]
    with pytest.raises(UserError, match=r"x\.h5 has several grids of the picture 'a' among its 5, such as 'train/a'"):
        store.row(0, "a")
    with pytest.raises(UserError, match=r"x\.h5 has no grid of the picture 'e'"):
        store.row(0, "e")
    with pytest.raises(
        UserError, match=r"the grid of the picture 'c' is not there yet. The same lit-attn extract grid"
    ):
        store.row(3, "c")


def test_workers_open_the_file_themselves(tmp_path):
    class Grids(Dataset):
        def __init__(self) -> None:
            self.store = GridStore(write(tmp_path / "x.h5"))
            self.store.read(0)

        def __len__(self) -> int:
            return len(self.store)

        def __getitem__(self, index):
            grid = self.store.read(index)
            assert os.getpid() in self.store._files, "HDF5 must not read what a parent process opened"
            return grid

    loader = DataLoader(Grids(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    np.testing.assert_array_equal(np.stack(list(loader)), values())
    assert pickle.loads(pickle.dumps(loader.dataset.store))._files == {}  # noqa: S301


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((5, 7, 6), np.float32), r"'features' holds float32 of shape \(5, 7, 6\); expected floats"),
        (np.zeros(SHAPE, np.int64), "'features' holds int64"),
        (np.zeros((0, 7, 3, 2), np.float32), r"shape \(0, 7, 3, 2\)"),
        (np.zeros((5, 3, 3, 7), np.float32), r"expected floats \[pictures, channels, rows, columns\]"),
    ],
)
def test_other_arrays_are_refused(tmp_path, array, says):
    store = GridStore(write(tmp_path / "x.h5", features=array))
    with pytest.raises(UserError, match=says):
        store.read(0)


def test_broken_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"There is no file of grids .*none\.h5. Make one with lit-attn extract grid"):
        len(GridStore(tmp_path / "none.h5"))
    with pytest.raises(UserError, match=r"x\.h5 has no dataset 'features' or 'data'; it holds images"):
        len(GridStore(write(tmp_path / "x.h5", "images")))
    content = write(tmp_path / "y.h5").read_bytes()
    (tmp_path / "y.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"y\.h5 is no complete HDF5 file of grids"):
        len(GridStore(tmp_path / "y.h5"))
    with pytest.raises(UserError, match=r"z\.h5 has 5 rows, but 4 names"):
        GridStore(write(tmp_path / "z.h5", names=NAMES[:4])).row(0, "b")
    with pytest.raises(UserError, match=r"n\.h5: row 3 holds NaN or infinity"):
        GridStore(write(tmp_path / "n.h5", features=np.full(SHAPE, np.nan, np.float32))).read(3)
