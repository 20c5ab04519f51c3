"""What does each information source give, when streams of different kinds attend to each other?

Source: Cui, Fan and Chen, "Generic Interpretation Approach for Transformer Models Incorporating Heterogenous Attention
Structures". A map is corrected by the target's gradient, heads are averaged to Ā, and a stream that reads another adds Ā
times what that one holds; sources are kept apart. The paper prints I + Ā there, which is undefined between streams of
different sizes and contradicts the equivalence it states; we use Ā. With all streams in one sequence this is a product of
matrices I + Ā, so that one row can be followed from the top down.

Noise link (8-10): where a stream is first read by another, X = M - I is divided by its sums. "As in GAE" means row sums;
the equation shows one sum, which is `global`. It applies to a stream's own block.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.layers import Fusion, added, backwards
from lit_attn.attribution.relevance import normalized, positive

Correction = Literal["pos", "full", "abs"]
NoiseLink = Literal["rows", "global"]


def full(one: Map) -> Float[Tensor, "b q k"]:
    """Equation 2: gradient times weight with its sign."""
    return (one.needed_gradient() * one.weights).mean(1)


def absolute(one: Map) -> Float[Tensor, "b q k"]:
    """Equation 3: size of the gradient times weight."""
    return (one.needed_gradient().abs() * one.weights).mean(1)


FUSIONS: dict[Correction, Fusion] = {"pos": positive, "full": full, "abs": absolute}


def heterogenous(
    heard: Heard, correction: Correction = "pos", *, noise_link: NoiseLink | None = None
) -> Float[Tensor, "b n n"]:
    """What every position holds of every input after the last group."""
    state = torch.diag_embed(torch.ones_like(heard.one_hot()))
    linked = {stream: heard.plan.first_read(stream) for stream in heard.plan.streams}
    for i, layer in enumerate(added(heard, FUSIONS[correction])):
        for stream, place in heard.layout.streams.items():
            if noise_link is not None and linked[stream] == i:
                state[:, place, place] = _linked(state[:, place, place], noise_link)
        state = layer.on(state)
    return state


def heterogenous_row(
    heard: Heard, correction: Correction = "pos", *, noise_link: NoiseLink | None = None
) -> Float[Tensor, "b n"]:
    """The target's row: from the top down, in O(n^2) per layer, unless a noise link needs whole matrices."""
    if noise_link is not None:
        return heard.target_row(heterogenous(heard, correction, noise_link=noise_link))
    return backwards(added(heard, FUSIONS[correction]), heard.one_hot())


def semantic(heard: Heard) -> Float[Tensor, "b n"]:
    """Semantic interpretation: what streams hold of themselves before they meet, by sizes of gradients.

    The target's row in its own stream, and in others all relevance that a position receives: its column sum.
    """
    layers = added(heard, absolute)
    found = heard.one_hot().new_zeros(heard.layout.mask.shape)
    for stream, place in heard.layout.streams.items():
        met = heard.plan.first_met(stream)
        if stream == heard.plan.target.stream:
            start = heard.one_hot()
        else:
            start = heard.layout.mask.to(found.dtype)
        start = start.clone()
        start[:, : place.start] = 0
        start[:, place.stop :] = 0
        found[:, place] = backwards(layers[:met], start)[:, place]
    return found


def _linked(own: Float[Tensor, "b n n"], kind: NoiseLink) -> Float[Tensor, "b n n"]:
    if kind == "rows":
        return normalized(own)
    identity = torch.eye(own.shape[-1], dtype=own.dtype, device=own.device)
    gained = own - identity
    total = gained.sum((-2, -1), keepdim=True)
    return gained / total.where(total != 0, 1.0) + identity
