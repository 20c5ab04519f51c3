"""Where does the last attention look? The baseline of all others: one map, heads averaged."""

from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.layers import Fusion, head_mean


def raw_attention(heard: Heard) -> Float[Tensor, "b n"]:
    """The target's row of the last map onto each stream; 0 on streams that its own stream never reads."""
    return of_last_maps(heard, head_mean)


def of_last_maps(heard: Heard, fuse: Fusion) -> Float[Tensor, "b n"]:
    """The target's row of a fused map, for the last map onto each stream."""
    full = heard.one_hot()
    found = full.new_zeros(full.shape)
    for one in last_maps(heard):
        found[:, one.columns] = (full[:, None, one.rows] @ fuse(one)).squeeze(1)
    return found


def last_maps(heard: Heard) -> list[Map]:
    """For each stream, the last map in which the target's stream reads it."""
    own = (one for one in heard if one.event.query == heard.plan.target.stream and one.event.part is None)
    return list({one.event.key: one for one in own}.values())
