"""How do self- and co-attention pass relevance on? The rules of GAE, for any number of streams.

Source: Chefer, Gur and Wolf (2021), "Generic Attention-model Explainability"; equation numbers are theirs. R holds the
relevance of every position for every other, block by block of streams. Their normalisation of R divides by row sums, and
a row that no relevance has reached yet has none: its 0 / 0 is 0 here, for that row alone. Their DETR code loses the whole
update instead and their LXMERT code returns NaN; `EmptyRows` reproduces either. Deviations: samples of a batch are kept
apart; padding takes no part; a third stream u passes through co-attention as equation 11 says for the first.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.layers import Fusion

EmptyRows = Literal["safe", "wipe", "nan"]
"""What a row without relevance does to a normalised update: nothing; lose all of it (DETR code); NaN (LXMERT code)."""


def positive(one: Map) -> Float[Tensor, "b q k"]:
    """Equation 5: mean over heads of the positive part of gradient times weight."""
    return (one.needed_gradient() * one.weights).clamp_min(0).mean(1)


def positive_relevance(one: Map) -> Float[Tensor, "b q k"]:
    """Equation 5 with LRP relevance in place of the weights, as in T-Attr."""
    return (one.needed_gradient() * one.needed_relevance()).clamp_min(0).mean(1)


def gae(
    heard: Heard,
    *,
    fuse: Fusion = positive,
    normalize: bool = True,
    through_self: bool = True,
    empty_rows: EmptyRows = "safe",
) -> Float[Tensor, "b n n"]:
    """Relevance of every position (row) on every input (column) after the last group.

    Args:
        fuse: `positive`, or `positive_relevance` for the variant with LRP.
        normalize: Equations 8 and 9.
        through_self: Equation 10 with both streams' self-relevance; without, it adds the map alone.
    """
    start = heard.one_hot()
    state = torch.diag_embed(torch.ones_like(start))
    for group in heard.groups:
        new = state.clone()
        for one in group:
            fused = fuse(one)
            if one.event.crosses:
                own, other = state[:, one.rows, one.rows], state[:, one.columns, one.columns]
                read = fused @ state[:, one.columns]  # equation 11, for all streams but the one read
                read[:, :, one.columns] = cross_update(
                    own, other, fused, normalize=normalize, through_self=through_self, empty_rows=empty_rows
                )
            else:
                read = fused @ state[:, one.columns]  # equations 6 and 7
            new[:, one.rows] += read
        state = new
    return state


def cross_update(
    own: Float[Tensor, "b q q"],
    other: Float[Tensor, "b k k"],
    fused: Float[Tensor, "b q k"],
    *,
    normalize: bool = True,
    through_self: bool = True,
    empty_rows: EmptyRows = "safe",
) -> Float[Tensor, "b q k"]:
    """What equation 10 adds: the self-relevance of both streams around the map."""
    if not through_self:
        return fused
    if normalize:
        own, other = normalized(own, empty_rows), normalized(other, empty_rows)
    update = own.mT @ fused @ other
    return update.nan_to_num(nan=0.0) if empty_rows == "wipe" else update


def normalized(own: Float[Tensor, "b q q"], empty_rows: EmptyRows = "safe") -> Float[Tensor, "b q q"]:
    """Equations 8 and 9: rows of R - I divided by their sums, plus I."""
    identity = torch.eye(own.shape[-1], dtype=own.dtype, device=own.device)
    gained = own - identity
    total = gained.sum(-1, keepdim=True)
    if empty_rows == "safe":
        total = total.where(total != 0, 1.0)
    return gained / total + identity
