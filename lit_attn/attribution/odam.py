"""Which places of a feature map make one instance's score? ODAM, gradient times feature, element by element.

Source: Zhao et al. (2024), "Gradient-based Instance-Specific Visual Explanations for Object Specification and Object
Discrimination". H = ReLU(sum over channels of gradient * feature); the gradient is not pooled as in Grad-CAM, so that the
map belongs to one instance. The target is one class score or one box coordinate.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from lit_attn.errors import UserError


def odam(
    target: Float[Tensor, ""], features: Float[Tensor, "b *axes"], channels: int = 1
) -> Float[Tensor, "b *places"]:
    """ReLU of gradient times feature, summed over the axis of channels: 1 for `b c y x`, -1 for tokens `b n d`."""
    (gradient,) = torch.autograd.grad(target, features, retain_graph=True, allow_unused=True)
    if gradient is None:
        raise UserError("The target does not depend on these features. Take them from the pass that gave the target.")
    return (gradient * features).sum(channels).clamp_min(0).detach()


def shown(maps: Float[Tensor, "b y x"], size: tuple[int, int]) -> Float[Tensor, "b height width"]:
    """Maps at the size of a picture (bilinear), each scaled to [0, 1]; a constant map becomes 0."""
    large = F.interpolate(maps.unsqueeze(1), size=size, mode="bilinear", align_corners=False).squeeze(1)
    return min_max(large)


def min_max(maps: Float[Tensor, "b *places"]) -> Float[Tensor, "b *places"]:
    """Each sample scaled to [0, 1]; a constant one becomes 0."""
    flat = maps.flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    span = high - low
    return torch.where(span > 0, (flat - low) / span.where(span > 0, 1.0), 0.0).view(maps.shape)
