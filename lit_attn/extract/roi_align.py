"""What does the network see in a box? Feature maps, averaged over a grid of cells of each box, in plain torch.

RoI align of He et al., Mask R-CNN (2017): each cell of a box is the mean of a few bilinear samples. A sample is a
weighted sum of four places of the map, so a cell is one bag of weighted rows, and `embedding_bag` sums it without ever
building the samples. Borders as in torchvision's CPU kernel: samples more than one place outside the map are zero, others
are moved onto it; without `aligned`, boxes are at least one place wide and high.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

Rois = Float[Tensor, "r 5"]
"""Number of the picture in the batch, then x1, y1, x2, y2."""


def roi_align(
    input: Float[Tensor, "b c height width"],
    rois: Rois,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Float[Tensor, "r c {pooled_height} {pooled_width}"]:
    """Takes the place of torchvision's fallback of that name, hence its arguments.

    Args:
        input: The feature maps of a batch.
        rois: Boxes in the pictures' coordinates.
        spatial_scale: Size of the maps over that of the pictures.
        pooled_height: Rows of cells.
        pooled_width: Columns of cells.
        sampling_ratio: Samples per cell along each axis; 0 or less: as many as a cell has places, rounded up.
        aligned: Whether the centre of the first place lies at 0.5 rather than 0.
    """
    _, channels, height, width = input.shape
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    start, extent = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if not aligned:
        extent = extent.clamp_min(1.0)
    cells = extent.new_tensor([pooled_width, pooled_height])
    samples = (extent / cells).ceil().long() if sampling_ratio <= 0 else torch.full_like(start, sampling_ratio).long()
    rows = input.permute(0, 2, 3, 1).reshape(-1, channels)
    pooled = input.new_zeros(len(rois), pooled_height, pooled_width, channels)
    for group in samples.unique(dim=0).tolist():
        if min(group) < 1:
            continue  # a box without area
        chosen = (samples == samples.new_tensor(group)).all(-1)
        x, x_weight = _places(start[chosen, 0], extent[chosen, 0], pooled_width, group[0], width)
        y, y_weight = _places(start[chosen, 1], extent[chosen, 1], pooled_height, group[1], height)
        picture = rois[chosen, 0].long()
        place = (picture[:, None, None, None, None] * height + y[:, :, None, :, None]) * width + x[:, None, :, None, :]
        weight = y_weight[:, :, None, :, None] * x_weight[:, None, :, None, :]
        bags = place.numel() // (place.shape[-1] * place.shape[-2])
        found = F.embedding_bag(
            place.reshape(bags, -1), rows, per_sample_weights=weight.reshape(bags, -1).to(rows.dtype), mode="sum"
        )
        pooled[chosen] = found.view(-1, pooled_height, pooled_width, channels)
    return pooled.permute(0, 3, 1, 2).contiguous()


def _places(
    start: Float[Tensor, " r"], extent: Float[Tensor, " r"], cells: int, samples: int, size: int
) -> tuple[Int[Tensor, "r cells s"], Float[Tensor, "r cells s"]]:
    """Along one axis: which places of the map each cell reads, and how much of each."""
    steps = (torch.arange(cells * samples, device=start.device, dtype=start.dtype) + 0.5) / (cells * samples)
    at = start[:, None] + steps * extent[:, None]
    inside = (at >= -1) & (at <= size)
    at = at.clamp(0, size - 1)
    low = at.floor()
    share = at - low
    places = torch.stack([low, (low + 1).clamp_max(size - 1)], -1).long()
    weights = torch.stack([1 - share, share], -1) * inside[..., None] / samples
    return places.view(len(start), cells, 2 * samples), weights.view(len(start), cells, 2 * samples)
