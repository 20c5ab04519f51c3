"""Which of many overlapping boxes stay? And how do torchvision's detectors run where its extension does not load?

`torchvision.ops.nms` refuses to run without the extension, and `roi_align` falls back to a version that needs a C++
compiler at run time. `register` gives both a version that needs neither. Sources: the definitions in torchvision's
documentation; box areas and ties as its CPU kernel has them (no +1 pixel, equal scores in the order given).
"""

import importlib
import logging
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from lit_attn.extract.roi_align import roi_align

log = logging.getLogger(__name__)

Boxes = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

_BLOCK = 128
"""Boxes compared with all later ones at a time: memory grows with the number of boxes, not with its square."""


def register() -> bool:
    """Let torchvision's detectors run without its extension. Returns whether anything had to be done."""
    import torchvision

    boxes: Any = importlib.import_module("torchvision.ops.boxes")
    pooling: Any = importlib.import_module("torchvision.ops.roi_align")
    if torchvision.extension._has_ops() or boxes.nms is nms:
        return False
    log.debug("torchvision's extension is absent; its detectors use our nms and roi_align.")
    boxes.nms = torchvision.ops.nms = nms
    pooling._roi_align = roi_align
    return True


def nms(boxes: Float[Tensor, "n 4"], scores: Float[Tensor, " n"], iou_threshold: float) -> Int[Tensor, " kept"]:
    """Greedy non-maximum suppression: indices of the boxes that stay, best first.

    A box falls if it overlaps one that stays and has a higher score, or an equal one and an earlier place, by more than
    the threshold (intersection over union). Boxes without area overlap nothing.
    """
    order = scores.argsort(descending=True, stable=True)
    stays = _staying(boxes.detach()[order].cpu().numpy(), iou_threshold)
    return order[torch.from_numpy(stays).to(order.device)]


def _staying(boxes: Boxes, threshold: float) -> Places:
    """Positions of the boxes that stay, given the best first."""
    x1, y1, x2, y2 = np.ascontiguousarray(boxes.T)
    area = (x2 - x1) * (y2 - y1)

    def overlap(some: Places, others: Places) -> NDArray[np.bool_]:
        width = np.minimum(x2[some, None], x2[others])
        width -= np.maximum(x1[some, None], x1[others])
        height = np.minimum(y2[some, None], y2[others])
        height -= np.maximum(y1[some, None], y1[others])
        shared = width.clip(0, out=width)
        shared *= height.clip(0, out=height)
        union = area[some, None] + area[others]
        union -= shared
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.divide(shared, union, out=union) > np.float64(threshold)  # the kernel compares in double, too

    stays: list[Places] = [np.empty(0, np.intp)]
    rest = np.arange(len(boxes))
    while len(rest):
        block, rest = rest[:_BLOCK], rest[_BLOCK:]
        within = overlap(block, block)
        alive = np.ones(len(block), bool)
        for i in range(len(block)):
            if alive[i]:
                alive[i + 1 :] &= ~within[i, i + 1 :]
        block = block[alive]
        stays.append(block)
        rest = rest[~overlap(block, rest).any(0)]
    return np.concatenate(stays)
