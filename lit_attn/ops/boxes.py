"""How do two boxes lie to each other? The geometry of the object-relation transformer (Herdade et al. 2019).

Boxes are x1, y1, x2, y2 relative to the picture. Extents are x2 - x1 + 1, as in the published code: a convention of
pixels that it applies to relative coordinates, which keeps size ratios small. Trained weights depend on it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

NEAREST = 1e-3
"""Smallest relative distance whose logarithm is taken."""
ANGLE_SCALE = 100.0


def pair_geometry(boxes: Float[Tensor, "b r 4"]) -> Float[Tensor, "b r r 4"]:
    """Log distances in x and y in units of the first box, and log ratios of widths and heights."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    center = torch.stack([(x1 + x2) / 2, (y1 + y2) / 2], -1)
    extent = torch.stack([x2 - x1 + 1, y2 - y1 + 1], -1).clamp_min(NEAREST)  # b r 2; below only if corners are swapped
    distance = (center.unsqueeze(2) - center.unsqueeze(1)) / extent.unsqueeze(2)
    ratio = extent.unsqueeze(2) / extent.unsqueeze(1)
    return torch.cat([distance.abs().clamp_min(NEAREST).log(), ratio.log()], -1)


def sinusoids(
    geometry: Float[Tensor, "b r r 4"], frequencies: int = 8, wavelength: float = 1000.0
) -> Float[Tensor, "b r r f"]:
    """Sines, then cosines, of 100 times each number at geometrically falling frequencies; numbers are the major axis."""
    steps = torch.arange(frequencies, device=geometry.device, dtype=geometry.dtype)
    angles = ANGLE_SCALE * geometry.unsqueeze(-1) * wavelength ** (-steps / frequencies)
    angles = angles.flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], -1)
