"""Which heads does the target like, and where do they look? Grad-CAM on the last attention map.

Source: Selvaraju et al. (2017), on attention as the baselines of Chefer et al. (2021): a head's weight is the mean of its
gradient over the map. Deviation: means run over what exists, so that padding changes nothing.
"""

from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.raw import of_last_maps


def grad_cam(heard: Heard) -> Float[Tensor, "b n"]:
    """The target's row of the last map onto each stream, heads weighted by their mean gradient; negative sums are 0."""
    return of_last_maps(heard, weighted_heads)


def weighted_heads(one: Map) -> Float[Tensor, "b q k"]:
    """(mean_h g_h A_h)+, with g_h the mean gradient of head h."""
    entries = one.allowed.sum((-2, -1)).clamp_min(1).unsqueeze(1)  # b 1
    liking = one.needed_gradient().sum((-2, -1)) / entries  # b h
    return (liking[..., None, None] * one.weights).mean(1).clamp_min(0)
