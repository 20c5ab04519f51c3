"""Does a prediction fall when what matters is removed? Perturbation curves, given only a forward function and scores.

Source: Chefer et al. (2021), the tests on LXMERT and VisualBERT. The positive test removes the highest scores first, so that
a faithful explanation falls fast; the negative test removes the lowest first. Deviation: the number kept is exact; the
original `int((1 - step) * n)` loses one item for some n in binary arithmetic, such as 10 at step 0.8. The area under the
curve, by trapezoids over the share removed, is not in their code.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.errors import UserError

Test = Literal["positive", "negative"]

LXMERT_STEPS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
VISUALBERT_IMAGE_STEPS = (0.0, 0.5, 0.75, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)

Forward = Callable[[Bool[Tensor, "b n"]], Float[Tensor, " b"]]
"""Which items are kept to one score per sample, such as the accuracy of the answer."""


@dataclass(frozen=True)
class Curve:
    steps: tuple[float, ...]
    """Shares removed."""
    values: Float[Tensor, "s b"]

    @property
    def area(self) -> Float[Tensor, " b"]:
        """Under the curve: low is faithful in the positive test, high in the negative one."""
        return torch.trapezoid(self.values, torch.tensor(self.steps, dtype=self.values.dtype), dim=0)


@torch.no_grad()
def perturbation(
    forward: Forward,
    scores: Float[Tensor, "b n"],
    mask: Bool[Tensor, "b n"],
    test: Test,
    *,
    steps: Sequence[float] = LXMERT_STEPS,
    always: Bool[Tensor, "b n"] | None = None,
    exact: bool = True,
) -> Curve:
    """The forward function's score as more and more items of one stream are removed.

    Args:
        mask: Items that exist.
        always: Items that are never removed and do not count, such as CLS and SEP.
        exact: Count in exact arithmetic; False reproduces the original.
    """
    if any(not 0 <= step <= 1 for step in steps) or list(steps) != sorted(steps):
        raise UserError(f"Steps are shares removed, from 0 to 1 and rising; got {tuple(steps)}.")
    values = [forward(kept(scores, mask, test, step, always=always, exact=exact)) for step in steps]
    return Curve(tuple(steps), torch.stack(values))


def kept(
    scores: Float[Tensor, "b n"],
    mask: Bool[Tensor, "b n"],
    test: Test,
    step: float,
    *,
    always: Bool[Tensor, "b n"] | None = None,
    exact: bool = True,
) -> Bool[Tensor, "b n"]:
    """Which items stay when a share `step` is removed. Of equal scores the earlier item stays."""
    always = torch.zeros_like(mask) if always is None else always & mask
    free = mask & ~always
    worth = scores if test == "negative" else -scores
    order = worth.masked_fill(~free, -math.inf).argsort(dim=-1, descending=True, stable=True)
    place = torch.empty_like(order).scatter(
        1, order, torch.arange(scores.shape[1], device=order.device).expand_as(order)
    )
    counts = [kept_count(int(n), step, exact=exact) for n in free.sum(-1)]
    return always | (free & (place < torch.tensor(counts, device=place.device).unsqueeze(1)))


def kept_count(items: int, step: float, *, exact: bool = True) -> int:
    """How many items stay when a share `step` is removed, rounded down."""
    if not exact:
        return int((1 - step) * items)
    return math.floor((1 - Fraction(str(step))) * items)
