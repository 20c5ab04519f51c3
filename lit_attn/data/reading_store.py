"""What did a detector see in a picture that is asked about? Features by picture, from LMDB or from any store of regions.

LMDB as MMF distributes it has keys such as `train/<image id>` and pickled dicts with `features`, mostly with `image_height`,
`image_width` and `bbox`; that of the 2022 comparison has a list of keys under `keys`, and `features`, `boxes`, `image_h` and
`image_w`. Label ids, if there are any, are called `objects`, as MMF writes them. Pickles are read by the restricted reader.
Anything else is what `region_store` opens.

An LMDB is opened anew for every picture, which takes a tenth of a millisecond: an open one must not be carried over into
the processes of a loader, nor be opened twice in one.
"""

import base64
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lit_attn.data.picture_names import PictureNames
from lit_attn.data.region_base import RegionStore
from lit_attn.data.region_labels import LabelNames
from lit_attn.data.region_store import open_regions
from lit_attn.data.regions import Labelled
from lit_attn.errors import UserError
from lit_attn.unpickle import unpickled

Floats = NDArray[np.float32]
KEYS = b"keys"
_DETECTOR_DIM = 2048
"""Width of features whose array is flat."""


@dataclass(frozen=True)
class SeenRegions:
    """What was detected in a picture."""

    features: Floats
    boxes: Floats | None
    """Relative to the picture, where the store tells."""
    labels: tuple[str, ...] = ()
    """What each region is called; empty without labels."""
    labelled: Labelled = "nothing"


class FeatureStore(ABC):
    """Features by picture. Pictures are looked up by the rule of `picture_names`."""

    path: Path

    @abstractmethod
    def find(self, *keys: str) -> str | None:
        """What the store calls a picture that is known under `keys`, or None."""

    @abstractmethod
    def not_found(self, *keys: str) -> UserError:
        """What to say of a picture that `find` does not find."""

    @abstractmethod
    def read(self, name: str) -> SeenRegions:
        """The regions of a picture that is listed as `name`."""

    @property
    @abstractmethod
    def dim(self) -> int: ...


def open_features(path: Path, names: LabelNames | None = None) -> FeatureStore:
    """The features at `path`, by what it is; `names` are those of its label ids."""
    if path.suffix in (".lmdb", ".mdb") or (path / "data.mdb").exists():
        return LmdbFeatures(path, names)
    return RegionFeatures(open_regions(path), names)


class RegionFeatures(FeatureStore):
    """Those of a store of regions. Boxes are relative already, or the file tells the picture's size."""

    def __init__(self, store: RegionStore, names: LabelNames | None = None) -> None:
        self.store = store
        self.path = store.path
        self.names = names or LabelNames()

    def find(self, *keys: str) -> str | None:
        return self.store.find(*keys)

    def not_found(self, *keys: str) -> UserError:
        return self.store.not_found(*keys)

    def read(self, name: str) -> SeenRegions:
        regions = self.store.read(name)
        return SeenRegions(regions.features, regions.relative_boxes, self.names.of(regions), regions.labelled)

    @property
    def dim(self) -> int:
        return self.store.dim


class LmdbFeatures(FeatureStore):
    """A public LMDB, a folder or a single file."""

    def __init__(self, path: Path, names: LabelNames | None = None) -> None:
        _package(path)
        if not path.exists():
            raise UserError(f"There are no features at {path}: no such file or folder.")
        self.path = path
        self.names = names or LabelNames()

    def find(self, *keys: str) -> str | None:
        return self._names.find(*keys)

    def not_found(self, *keys: str) -> UserError:
        return self._names.not_found(*keys)

    def read(self, name: str) -> SeenRegions:
        where = f"{self.path}, picture {name!r},"
        entry = unpickled(self._get(name.encode()) or b"", where)
        try:
            return _regions(entry, self.names)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{where} is no dict with features r x f, and boxes r x 4 if any: {error!r}.") from error

    @cached_property
    def dim(self) -> int:
        return int(self.read(self._names.names[0]).features.shape[1])

    @cached_property
    def _names(self) -> PictureNames:
        listed = self._get(KEYS)
        if listed is None:
            with self._open() as opened, opened.begin() as reading:
                names = [bytes(key).decode() for key in reading.cursor().iternext(keys=True, values=False)]
        else:
            keys = unpickled(listed, f"{self.path}, its list of keys,")
            names = [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
        if not names:
            raise UserError(f"{self.path} holds no features of any picture.")
        return PictureNames(names, str(self.path))

    def _get(self, key: bytes) -> bytes | None:
        with self._open() as opened, opened.begin() as reading:
            return reading.get(key)

    def _open(self) -> Any:
        options = {"readonly": True, "lock": False, "readahead": False, "meminit": False}
        lmdb = _package(self.path)
        try:
            return lmdb.open(str(self.path), subdir=self.path.is_dir(), **options)
        except lmdb.Error as error:
            raise UserError(f"{self.path} is no LMDB: {error}.") from error


def _package(path: Path) -> Any:
    try:
        return importlib.import_module("lmdb")
    except ImportError as error:
        raise UserError(f"{path} needs the package lmdb (pip install lmdb).") from error


def _regions(entry: Mapping[str, Any], names: LabelNames) -> SeenRegions:
    features = _numbers(entry["features"])
    count = int(entry.get("num_boxes", len(features) if features.ndim == 2 else features.size // _DETECTOR_DIM))
    features = features[:count] if features.ndim == 2 else features.reshape(count, -1)
    height, width = (entry.get(f"image_{side[0]}", entry.get(f"image_{side}")) for side in ("height", "width"))
    boxes, ids = entry.get("boxes", entry.get("bbox")), entry.get("objects")
    labels = () if ids is None else names.of_ids(np.asarray(ids, np.int64)[:count])
    labelled: Labelled = "nothing" if ids is None else "ids"
    if boxes is None or height is None or width is None:
        return SeenRegions(features, None, labels, labelled)
    size = np.array([width, height] * 2, np.float32)
    return SeenRegions(features, (_numbers(boxes).reshape(-1, 4)[:count] / size).clip(0.0, 1.0), labels, labelled)


def _numbers(values: Any) -> Floats:
    """An array, or one that is packed as base64 of float32."""
    if isinstance(values, bytes | str):
        return np.frombuffer(base64.b64decode(values), np.float32)
    return np.asarray(values, np.float32)
