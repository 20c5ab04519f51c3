"""What would a convolutional network see in each cell of a picture? Grid features of a scene.

A cell shows the things that cover it, each weighted by the share of the cell that it takes and nothing nearer takes: a
cell that one thing fills shows the front-most one alone. It also shows where each of them begins and ends, because what a
deep network sees in a cell comes from far around it. Every thing has one cell that speaks for it, small as it may be: the
one that shows most of it shows it in full, and that something has its middle there. Place, room and noise are added as in
detections.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

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
from .rooms import digest, paint_order
from .world import Scene

_NOISE_SHARE = 0.25
_MIDDLE_WEIGHT = 0.5
_NEARLY = 1e-3
"""Of a cell: what one cell of distance from the middle counts against showing more."""
_TAKEN = 10.0
"""What counts against a cell that speaks for another thing."""


def grid(scene: Scene, *, side: int = 14, dim: int = 64) -> Floats:
    """Features of `side` × `side` cells: dim, y, x."""
    check_positive(side=side, dim=dim)
    truth = scene_truth(scene)
    shares = visible_shares(scene, side)
    weights, middles = shares.reshape(len(shares), -1), middle_cells(shares, truth.boxes)
    weights[np.arange(len(weights)), middles] = 1.0
    things = truth.content @ projection(dim) + encode_boxes(truth.boxes, dim, "extent")
    cells = weights.T @ things + _cell_codes(side, dim) + room_code(scene.room, dim)
    np.add.at(cells, middles, _middle_code(dim))
    noise = generator(scene, "grid").standard_normal(cells.shape, dtype=np.float32)
    cells += _NOISE_SHARE * noise_level(dim) * noise
    return np.ascontiguousarray(cells.T).reshape(dim, side, side)


def middle_cells(shares: Floats, boxes: Floats) -> NDArray[np.int64]:
    """A cell for each thing, row by row: the one that shows most of it, of nearly equal ones the nearest to its middle.

    No two things share a cell while there are enough: those that show least choose first, the others take what is left.
    """
    side = shares.shape[-1]
    y, x = np.divmod(np.arange(side * side), side)
    middle_x, middle_y = (boxes[:, :2] + boxes[:, 2:]).T * side / 2 - 0.5
    distance = (y - middle_y[:, None]) ** 2 + (x - middle_x[:, None]) ** 2
    fitness = shares.reshape(len(shares), -1) - _NEARLY * distance
    chosen = np.zeros(len(shares), np.int64)
    for turn, thing in enumerate(np.argsort(fitness.max(1), kind="stable").tolist()):
        chosen[thing] = fitness[thing].argmax()
        if turn + 1 < fitness.shape[1]:
            fitness[:, chosen[thing]] -= _TAKEN
    return chosen


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
def _middle_code(dim: int) -> Floats:
    """What a cell shows if some thing has its middle there."""
    rng = np.random.default_rng(digest("middle", dim))
    return (rng.standard_normal(dim) * _MIDDLE_WEIGHT).astype(np.float32)


@cache
def _cell_codes(side: int, dim: int) -> Floats:
    edges = np.arange(side + 1, dtype=np.float32) / np.float32(side)
    y, x = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    boxes = np.stack([edges[x], edges[y], edges[x + 1], edges[y + 1]], axis=-1).reshape(-1, 4)
    return encode_boxes(boxes, dim)
