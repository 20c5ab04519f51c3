"""What does a torchvision detector find in a picture? Regions with boxes, labels, features and colours.

Detections are torchvision's own: per-class non-maximum suppression, then the most confident. Where they are fewer than
wanted, region proposals fill up, each as its most probable class with that class's box and, honestly, its low confidence;
so every label is one that the detector knows. Bottom-up attention (Anderson et al., 2018) fills up likewise.

A region's feature is the output of the box head for the final box. The detector classifies features of the proposal,
before it moves the box; those would not belong to the box that is stored.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor
from torchvision.models.detection.transform import resize_boxes
from torchvision.ops.boxes import box_iou, clip_boxes_to_image, remove_small_boxes

import lit_attn.ops  # noqa: F401 - settles torch's vector math, which decides from which map a box is pooled
from lit_attn.data.regions import Regions
from lit_attn.errors import UserError
from lit_attn.extract.colors import COLORS, color_of_boxes
from lit_attn.extract.nms import nms, register
from lit_attn.extract.weights import Network

_OVERLAPS = (0.5, 0.7, 0.9, 1.0)
"""A filler may overlap regions that are there already so much; the next limit counts once a limit leaves too few."""
_SMALLEST = 1e-2
"""Boxes with a shorter side are dropped, as in torchvision."""


@dataclass(frozen=True)
class Selection:
    """How many regions of a picture are kept. The defaults are one of bottom-up attention's two ways: 36 each."""

    min_regions: int = 36
    max_regions: int = 36
    threshold: float = 0.2
    """Detections below this confidence only fill up."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_regions <= self.max_regions:
            raise UserError(
                f"A picture needs at least 1 region and at most as many as the maximum, "
                f"got a minimum of {self.min_regions} and a maximum of {self.max_regions}."
            )
        if not 0 <= self.threshold <= 1:
            raise UserError(f"The threshold is a confidence between 0 and 1, got {self.threshold}.")


@dataclass(frozen=True)
class Found:
    """Regions of one picture, in the coordinates of the resized picture, most confident first."""

    features: Float[Tensor, "r f"]
    boxes: Float[Tensor, "r 4"]
    labels: Int[Tensor, " r"]
    """Counted from 0, without the background."""
    confidence: Float[Tensor, " r"]


class Detector:
    """Finds regions.

    Args:
        network: From `load_network`.
        selection: How many regions.
        size: The shorter side of the picture as the network sees it; None: as the detector was trained.
        device: Where to compute.
    """

    def __init__(
        self, network: Network, selection: Selection, size: int | None = None, device: torch.device | str = "cpu"
    ) -> None:
        register()
        self.network = network
        self.selection = selection
        self.device = torch.device(device)
        self.model = network.model.to(self.device).eval()
        proposals = self.model.rpn.post_nms_top_n()
        if proposals < selection.max_regions:
            raise UserError(
                f"This detector proposes {proposals} regions of a picture, fewer than the {selection.max_regions} "
                "that are wanted. Ask for fewer or take another --detector."
            )
        self.model.roi_heads.score_thresh = selection.threshold
        self.model.roi_heads.detections_per_img = selection.max_regions
        if size is not None:
            if size < 1:
                raise UserError(f"The size of the shorter side must be at least 1 pixel, got {size}.")
            transform = self.model.transform
            transform.max_size = round(size * transform.max_size / transform.min_size[-1])
            transform.min_size = (size,)

    @property
    def size(self) -> int:
        return int(self.model.transform.min_size[-1])

    @torch.inference_mode()
    def __call__(self, picture: Image.Image, name: str) -> Regions:
        pixels = np.array(picture.convert("RGB"))
        height, width = pixels.shape[:2]
        self._check_shape(height, width)
        image = torch.from_numpy(pixels).to(self.device).permute(2, 0, 1).float() / 255
        resized, _ = self.model.transform([image])
        found = find(self.model, resized, self.selection)
        boxes = resize_boxes(found.boxes, resized.image_sizes[0], (height, width))
        boxes = clip_boxes_to_image(boxes, (height, width)).cpu().numpy()
        colors, shares = color_of_boxes(pixels, boxes)
        labels = found.labels.cpu().numpy()
        return Regions(
            name=name,
            features=found.features.float().cpu().numpy(),
            boxes=boxes,
            width=width,
            height=height,
            objects=labels,
            objects_conf=found.confidence.cpu().numpy(),
            attributes=colors,
            attributes_conf=shares,
            object_names=tuple(self.network.class_names[label] for label in labels),
            attribute_names=tuple(COLORS[color] for color in colors),
        )

    def _check_shape(self, height: int, width: int) -> None:
        short, long = sorted((height, width))
        if short * min(self.size / short, self.model.transform.max_size / long) < 1:
            raise UserError(f"it is too narrow, {width} x {height}: nothing is left of it at the detector's size")


def find(model: Any, resized: Any, selection: Selection) -> Found:
    """The regions of one picture, from torchvision's `ImageList` of it."""
    heads, size = model.roi_heads, resized.image_sizes[0]
    maps = model.backbone(resized.tensors)
    proposals, _ = model.rpn(resized, maps)

    def describe(boxes: Float[Tensor, "r 4"]) -> Float[Tensor, "r f"]:
        # The padded size: from it the scales of the maps follow exactly. From the size of a narrow picture they would
        # not, and the pool keeps those of its first picture.
        return heads.box_head(heads.box_roi_pool(maps, [boxes], [tuple(resized.tensors.shape[-2:])]))

    logits, moves = heads.box_predictor(describe(proposals[0]))
    (boxes,), (confidence,), (labels,) = heads.postprocess_detections(logits, moves, proposals, [size])
    fillers = _fillers(heads, logits, moves, proposals, size)
    boxes = torch.cat([boxes, fillers[0]])
    confidence = torch.cat([confidence, fillers[1]])
    labels = torch.cat([labels, fillers[2]])
    chosen = fill_up(boxes, confidence, len(boxes) - len(fillers[0]), selection.min_regions)
    if not len(chosen):
        raise UserError("the detector finds no region in it")
    chosen = chosen[confidence[chosen].argsort(descending=True, stable=True)]
    return Found(describe(boxes[chosen]), boxes[chosen], labels[chosen] - 1, confidence[chosen])


