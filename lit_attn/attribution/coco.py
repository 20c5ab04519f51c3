"""How do masks score on the COCO benchmark? Its own AP and AR, over lower thresholds of overlap.

Source: the protocol of Chefer et al. (2021) for masks from attention: COCOeval "segm" with thresholds 0.20 … 0.95. Needs
pycocotools (extra `coco`).
"""

from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

import numpy as np
from jaxtyping import Bool
from torch import Tensor

from lit_attn.errors import UserError

LOWEST_OVERLAP, HIGHEST_OVERLAP, OVERLAP_STEP = 0.20, 0.95, 0.05
NAMES = {"AP": 0, "AP_S": 3, "AP_M": 4, "AP_L": 5, "AR": 8, "AR_S": 9, "AR_M": 10, "AR_L": 11}
"""Where COCOeval keeps each number; -1 means that there is nothing of this size."""


@dataclass(frozen=True)
class Instances:
    """The objects of one picture, found or true."""

    masks: Bool[Tensor, "n y x"]
    labels: tuple[int, ...]
    scores: tuple[float, ...] = ()
    """Of what was found; empty for the truth."""


def coco_scores(found: Sequence[Instances], truth: Sequence[Instances]) -> dict[str, float]:
    """AP and AR, in all and by size, for pictures in the same order."""
    try:
        from pycocotools import mask as rle
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise UserError("COCO's AP needs pycocotools: pip install 'lit_attn[coco]'.") from error
    if len(found) != len(truth):
        raise UserError(f"There are {len(found)} pictures with found masks and {len(truth)} with true ones.")

    def entries(pictures: Sequence[Instances]) -> list[dict[str, object]]:
        listed: list[dict[str, object]] = []
        for picture, one in enumerate(pictures):
            for i, mask in enumerate(one.masks.cpu().numpy()):
                coded = rle.encode(np.asfortranarray(mask.astype(np.uint8)))
                entry = {
                    "id": len(listed) + 1,
                    "image_id": picture,
                    "category_id": one.labels[i],
                    "segmentation": coded,
                    "area": float(rle.area(coded)),
                    "bbox": rle.toBbox(coded).tolist(),
                    "iscrowd": 0,
                }
                listed.append(entry | ({"score": one.scores[i]} if one.scores else {}))
        return listed

    labels = sorted({label for one in (*found, *truth) for label in one.labels})
    with redirect_stdout(StringIO()):  # pycocotools prints tables
        sides = []
        for pictures in (truth, found):
            side = COCO()
            side.dataset = {
                "images": [
                    {"id": i, "height": one.masks.shape[1], "width": one.masks.shape[2]} for i, one in enumerate(truth)
                ],
                "categories": [{"id": label} for label in labels],
                "annotations": entries(pictures),
            }
            side.createIndex()
            sides.append(side)
        evaluation = COCOeval(*sides, "segm")
        count = round((HIGHEST_OVERLAP - LOWEST_OVERLAP) / OVERLAP_STEP) + 1
        evaluation.params.iouThrs = np.linspace(LOWEST_OVERLAP, HIGHEST_OVERLAP, count)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {name: float(evaluation.stats[place]) for name, place in NAMES.items()}
