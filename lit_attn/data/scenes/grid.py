"""What would a convolutional network see in each cell of a picture? Grid features of a scene.

A cell shows the things that cover it, each weighted by the share of the cell that it takes and nothing nearer takes: a
cell that one thing fills shows the front-most one alone. It also shows where each of them begins and ends, because what a
deep network sees in a cell comes from far around it. Place, room and noise are added as in detections.
"""

from functools import cache

import numpy as np

from .features import (
    Floats,
    check_positive,
    encode_boxes,
    generator,
    noise_level,
    projection,
    room_code,
    scene_truth,
)
from .rooms import paint_order
from .world import Scene

_NOISE_SHARE = 0.5


def grid(scene: Scene, *, side: int = 14, dim: int = 64) -> Floats:
    """Features of `side` × `side` cells: dim, y, x."""
    check_positive(side=side, dim=dim)
    truth = scene_truth(scene)
    weights = visible_shares(scene, side).reshape(len(scene.things), -1)
    things = truth.content @ projection(dim) + encode_boxes(truth.boxes, dim, "extent")
    cells = weights.T @ things + _cell_codes(side, dim) + room_code(scene.room, dim)
    noise = generator(scene, "grid").standard_normal(cells.shape, dtype=np.float32)
    cells += _NOISE_SHARE * noise_level(dim) * noise
    return np.ascontiguousarray(cells.T).reshape(dim, side, side)


def visible_shares(scene: Scene, side: int) -> Floats:
    """How much of each cell each thing takes, what nearer things cover left out: things, y, x."""
    boxes = np.array([thing.box for thing in scene.things], dtype=np.float32)
    edges = np.arange(side + 1, dtype=np.float32) / np.float32(side)
    across = _shared(boxes[:, 0], boxes[:, 2], edges) * side
    down = _shared(boxes[:, 1], boxes[:, 3], edges) * side
    shares = down[:, :, None] * across[:, None, :]
    near_first = np.array(paint_order(scene.things))[::-1]
    shares = shares[near_first]
    free = np.cumprod(1 - shares, axis=0)
    shares[1:] *= free[:-1]
    result = np.empty_like(shares)
    result[near_first] = shares
    return result


def _shared(start: Floats, end: Floats, edges: Floats) -> Floats:
    """Length that each interval has in common with each cell of one axis."""
    low = np.maximum(start[:, None], edges[None, :-1])
    high = np.minimum(end[:, None], edges[None, 1:])
    return np.maximum(high - low, 0.0)


@cache
def _cell_codes(side: int, dim: int) -> Floats:
    edges = np.arange(side + 1, dtype=np.float32) / np.float32(side)
    y, x = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    boxes = np.stack([edges[x], edges[y], edges[x + 1], edges[y + 1]], axis=-1).reshape(-1, 4)
    return encode_boxes(boxes, dim)
