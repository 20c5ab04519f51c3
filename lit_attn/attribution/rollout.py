"""What remains of each input when attention is followed through all layers? Attention rollout.

Source: Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers". Heads are averaged, the residual connection
counts as attention to oneself, and layers are multiplied: A = (W + I) / row sum, R_l = A_l R_{l-1}. Where a row reads
several streams at once, each of them counts as much as the residual. Dividing by the row sum is what the original code
does; it equals 0.5 W + 0.5 I where rows sum to 1.

`crossed_rollout` is another extension to two streams, the baseline of Chefer et al. (2021).
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.causal import CausalNorm, leveled, over_baseline, prepared
from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.layers import Layer, added, averaged, backwards, head_mean, products, without_residual
from lit_attn.errors import UserError


def rollout(
    heard: Heard,
    *,
    start: int = 0,
    residual: bool = True,
    normalize: bool = True,
    causal: CausalNorm = "none",
) -> Float[Tensor, "l b n n"]:
    """What each position holds of each input, after every group from `start` on.

    Args:
        start: The first group that counts; those below are left out, as if their results were the inputs.
        residual: Add the identity to each layer.
        normalize: Divide rows by their sum; without it rows grow, as in the code for VisualBERT.
        causal: Correction for attention that may not look ahead; see `causal`.
    """

    def run(given: Heard) -> Float[Tensor, "l b n n"]:
        return products(_layers(given, start, residual, normalize))

    found = run(prepared(heard, causal))
    if causal != "ratio":
        return found
    return over_baseline(heard, found.transpose(1, 2), run(leveled(heard)).transpose(1, 2)).transpose(1, 2)


def rollout_row(
    heard: Heard,
    *,
    start: int = 0,
    residual: bool = True,
    normalize: bool = True,
    causal: CausalNorm = "none",
) -> Float[Tensor, "b n"]:
    """The target's row after the last group, in O(n^2) per layer; see `rollout`."""

    def run(given: Heard) -> Float[Tensor, "b n"]:
        return backwards(_layers(given, start, residual, normalize), heard.one_hot())

    found = run(prepared(heard, causal))
    return over_baseline(heard, found, run(leveled(heard))) if causal == "ratio" else found


def head_rollout(heard: Heard, group: int, *, start: int = 0) -> Float[Tensor, "h b n n"]:
    """Each head of one group on top of the averaged heads of all groups below (appendix A.1 of the paper)."""
    heads = {one.weights.shape[1] for one in heard.groups[group]}
    if len(heads) > 1:
        raise UserError(f"The maps of group {group} have different numbers of heads: {sorted(heads)}.")
    below = products(averaged(heard)[start:group])[-1] if group > start else None
    found = []
    for head in range(heads.pop()):
        only = tuple(one.with_weights(one.weights[:, head : head + 1]) for one in heard.groups[group])
        layer = averaged(replace(heard, groups=(only,)))[0]
        found.append(layer.matrix() if below is None else layer.on(below))
    return torch.stack(found)


def crossed_rollout(heard: Heard) -> Float[Tensor, "b n"]:
    """The target's row of R_s' W R_q for each stream q that its stream s reads last through W, and of R_s for s itself.

    R is each stream's rollout by its own self-attention below that last map, and R_s' is transposed. This is how Chefer
    et al. (2021) compare rollout on DETR and LXMERT; deviation: padding does not leak through the transposed factor.
    """
    target = heard.plan.target.stream
    crossing = [i for i, group in enumerate(heard.groups) for one in group if one.event.crosses]
    if not crossing:
        return rollout_row(heard)
    found = heard.one_hot().new_zeros(heard.layout.mask.shape)
    own = heard.layout.streams[target]
    found[:, own] = heard.target_row(_self_products(heard, len(heard.groups)))[:, own]
    last = {
        one.event.key: (i, one) for i, group in enumerate(heard.groups) for one in group if _crosses_from(one, target)
    }
    for group, one in last.values():
        below = _self_products(heard, group)
        row = (heard.one_hot().unsqueeze(1) @ below.mT)[:, :, one.rows]  # the target's row of R_s'
        found[:, one.columns] = (row @ head_mean(one) @ below[:, one.columns, one.columns]).squeeze(1)
    return found


def _crosses_from(one: Map, stream: str) -> bool:
    return one.event.crosses and one.event.query == stream


def _self_products(heard: Heard, groups: int) -> Float[Tensor, "b n n"]:
    """Rollout by self-attention alone, below a group."""
    own = [tuple(one for one in group if not one.event.crosses) for group in heard.groups[:groups]]
    kept = replace(heard, groups=tuple(group for group in own if group))
    if kept.groups:
        return products(averaged(kept))[-1]
    return torch.diag_embed(torch.ones_like(heard.one_hot()))


def _layers(heard: Heard, start: int, residual: bool, normalize: bool) -> list[Layer]:
    if not 0 <= start < len(heard.groups):
        raise UserError(f"Rollout cannot start at group {start}: the plan has groups 0 to {len(heard.groups) - 1}.")
    if not residual:
        return without_residual(heard)[start:]
    return (averaged(heard) if normalize else added(heard, head_mean))[start:]
