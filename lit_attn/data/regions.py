"""What did a detector find in a picture? Its regions, and the npz file that holds those of one picture.

The file is that of the probing study (`feat`, `bbox`, `num_bbox`, `image_id`, `image_h`, `image_w`, `objects`, `attr`,
`attr_conf`) with `objects_conf` and, where a detector has names of its own, `object_names` and `attr_names`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lit_attn.errors import UserError
from lit_attn.files import written_whole

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

Labelled = Literal["names", "ids", "nothing"]
"""What regions are labelled with."""

ATTRIBUTE_THRESHOLD = 0.1
"""An attribute is part of a description only above this confidence."""


@dataclass(frozen=True)
class Regions:
    """Detections of one picture."""

    name: str
    """The picture's id, as the file that lists it spells it."""
    features: Floats
    """r f."""
    boxes: Floats
    """r 4: x1, y1, x2, y2 in pixels."""
    width: float
    height: float
    objects: Ints | None = None
    """Label ids, counted from 0, without a background class."""
    objects_conf: Floats | None = None
    attributes: Ints | None = None
    attributes_conf: Floats | None = None
    object_names: tuple[str, ...] | None = None
    """Labels by region where the detector has its own names; else ids are looked up in the 1600 and 400 public names."""
    attribute_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.boxes.shape != (len(self.features), 4):
            raise UserError(
                f"The regions of {self.name} need features r x f and boxes r x 4, "
                f"got {self.features.shape} and {self.boxes.shape}."
            )
        if self.width <= 0 or self.height <= 0:
            raise UserError(f"The picture {self.name} has the size {self.width} x {self.height}.")
        if not np.isfinite(self.boxes).all() or not np.isfinite(self.features).all():
            raise UserError(f"The regions of {self.name} contain NaN or infinity. Extract them again.")

    def __len__(self) -> int:
        return len(self.features)

    @property
    def relative_boxes(self) -> Floats:
        """Boxes over the picture's size, cut at its border."""
        size = np.array([self.width, self.height] * 2, np.float32)
        return (self.boxes / size).clip(0.0, 1.0)

    @property
    def labelled(self) -> Labelled:
        if self.object_names is not None:
            return "names"
        return "nothing" if self.objects is None else "ids"

    def described(
        self,
        object_names: tuple[str, ...] = (),
        attribute_names: tuple[str, ...] = (),
        threshold: float = ATTRIBUTE_THRESHOLD,
    ) -> tuple[str, ...]:
        """Per region, such as "red chair": the attribute if its confidence is above the threshold, then the label. Empty
        without labels."""
        labels = self.object_names or look_up(self.objects, object_names, "object")
        attributes = self.attribute_names or look_up(self.attributes, attribute_names, "attribute")
        if not labels:
            return ()
        if not attributes or self.attributes_conf is None:
            return labels
        sure = self.attributes_conf > threshold
        return tuple(f"{a} {o}" if s else o for a, o, s in zip(attributes, labels, sure, strict=True))


def look_up(ids: Ints | None, names: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The names of ids; "object 7" for one without a name."""
    if ids is None:
        return ()
    return tuple(names[i] if 0 <= i < len(names) else f"{kind} {i}" for i in ids.tolist())


def read_label_names(path: Path) -> tuple[str, ...]:
    """The public lists of 1600 objects or 400 attributes: one per line, synonyms after commas."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"Cannot read the label names {path}: {error.strerror}.") from error
    return tuple(line.split(",")[0].strip() for line in lines if line.strip())


def write_npz(regions: Regions, path: Path, half: bool = False) -> None:
    """A killed extraction leaves no broken file."""
    arrays: dict[str, Any] = {
        "feat": regions.features.astype(np.float16 if half else np.float32),
        "bbox": regions.boxes,
        "num_bbox": np.int64(len(regions)),
        "image_id": np.str_(regions.name),
        "image_h": np.float32(regions.height),
        "image_w": np.float32(regions.width),
        "objects": regions.objects,
        "objects_conf": regions.objects_conf,
        "attr": regions.attributes,
        "attr_conf": regions.attributes_conf,
        "object_names": None if regions.object_names is None else np.array(regions.object_names, np.str_),
        "attr_names": None if regions.attribute_names is None else np.array(regions.attribute_names, np.str_),
    }
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **{name: value for name, value in arrays.items() if value is not None})


def read_npz(path: Path) -> Regions:
    """One picture's regions. Nothing in the file is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise UserError(f"Cannot read the regions {path}: {error.strerror or error}.") from error
    except Exception as error:  # zipfile and numpy raise many kinds for a damaged file
        raise UserError(f"{path} is no complete npz file of regions: {error}.") from error
    missing = {"feat", "bbox", "image_h", "image_w"} - arrays.keys()
    if missing:
        raise UserError(f"{path} lacks {', '.join(sorted(missing))}; it holds {', '.join(sorted(arrays))}.")
    count = int(arrays.get("num_bbox", len(arrays["feat"])))

    def rows(name: str, dtype: type) -> NDArray[Any] | None:
        return arrays[name][:count].astype(dtype) if name in arrays else None

    def names(name: str) -> tuple[str, ...] | None:
        return tuple(map(str, arrays[name][:count].tolist())) if name in arrays else None

    return Regions(
        name=str(arrays.get("image_id", path.stem)),
        features=arrays["feat"][:count].astype(np.float32),
        boxes=arrays["bbox"][:count].astype(np.float32),
        width=float(arrays["image_w"]),
        height=float(arrays["image_h"]),
        objects=rows("objects", np.int64),
        objects_conf=rows("objects_conf", np.float32),
        attributes=rows("attr", np.int64),
        attributes_conf=rows("attr_conf", np.float32),
        object_names=names("object_names"),
        attribute_names=names("attr_names"),
    )
