"""What would an object detector report about a scene? Boxes, labels, attributes, confidences and feature vectors.

Its mistakes are those of a real one: shifted boxes, several boxes for one thing, things overlooked, boxes around
nothing, a wrong label here and there. `features` says what a feature vector holds; each box gets noise of
its own on top.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .features import (
    Floats,
    check_positive,
    encode_boxes,
    generator,
    hint_code,
    noise_level,
    projection,
    room_code,
    scene_truth,
)
from .world import COLORS, KINDS, Scene

_KIND_NAMES = tuple(KINDS)

_MISSED = 0.05
_WRONG = 0.05
_JITTER = 0.06
_BACKGROUND_SHARE = 0.15


@dataclass(frozen=True)
class Detections:
    """The boxes of one scene, from the most to the least confident."""

    boxes: Floats
    """r 4: x1, y1, x2, y2 in [0, 1]."""
    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    """A colour for each box."""
    label_conf: Floats
    attribute_conf: Floats
    features: Floats
    """r f."""
    thing: NDArray[np.int64]
    """Which thing of the scene a box shows; -1 for none."""


def detect(scene: Scene, *, count: int = 36, dim: int = 128) -> Detections:
    """Exactly `count` boxes. Depends on the scene's seed, split and index, its things, `count` and `dim` only."""
    check_positive(count=count, dim=dim)
    rng = generator(scene, "detections")
    truth = scene_truth(scene)
    owner = _owners(truth.boxes, count, rng)
    chance = rng.random((8, count), dtype=np.float32)
    label_conf, attribute_conf = _confidences(owner >= 0, chance[0:2], chance[2:4] < _WRONG)
    order = np.argsort(-label_conf, kind="stable")
    owner, chance, label_conf, attribute_conf = owner[order], chance[:, order], label_conf[order], attribute_conf[order]

    real = owner >= 0
    kinds = np.where(real, truth.kinds[owner], (chance[4] * len(KINDS)).astype(np.int64))
    colors = np.where(real, truth.colors[owner], (chance[5] * len(COLORS)).astype(np.int64))
    boxes = _boxes(truth.boxes[owner], real, rng)

    features = rng.standard_normal((count, dim), dtype=np.float32)
    features *= noise_level(dim)
    features += room_code(scene.room, dim)
    features += encode_boxes(boxes, dim)
    features[real] += (truth.content @ projection(dim))[owner[real]]
    features[~real] += _BACKGROUND_SHARE * hint_code(kinds[~real], colors[~real], dim)
    return Detections(
        boxes=boxes,
        labels=tuple([_KIND_NAMES[i] for i in _spoil(kinds, chance[2], chance[6], len(KINDS))]),
        attributes=tuple([COLORS[i] for i in _spoil(colors, chance[3], chance[7], len(COLORS))]),
        label_conf=label_conf,
        attribute_conf=attribute_conf,
        features=features,
        thing=owner,
    )


def _owners(boxes: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which thing each box shows: one to four boxes per detected thing, more for large ones, the rest shows nothing."""
    seen, more = rng.random((2, len(boxes)))
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    copies = (more * np.minimum(4.0, 2.2 + 50 * area)).astype(np.int64)
    seen[seen.argmax()] = 1.0
    found = rng.permutation(np.flatnonzero(seen >= _MISSED))
    again = rng.permutation(np.repeat(found, copies[found]))
    owners = np.full(count, -1, dtype=np.int64)
    known = np.concatenate([found, again])[:count]
    owners[: len(known)] = known
    return owners


def _boxes(true: Floats, real: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """True boxes with shaken edges; boxes around nothing get a random place and extent."""
    extent = true[:, 2:] - true[:, :2]
    shaken = true + _JITTER * np.hstack([extent, extent]) * rng.standard_normal(true.shape, dtype=np.float32)
    place = rng.random(true.shape, dtype=np.float32)
    wide = 0.05 + 0.35 * place[:, 2:]
    start = place[:, :2] * (1 - wide)
    return np.where(real[:, None], shaken, np.hstack([start, start + wide])).clip(0.0, 1.0)


def _confidences(
    real: NDArray[np.bool_], chance: Floats, wrong: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Of labels and attributes: high for real things, lower where the detector is wrong, low around nothing."""
    right = 0.5 + 0.49 * np.sqrt(chance)
    confidence = np.where(real, np.where(wrong, 0.6 * right, right), 0.05 + 0.35 * chance)
    return confidence[0], confidence[1]


def _spoil(numbers: NDArray[np.int64], chance: Floats, step: Floats, total: int) -> list[int]:
    """The numbers, some of them replaced by another one below `total`."""
    other = (numbers + 1 + (step * (total - 1)).astype(np.int64)) % total
    return np.where(chance < _WRONG, other, numbers).tolist()