def _fillers(
    heads: Any, logits: Tensor, moves: Tensor, proposals: list[Tensor], size: tuple[int, int]
) -> tuple[Float[Tensor, "n 4"], Float[Tensor, " n"], Int[Tensor, " n"]]:
    """Each proposal as its most probable class: box, confidence, label (1 is the first class)."""
    confidence, label = logits.softmax(-1)[:, 1:].max(-1)
    label = label + 1
    boxes = heads.box_coder.decode(moves, proposals)[torch.arange(len(label), device=label.device), label]
    boxes = clip_boxes_to_image(boxes.reshape(-1, 4), size)  # of no proposals, `decode` forgets the shape
    whole = remove_small_boxes(boxes, _SMALLEST)
    return boxes[whole], confidence[whole], label[whole]


def fill_up(
    boxes: Float[Tensor, "n 4"], confidence: Float[Tensor, " n"], detected: int, minimum: int
) -> Int[Tensor, " chosen"]:
    """All `detected` first boxes and, up to `minimum`, the most confident others that overlap what is chosen least."""
    chosen = torch.arange(detected, device=boxes.device)
    for limit in _OVERLAPS:
        if len(chosen) >= minimum:
            break
        free = ~(box_iou(boxes, boxes[chosen]) > limit).any(1)
        free[chosen] = False
        rest = free.nonzero()[:, 0]
        picked = rest[nms(boxes[rest], confidence[rest], limit)]
        chosen = torch.cat([chosen, picked[: minimum - len(chosen)]])
    return chosen


def choose_device(name: str) -> torch.device:
    """`auto`: the first of CUDA, MPS and the CPU that is there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"The device {name!r} cannot be used here. Try --device auto or --device cpu.") from error
    return device
