"""How important is each token, without looking at attention? Blank-out and input gradients, and their rank correlation.

Source: the comparisons of Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", with corrections. Their
score of a gradient, `sum_abs`, is identically zero wherever embeddings meet only layer norms, which ignore a constant added
to all features: what remains is rounding error. `l2` is the default here. Their dense ranks in the formula for ranks
without ties mean nothing when there are ties; average ranks are the default.
"""

import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.attribution.targets import score_of

log = logging.getLogger(__name__)

GradientScore = Literal["l2", "l1", "sum_abs", "grad_x_input"]
Ranks = Literal["average", "dense"]
ROUNDING = 1e3
"""`sum_abs` below so many units of rounding of the gradient's size is noise."""

Forward = Callable[[Int[Tensor, "c n"], Int[Tensor, " c"]], Float[Tensor, "c v"]]
"""Copies of samples, and which sample each is a copy of, to the probabilities of classes."""


@torch.no_grad()
def blank_out(
    forward: Forward,
    tokens: Int[Tensor, "b n"],
    replacement: int,
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    classes: Int[Tensor, " b"] | None = None,
    against: Int[Tensor, " b"] | None = None,
    copies: int = 256,
) -> Float[Tensor, "b n"]:
    """How much a class's probability changes when a token is replaced: |p(x) - p(x with token i replaced)|, in [0, 1].

    Args:
        classes: The gold ones; the predicted ones without.
        against: Use p(class) - p(against) instead, as for a verb and its other form: in [0, 2].
        copies: Samples in one pass.
    """
    mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    samples = torch.arange(len(tokens), device=tokens.device)
    whole = forward(tokens, samples)
    chosen = whole.argmax(-1) if classes is None else classes

    def scored(probabilities: Tensor, owner: Tensor) -> Tensor:
        found = score_of(probabilities, chosen[owner])
        return found if against is None else found - score_of(probabilities, against[owner])

    before = scored(whole, samples)
    change = torch.zeros(tokens.shape, dtype=whole.dtype, device=tokens.device)
    for part in mask.nonzero().split(copies):
        owner, place = part.T
        blanked = tokens[owner].scatter(1, place.unsqueeze(1), replacement)
        change[owner, place] = (scored(forward(blanked, owner), owner) - before[owner]).abs()
    return change


def input_gradient(
    target: Float[Tensor, " b"], embedded: Float[Tensor, "b n d"], score: GradientScore = "l2"
) -> Float[Tensor, "b n"]:
    """The size of d target / d embedding per token.

    Args:
        score: `l2` and `l1` are norms; `sum_abs` is |sum over features|, see above; `grad_x_input` |sum of gradient times
            embedding|.
    """
    (gradient,) = torch.autograd.grad(target.sum(), embedded, retain_graph=True)
    match score:
        case "l2":
            return gradient.norm(dim=-1)
        case "l1":
            return gradient.abs().sum(-1)
        case "grad_x_input":
            return (gradient * embedded.detach()).sum(-1).abs()
    summed, size = gradient.sum(-1).abs(), gradient.abs().sum(-1)
    if bool((summed <= ROUNDING * torch.finfo(gradient.dtype).eps * size).all()):
        log.warning("The sums of gradients are rounding errors: a layer norm ignores such a change. Use score='l2'.")
    return summed


def spearman(
    a: Float[Tensor, "b n"],
    b: Float[Tensor, "b n"],
    mask: Bool[Tensor, "b n"] | None = None,
    *,
    ranks: Ranks = "average",
) -> Float[Tensor, " b"]:
    """Rank correlation over the tokens of each sample, in [-1, 1]; NaN where either side is constant.

    Args:
        ranks: `dense` reproduces published numbers: dense ranks in the formula for ranks without ties.
    """
    mask = torch.ones_like(a, dtype=torch.bool) if mask is None else mask
    first, second = (_ranks(values, mask, ranks) for values in (a, b))
    count = mask.sum(-1).double()
    if ranks == "dense":
        return 1 - 6 * (first - second).square().sum(-1) / (count * (count.square() - 1))
    first, second = (torch.where(mask, r - (r.sum(-1) / count).unsqueeze(-1), 0.0) for r in (first, second))
    return (first * second).sum(-1) / (first.square().sum(-1) * second.square().sum(-1)).sqrt()


class Agreement(NamedTuple):
    """Mean and population standard deviation over samples; a sample without a correlation counts as 0."""

    mean: float
    std: float


def summary(correlations: Float[Tensor, " b"]) -> Agreement:
    values = correlations.double().nan_to_num(nan=0.0)
    return Agreement(values.mean().item(), values.std(correction=0).item())


def agreement(
    a: Float[Tensor, "b n"], b: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], *, ranks: Ranks = "average"
) -> dict[str, Agreement]:
    """With and without the first token, which a residual connection favours where it is the classifier's own."""
    rest = mask.clone()
    rest[:, 0] = False
    return {name: summary(spearman(a, b, kept, ranks=ranks)) for name, kept in (("all", mask), ("without_first", rest))}


def _ranks(values: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], kind: Ranks) -> Float[Tensor, "b n"]:
    """From 1; 0 at padding."""
    below = (values.unsqueeze(1) < values.unsqueeze(2)) & mask.unsqueeze(1)  # b n n: column is below row
    equal = (values.unsqueeze(1) == values.unsqueeze(2)) & mask.unsqueeze(1)
    if kind == "dense":
        earlier = equal.tril(-1).any(-1)  # not the first of its value
        found = (below & ~earlier.unsqueeze(1)).sum(-1) + 1.0
    else:
        found = below.sum(-1) + (equal.sum(-1) + 1) / 2
    return torch.where(mask, found.double(), 0.0)
