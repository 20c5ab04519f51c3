"""Which inputs matter, asked without attention? Blank-out, gradients, ODAM and chance, for any subject.

These are the yardsticks of the methods that follow attention: they score the same items of the same streams.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.capture import differentiable
from lit_attn.attribution.scores import Scores
from lit_attn.attribution.subject import Subject, first_features, probability


def blank_out(subject: Subject) -> Scores:
    """How much the probability of the explained class changes when one item is taken away: |p - p without|, in [0, 1]."""
    whole = probability(subject, {})

    def change(stream: str, place: int) -> Float[Tensor, " b"]:
        kept = subject.items[stream].clone()
        kept[:, place] = False
        return (probability(subject, {stream: kept}) - whole).abs()

    return _of_items(
        subject,
        {
            stream: torch.stack([change(stream, place) for place in range(mask.shape[1])], 1)
            if mask.shape[1]
            else whole.new_zeros(mask.shape)
            for stream, mask in subject.items.items()
        },
    )


def gradient_norm(subject: Subject) -> Scores:
    """Length of d target / d first features of each item."""
    return _of_gradients(subject, lambda gradient, _: gradient.norm(dim=-1))


def gradient_x_input(subject: Subject) -> Scores:
    """|gradient . features| of each item."""
    return _of_gradients(subject, lambda gradient, features: (gradient * features).sum(-1).abs())


def odam_of_items(subject: Subject) -> Scores:
    """ODAM on the first features: the positive part of gradient . features; see `odam`."""
    return _of_gradients(subject, lambda gradient, features: (gradient * features).sum(-1).clamp_min(0))


def random_scores(subject: Subject) -> Scores:
    """Knows nothing: uniform random numbers, always the same ones for the same sizes."""
    generator = torch.Generator().manual_seed(0)
    drawn = {
        stream: torch.rand(mask.shape, generator=generator, dtype=torch.float64).to(mask.device)
        for stream, mask in subject.items.items()
    }
    return _of_items(subject, drawn)


INPUT_METHODS: dict[str, Callable[[Subject], Scores]] = {
    "blank_out": blank_out,
    "gradient": gradient_norm,
    "gradient_x_input": gradient_x_input,
    "odam": odam_of_items,
    "random": random_scores,
}
"""By name."""


def _of_gradients(
    subject: Subject, score: Callable[[Float[Tensor, "b n d"], Float[Tensor, "b n d"]], Float[Tensor, "b n"]]
) -> Scores:
    target, features = first_features(subject)
    with differentiable():
        gradients = torch.autograd.grad(target.sum(), list(features.values()), allow_unused=True)
    found = {}
    for (stream, own), gradient in zip(features.items(), gradients, strict=True):
        found[stream] = own.new_zeros(own.shape[:2]) if gradient is None else score(gradient, own.detach()).detach()
    return _of_items(subject, {stream: values for stream, values in found.items() if stream in subject.items})


def _of_items(subject: Subject, found: dict[str, Float[Tensor, "b _n"]]) -> Scores:
    """Scores of what can be taken away; all else scores 0."""
    masks = {stream: subject.items[stream] for stream in found}
    return Scores({stream: values.masked_fill(~masks[stream], 0.0) for stream, values in found.items()}, masks)
