"""Region files in the public layouts, written the way the original scripts write them."""

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lit_attn.data.regions import Regions

DIM = 11


def some_regions(name: str, count: int = 7, labels: bool = True, dim: int = DIM) -> Regions:
    """Random detections: some boxes reach out of the picture, and one has no size."""
    random = np.random.default_rng([count, *name.encode()])
    corners = random.uniform(-20, 250, (count, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 130, (count, 2))], 1).astype(np.float32)
    if count:
        boxes[-1, 2:] = boxes[-1, :2]
    return Regions(
        name=name,
        features=random.standard_normal((count, dim)).astype(np.float32),
        boxes=boxes,
        width=317.0,
        height=211.0,
        objects=random.integers(0, 1600, count) if labels else None,
        objects_conf=random.random(count, np.float32) if labels else None,
        attributes=random.integers(0, 400, count) if labels else None,
        attributes_conf=random.random(count, np.float32) if labels else None,
    )


def same(a: Regions, b: Regions) -> None:
    """Fails unless both hold the same numbers."""
    for field in ("features", "boxes", "objects", "objects_conf", "attributes", "attributes_conf"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
    assert (a.width, a.height) == (b.width, b.height)
    assert (a.object_names, a.attribute_names) == (b.object_names, b.attribute_names)


def tsv_line(regions: Regions) -> str:
    def encoded(array: np.ndarray) -> str:
        return base64.b64encode(np.ascontiguousarray(array)).decode()

    size = {"w": f"{regions.width:.0f}", "h": f"{regions.height:.0f}"}
    arrays = [str(len(regions)), encoded(regions.boxes), encoded(regions.features)]
    if regions.objects is None:
        return "\t".join([regions.name, size["w"], size["h"], *arrays])
    labels = (regions.objects, regions.objects_conf, regions.attributes, regions.attributes_conf)
    return "\t".join([regions.name, size["h"], size["w"], *map(encoded, labels), *arrays])


def write_tsv(path: Path, pictures: Sequence[Regions]) -> None:
    path.write_text("".join(f"{tsv_line(regions)}\n" for regions in pictures))


def write_prepared(folder: Path, pictures: Sequence[Regions], relative: bool, prefix: str = "") -> None:
    """Folders `att` and `box` or `box_relative`, a file each per picture."""
    att, box = folder / f"{prefix}att", folder / f"{prefix}{'box_relative' if relative else 'box'}"
    att.mkdir(parents=True)
    box.mkdir()
    for regions in pictures:
        np.savez_compressed(att / f"{regions.name}.npz", feat=regions.features)
        size = np.array([regions.width, regions.height] * 2)
        np.save(box / f"{regions.name}.npy", np.clip(regions.boxes / size, 0.0, 1.0) if relative else regions.boxes)
