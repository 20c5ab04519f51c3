"""Does a decoder prefer its first words, or only its mask? Corrections for attention that may not look ahead.

Under a causal mask the first word is seen by all others. Uniform attention over 12 words and 6 layers already gives it 45 %
of the last row's rollout. Abnar and Zuidema (2020) recommend a correction and give none; both of these are ours:

- `ratio`: the method's result over its result for uniform attention, rescaled to the same sum. Uniform attention comes out
  flat, by construction.
- `column`: weights over the column sums of uniform attention, rows renormalised, before the method. Only partly flat.
"""

import logging
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map

log = logging.getLogger(__name__)

CausalNorm = Literal["none", "ratio", "column"]


def is_causal(one: Map) -> bool:
    """Whether some position sees another that exists as a query and does not see it."""
    if one.rows != one.columns:
        return False
    exists = one.allowed.any(-1)  # b q
    both = exists.unsqueeze(-1) & exists.unsqueeze(-2)
    return bool((both & (one.allowed != one.allowed.mT)).any())


def prepared(heard: Heard, causal: CausalNorm) -> Heard:
    """Maps as the method is to see them. Warns where a bias would go unnoticed."""
    if causal == "column":
        return heard.changed(lambda one: _columns_leveled(one) if is_causal(one) else one)
    if causal == "none" and any(map(is_causal, heard)):
        sites = ", ".join(dict.fromkeys(repr(one.event.site) for one in heard if is_causal(one)))
        log.warning(
            "Attention at %s is causal: early positions are preferred by the mask alone. "
            "Correct it with causal='ratio' (rollout_corrected).",
            sites,
        )
    return heard


def leveled(heard: Heard) -> Heard:
    """The same with causal attention spread evenly over what each row may see."""
    return heard.changed(lambda one: one.with_weights(uniform(one).unsqueeze(1)) if is_causal(one) else one)


def over_baseline(
    heard: Heard, found: Float[Tensor, "*l b n"], baseline: Float[Tensor, "*l b n"]
) -> Float[Tensor, "*l b n"]:
    """Result over baseline at the positions of causal streams; each stream keeps its share of a row."""
    corrected = found.clone()
    for place in {one.columns.start: one.columns for one in heard if is_causal(one)}.values():
        own, base = found[..., place], baseline[..., place]
        ratio = torch.where(base > 0, own / base.where(base > 0, 1.0), 0.0)
        total = ratio.sum(-1, keepdim=True)
        corrected[..., place] = ratio * torch.where(
            total > 0, own.sum(-1, keepdim=True) / total.where(total > 0, 1.0), 0.0
        )
    return corrected


def uniform(one: Map) -> Float[Tensor, "b q k"]:
    """Equal weights on whatever a row may see."""
    return _distributed(one.allowed.to(one.weights.dtype))


def _distributed(weights: Float[Tensor, "b q k"]) -> Float[Tensor, "b q k"]:
    total = weights.sum(-1, keepdim=True)
    return weights / total.where(total > 0, 1.0)


def _columns_leveled(one: Map) -> Map:
    column = uniform(one).sum(-2, keepdim=True)  # b 1 k
    weights = one.weights.mean(1) / column.where(column > 0, 1.0)
    return one.with_weights(_distributed(weights).unsqueeze(1))
