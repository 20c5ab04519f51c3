"""Where are the regions of a data set? Opens whatever a path points at: TSV, HDF5, or a folder with a file per picture.

- `x.tsv`, `x.tsv.0` and so on, or a folder of them: bottom-up features, with or without labels (`region_tsv`).
- `x.h5` or `x.hdf5`: one file of ours (`region_hdf5`).
- A folder of `<picture>.npz`, folders inside it included: one file of ours per picture (`regions.write_npz`).
- A folder with `att` and `box_relative` (or `box`) inside, or with `x_att` and `x_box_relative`; or the path of `x_att`, or `x`
  alone: what the object-relation transformer prepares. Features are `<id>.npz` (`feat`) or `<id>.npy`, boxes `<id>.npy`;
  there are no labels. Boxes of `box` are pixels and need the picture's size from elsewhere.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lit_attn.data.region_base import RegionStore, Size
from lit_attn.data.region_hdf5 import Hdf5Regions
from lit_attn.data.region_tsv import TsvRegions
from lit_attn.data.regions import Regions, read_npz
from lit_attn.errors import UserError


def open_regions(path: Path) -> RegionStore:
    """The regions at `path`, by what it is."""
    features = _features_folder(path)
    if features is not None:
        return PreparedRegions(path, features)
    if path.is_dir():
        tables = sorted(file for file in path.iterdir() if ".tsv" in file.suffixes)
        if tables:
            return TsvRegions(path, tables)
        return NpzRegions(path)
    if not path.exists():
        raise UserError(f"There are no regions at {path}: no such file or folder.")
    if path.suffix in (".h5", ".hdf5"):
        return Hdf5Regions(path)
    if ".tsv" in path.suffixes:
        return TsvRegions(path, [path])
    raise UserError(f"Regions are a .tsv, .h5 or .hdf5 file, or a folder; {path} is none of them.")


class NpzRegions(RegionStore):
    """A folder with one npz file of ours per picture."""

    def __init__(self, path: Path) -> None:
        files = (file for file in path.rglob("*.npz") if file.name[0] != ".")
        names = sorted(file.relative_to(path).with_suffix("").as_posix() for file in files)
        if not names:
            raise UserError(
                f"The folder {path} holds no regions: neither .npz files, nor .tsv files, nor the folders att and box."
            )
        super().__init__(path, names)

    def read(self, name: str, size: Size | None = None) -> Regions:
        return read_npz(self.path / f"{name}.npz")


class PreparedRegions(RegionStore):
    """Folders of features and boxes, one file each per picture."""

    def __init__(self, path: Path, features: Path) -> None:
        prefix = features.name.removesuffix("att")
        relative, pixels = (features.with_name(f"{prefix}{kind}") for kind in ("box_relative", "box"))
        self.features = features
        self.needs_size = not relative.is_dir()
        self.boxes = pixels if self.needs_size else relative
        if not self.boxes.is_dir():
            raise UserError(f"{features} has no boxes beside it: expected the folder {relative} or {pixels}.")
        super().__init__(path, _stems(features, (".npz", ".npy")))

    def read(self, name: str, size: Size | None = None) -> Regions:
        if self.needs_size and size is None:
            raise UserError(
                f"The boxes of {name} in {self.boxes} are pixels, and the size of the picture is not known. "
                f"Give the pictures (data.images), or the folder {self.boxes}_relative."
            )
        packed = self.features / f"{name}.npz"
        features = _load(packed, "feat") if packed.exists() else _load(packed.with_suffix(".npy"))
        boxes = _load(self.boxes / f"{name}.npy")
        width, height = size if self.needs_size and size is not None else (1.0, 1.0)
        return Regions(name, features.astype(np.float32), boxes.astype(np.float32), width, height)


def _features_folder(path: Path) -> Path | None:
    """The folder of features, if `path` means folders of features and boxes."""
    if path.is_dir():
        inside = sorted(folder for folder in path.iterdir() if _is_features(folder) and folder.is_dir())
        if len(inside) > 1:
            names = ", ".join(folder.name for folder in inside)
            raise UserError(f"{path} holds several folders of features ({names}). Name one: {inside[0]}.")
        return inside[0] if inside else path if _is_features(path) and _has_boxes(path) else None
    beside = path.with_name(f"{path.name}_att")
    return beside if beside.is_dir() else None


def _is_features(folder: Path) -> bool:
    return folder.name == "att" or folder.name.endswith("_att")


def _has_boxes(features: Path) -> bool:
    prefix = features.name.removesuffix("att")
    return any(features.with_name(f"{prefix}{kind}").is_dir() for kind in ("box_relative", "box"))


def _stems(folder: Path, suffixes: tuple[str, ...]) -> list[str]:
    return sorted({path.stem for path in folder.iterdir() if path.suffix in suffixes and path.name[0] != "."})


def _load(path: Path, name: str | None = None) -> NDArray[np.floating]:
    """One array, or the one called `name` in an npz file. Nothing in the file is unpickled."""
    try:
        loaded = np.load(path, allow_pickle=False)
        return loaded if name is None else loaded[name]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # zipfile and numpy raise many kinds for a damaged file
        raise UserError(f"{path} is no complete file of numbers{f' named {name}' if name else ''}: {error}.") from error
