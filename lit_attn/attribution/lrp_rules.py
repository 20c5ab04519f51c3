"""How does relevance pass back through one operation? The rules of LRP, as backward passes in place of gradients.

Source: Chefer, Gur and Wolf (2021), "Transformer Interpretability Beyond Attention Visualization", and the code beside it;
its roots are Bach et al. (2015) and Montavon et al. (2017). Each rule is an autograd function that computes what the network
computes and whose "gradient" is the relevance of its inputs, so that `torch.autograd.grad` of a score gives the relevance of
any tensor on the way. Rules:

- linear and convolution: α of what speaks for the output less β = α - 1 of what speaks against it, biases left out;
- convolution of a picture of 3 channels: the rule for inputs between bounds, here the picture's extreme values;
- sums of two tensors: in proportion to them, then each side rescaled to its share of the absolute totals, per sample;
- products of two tensors, by elements or matrices: in proportion, half to each;
- activations, softmax, normalisation and constant factors: as it is.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

STABILIZER = 1e-9
"""Added to every denominator, as in the original code."""

Map = Callable[[Tensor, Tensor], Tensor]
"""An operation that is linear in either argument: input and weight."""


def share(relevance: Tensor, total: Tensor) -> Tensor:
    """relevance / total, 0 where total is."""
    denominator = total + STABILIZER
    usable = (total != 0) & (denominator != 0)
    return torch.where(usable, relevance / denominator.where(usable, 1.0), 0.0)


class _Passed(torch.autograd.Function):
    """Value of `outcome`; its relevance goes to `x` as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, outcome: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return outcome.clone()

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, None]:
        return relevance[0].to(ctx.dtype), None


class _Summed(torch.autograd.Function):
    """a + b of one shape."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a + b

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        each = share(relevance[0], a + b)
        own, other = a * each, b * each
        axes = tuple(range(1, a.dim()))
        totals = [part.sum(axes, keepdim=True) if axes else part for part in (own, other, relevance[0])]
        sizes = [total.abs() for total in totals[:2]]
        parts = []
        for part, total, size in zip((own, other), totals, sizes, strict=False):
            wanted = share(size, sizes[0] + sizes[1]) * totals[2]
            parts.append(part * share(wanted, total))
        return parts[0], parts[1]


class _Multiplied(torch.autograd.Function):
    """a @ b."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        each = share(relevance[0], a @ b)
        own, other = a * (each @ b.mT), b * (a.mT @ each)
        return own.sum_to_size(a.shape) / 2, other.sum_to_size(b.shape) / 2


class _Scaled(torch.autograd.Function):
    """a * b by elements, of one shape."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, Tensor]:
        return relevance[0] / 2, relevance[0] / 2


class _Weighed(torch.autograd.Function):
    """apply(x, weight) plus whatever `outcome` has beyond it, such as a bias: the α-β rule."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, outcome: Tensor, apply: Map, alpha: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.weigh, ctx.alpha = apply, alpha
        return outcome.clone()

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, None, None, None, None]:
        x, weight = ctx.saved_tensors
        up, down = weight.clamp_min(0), weight.clamp_max(0)
        found = ctx.alpha * signed_share(x, up, down, relevance[0], ctx.weigh)
        if ctx.alpha != 1:
            found = found - (ctx.alpha - 1) * signed_share(x, down, up, relevance[0], ctx.weigh)
        return found, None, None, None, None


class _Seen(torch.autograd.Function):
    """apply(x, weight) on a picture, whose values lie between its smallest and its largest."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, outcome: Tensor, apply: Map) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.weigh = apply
        return outcome.clone()

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> tuple[Tensor, None, None, None]:
        x, weight = ctx.saved_tensors
        low = x.amin((1, 2, 3), keepdim=True).expand_as(x)
        high = x.amax((1, 2, 3), keepdim=True).expand_as(x)
        pairs = [(x, weight, 1), (low, weight.clamp_min(0), -1), (high, weight.clamp_max(0), -1)]
        total = sum((sign * ctx.weigh(value, part) for value, part, sign in pairs), start=torch.zeros(()))
        each = relevance[0] / (total + STABILIZER)
        parts = [sign * value * transposed(ctx.weigh, value, part, each) for value, part, sign in pairs]
        return parts[0] + parts[1] + parts[2], None, None, None


def signed_share(
    x: Float[Tensor, "*b i"], on_positive: Tensor, on_negative: Tensor, relevance: Float[Tensor, "*b o"], apply: Map
) -> Float[Tensor, "*b i"]:
    """Relevance in proportion to x+ times one part of the weights and x- times the other."""
    above, below = x.clamp_min(0), x.clamp_max(0)
    each = share(relevance, apply(above, on_positive) + apply(below, on_negative))
    return above * transposed(apply, above, on_positive, each) + below * transposed(apply, below, on_negative, each)


def transposed(apply: Map, x: Tensor, weight: Tensor, each: Tensor) -> Tensor:
    """The transpose of x -> apply(x, weight), on `each`."""
    with torch.enable_grad():
        variable = x.detach().requires_grad_()
        (back,) = torch.autograd.grad(apply(variable, weight.detach()), variable, each)
    return back


passed: Callable[[Tensor, Tensor], Tensor] = _Passed.apply
summed: Callable[[Tensor, Tensor], Tensor] = _Summed.apply
multiplied: Callable[[Tensor, Tensor], Tensor] = _Multiplied.apply
scaled: Callable[[Tensor, Tensor], Tensor] = _Scaled.apply
weighed: Callable[[Tensor, Tensor, Tensor, Map, float], Tensor] = _Weighed.apply
seen: Callable[[Tensor, Tensor, Tensor, Map], Tensor] = _Seen.apply
