"""Does a map outline its object? Weakly supervised segmentation: Otsu's threshold, a sweep, and pixel AP.

Source: Otsu (1979), as the DETR experiments of Chefer et al. (2021) use it: maps become bytes at feature size, Otsu splits
them, masks grow to the picture. Rankings of methods flip with the threshold, so look at the sweep and at the threshold-free
pixel AP as well. Enlarging turns every pixel that a cell touches on, so that one cell grows to four times its area.
`coco` has the AP of the benchmark.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from lit_attn.attribution.odam import min_max
from lit_attn.attribution.truth import average_precision

LEVELS = 256


def as_bytes(maps: Float[Tensor, "b y x"]) -> UInt8[Tensor, "b y x"]:
    """Each map scaled to 0 … 255, cut to whole numbers. Compute maps in float64, or the cut may differ."""
    return (min_max(maps) * (LEVELS - 1)).to(torch.uint8)


def otsu(images: UInt8[Tensor, "b y x"]) -> Int[Tensor, " b"]:
    """The threshold that parts values best: the first with the largest variance between `<= t` and `> t`. 0 if constant."""
    values = torch.arange(LEVELS, dtype=torch.float64, device=images.device)
    counts = torch.stack([image.flatten().long().bincount(minlength=LEVELS) for image in images]).double()
    share = counts / counts.sum(-1, keepdim=True)
    below, moment = share.cumsum(-1), (share * values).cumsum(-1)
    above, mean = counts.sum(-1, keepdim=True) - counts.cumsum(-1), moment[:, -1:]
    both = (counts.cumsum(-1) > 0) & (above > 0)
    parted = (mean * below - moment).square() / (below * (1 - below)).where(both, 1.0)
    return torch.where(both, parted, 0.0).argmax(-1)


def otsu_masks(maps: Float[Tensor, "b y x"], factor: float = 1.0) -> Bool[Tensor, "b y x"]:
    """What lies above a factor times Otsu's threshold; published: 1 and 0.3."""
    images = as_bytes(maps)
    return images > factor * otsu(images)[:, None, None]


def enlarged(
    masks: Bool[Tensor, "b y x"], padded_size: tuple[int, int], original_size: tuple[int, int]
) -> Bool[Tensor, "b height width"]:
    """Masks of cells as masks of a picture: bilinear to the padded size, everything above 0, nearest to its own size."""
    large = F.interpolate(masks.unsqueeze(1).double(), size=padded_size, mode="bilinear", align_corners=False)
    return F.interpolate((large > 0).double(), size=original_size, mode="nearest").squeeze(1) > 0


def overlap(masks: Bool[Tensor, "b *places"], truth: Bool[Tensor, "b *places"]) -> Float[Tensor, " b"]:
    """Intersection over union, in [0, 1]; 0 where both are empty."""
    common, either = (masks & truth).flatten(1).sum(-1), (masks | truth).flatten(1).sum(-1)
    return common.double() / either.clamp_min(1)


def sweep(
    maps: Float[Tensor, "b y x"], truth: Bool[Tensor, "b y x"], thresholds: Sequence[float]
) -> Float[Tensor, "s b"]:
    """Overlap at each threshold of the maps scaled to [0, 1]."""
    scaled = min_max(maps)
    return torch.stack([overlap(scaled > threshold, truth) for threshold in thresholds])


def pixel_ap(maps: Float[Tensor, "b y x"], truth: Bool[Tensor, "b y x"]) -> Float[Tensor, " b"]:
    """Average precision of pixels ranked by the map, in [0, 1]; NaN without a true pixel."""
    return average_precision(maps.flatten(1), truth.flatten(1), torch.ones_like(truth.flatten(1)))
