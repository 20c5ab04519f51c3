"""How do the regions of many pictures fit into one file? As HDF5, a group per picture.

The group has the picture's name and holds the arrays of `regions.write_npz` under the same names: `feat` [r, f] and `bbox`
[r, 4] in pixels, always; `objects`, `objects_conf`, `attr`, `attr_conf` [r] and `object_names`, `attr_names` [r] where they
are known. The attributes `image_w` and `image_h` are the picture's size.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from lit_attn.data.region_base import RegionStore, Size
from lit_attn.data.regions import Regions
from lit_attn.errors import UserError


def write_hdf5(pictures: Iterable[Regions], path: Path, half: bool = False) -> None:
    """Writes to a temporary name first, so that a killed extraction leaves no broken file."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(unfinished, "w") as file:
        for regions in pictures:
            if regions.name in file or "/" in regions.name or regions.name in ("", "."):
                raise UserError(f"{path} cannot hold a picture named {regions.name!r}: names are unique, without '/'.")
            group = file.create_group(regions.name)
            group.attrs["image_w"], group.attrs["image_h"] = regions.width, regions.height
            group["feat"] = regions.features.astype(np.float16 if half else np.float32)
            group["bbox"] = regions.boxes
            labels = {
                "objects": regions.objects,
                "objects_conf": regions.objects_conf,
                "attr": regions.attributes,
                "attr_conf": regions.attributes_conf,
            }
            for name, values in labels.items():
                if values is not None:
                    group[name] = values
            for name, words in (("object_names", regions.object_names), ("attr_names", regions.attribute_names)):
                if words is not None:
                    group.create_dataset(name, data=np.array(words, object), dtype=h5py.string_dtype())
    unfinished.replace(path)


class Hdf5Regions(RegionStore):
    """A file that `write_hdf5` wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[int, h5py.File] = {}
        super().__init__(path, list(self._file))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_files": {}}

    @property
    def _file(self) -> h5py.File:
        """Open in this very process: HDF5 must not read from a file that a parent process opened."""
        process = os.getpid()
        if process not in self._files:
            try:
                self._files[process] = h5py.File(self.path, "r")
            except OSError as error:
                raise UserError(f"{self.path} is no complete HDF5 file of regions: {error}.") from error
        return self._files[process]

    def read(self, name: str, size: Size | None = None) -> Regions:
        group = self._file[name]
        missing = {"feat", "bbox"} - set(group) | {"image_w", "image_h"} - set(group.attrs)
        if missing:
            raise UserError(f"{self.path}: the picture {name} lacks {', '.join(sorted(missing))}.")

        def rows(key: str, dtype: type) -> NDArray[Any] | None:
            return group[key][:].astype(dtype) if key in group else None

        def words(key: str) -> tuple[str, ...] | None:
            return tuple(group[key].asstr()[:]) if key in group else None

        return Regions(
            name=name,
            features=group["feat"][:].astype(np.float32),
            boxes=group["bbox"][:].astype(np.float32),
            width=float(group.attrs["image_w"]),
            height=float(group.attrs["image_h"]),
            objects=rows("objects", np.int64),
            objects_conf=rows("objects_conf", np.float32),
            attributes=rows("attr", np.int64),
            attributes_conf=rows("attr_conf", np.float32),
            object_names=words("object_names"),
            attribute_names=words("attr_names"),
        )
