"""What does a feature vector say? The shared code of detections and grids: a fixed random projection of what is shown.

Kind, colour, material, size, room and printed word are one-hot, weighted, and projected to any width by a table that is
the same in every run; place and extent are added as a smooth code. The noise is added by those who use it.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .rooms import digest
from .world import COLORS, KINDS, MATERIALS, ROOMS, SIZES, WORDS, Scene, Thing

Floats = NDArray[np.float32]

_MATERIAL_NAMES = (*MATERIALS, None)
_BLOCKS = {
    "kind": (len(KINDS), 0.56),
    "color": (len(COLORS), 0.36),
    "material": (len(_MATERIAL_NAMES), 0.3),
    "size": (len(SIZES), 0.25),
    "room": (len(ROOMS), 0.15),
    "word": (len(WORDS), 0.3),
}
"""Entries and weight of each one-hot part of what a feature vector shows."""
_STARTS = dict(zip(_BLOCKS, np.cumsum([0, *(width for width, _ in _BLOCKS.values())]).tolist(), strict=False))
_WIDTH = sum(width for width, _ in _BLOCKS.values())
_INDEX: dict[str, dict[str | None, int]] = {
    "kind": {name: _STARTS["kind"] + i for i, name in enumerate(KINDS)},
    "color": {name: _STARTS["color"] + i for i, name in enumerate(COLORS)},
    "material": {name: _STARTS["material"] + i for i, name in enumerate(_MATERIAL_NAMES)},
    "size": {name: _STARTS["size"] + i for i, name in enumerate(SIZES)},
    "room": {name: _STARTS["room"] + i for i, name in enumerate(ROOMS)},
    "word": {name: _STARTS["word"] + i for i, name in enumerate(WORDS)},
}
_FREQUENCIES = np.array([1.0, 2.0, 4.0], dtype=np.float32) * np.pi

_NOISE = 0.8
_POSITION_WEIGHT = 0.6


def generator(scene: Scene, purpose: str) -> np.random.Generator:
    """Random numbers that depend on the scene's name and the purpose only."""
    return np.random.Generator(np.random.SFC64(digest(scene.seed, scene.split, scene.index, purpose)))


@dataclass(frozen=True)
class SceneTruth:
    """A scene's things as arrays."""

    boxes: Floats
    kinds: NDArray[np.int64]
    colors: NDArray[np.int64]
    content: Floats
    """One-hot parts side by side, to be multiplied with `projection`."""


def scene_truth(scene: Scene) -> SceneTruth:
    """What there is, before anything is overlooked or mistaken."""
    entries = [_entries(thing) for thing in scene.things]
    content = np.zeros((len(entries), _WIDTH), dtype=np.float32)
    content[[row for row, some in enumerate(entries) for _ in some], [entry for some in entries for entry in some]] = 1
    kinds = np.array([some[0] for some in entries])
    colors = np.array([some[1] for some in entries]) - _STARTS["color"]
    return SceneTruth(np.array([thing.box for thing in scene.things], dtype=np.float32), kinds, colors, content)


def _entries(thing: Thing) -> list[int]:
    """Columns of the parts that are 1: kind, colour, material, size and, if there is one, word."""
    entries = [
        _INDEX["kind"][thing.kind],
        _INDEX["color"][thing.color],
        _INDEX["material"][thing.material],
        _INDEX["size"][thing.size],
    ]
    if thing.word is not None:
        known = _INDEX["word"].get(thing.word)
        entries.append(_STARTS["word"] + digest(thing.word) % len(WORDS) if known is None else known)
    return entries


@cache
def projection(dim: int) -> Floats:
    """One row per entry of a thing's one-hot parts, already weighted; the same in every run. Do not write to it."""
    rng = np.random.default_rng(digest("projection", dim))
    weights = np.concatenate([np.full(width, weight) for width, weight in _BLOCKS.values()])
    table = (rng.standard_normal((_WIDTH, dim)) * weights[:, None]).astype(np.float32)
    table.flags.writeable = False
    return table


def room_code(room: str, dim: int) -> Floats:
    """What every vector of a scene has in common."""
    return projection(dim)[_INDEX["room"][room]]


def hint_code(kinds: NDArray[np.int64], colors: NDArray[np.int64], dim: int) -> Floats:
    """Of kinds and colours, given by their numbers, alone."""
    table = projection(dim)
    return table[kinds] + table[_STARTS["color"] + colors]


@cache
def _position_projection(purpose: str, dim: int) -> Floats:
    rng = np.random.default_rng(digest(purpose, dim))
    rows = 6 * (1 + 2 * len(_FREQUENCIES))
    return (rng.standard_normal((rows, dim)) * _POSITION_WEIGHT / rows**0.5).astype(np.float32)


def encode_boxes(boxes: Floats, dim: int, purpose: str = "position") -> Floats:
    """A smooth code of place and extent: corners, width and height with sines and cosines of them, projected."""
    raw = np.concatenate([boxes, boxes[:, 2:] - boxes[:, :2]], axis=1)
    waves = (raw[:, :, None] * _FREQUENCIES).reshape(len(raw), -1)
    return np.concatenate([raw, np.sin(waves), np.cos(waves)], axis=1) @ _position_projection(purpose, dim)


def noise_level(dim: int) -> np.float32:
    """Standard deviation of the noise: it grows with the width, so that what can be read stays the same."""
    return np.float32(_NOISE * (dim / 128) ** 0.5)


def check_positive(**sizes: int) -> None:
    """An error for the first size below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, but is {value}. Pass a positive {name} or leave it out.")
