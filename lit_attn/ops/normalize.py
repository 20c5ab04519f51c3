"""How do scores become weights? Masked softmax, and SCAN's normalisers that come before it.

Masks are boolean, True means "may attend". A row with no allowed key gets zeros, not NaN.
The normalisers are those of Lee et al. (2018), SCAN; they act over the *queries* that compete for one key.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

EPS = 1e-8
"""Added to a norm before division, as the original code does."""


def masked_softmax(
    scores: Float[Tensor, "*batch k"], mask: Bool[Tensor, "*#batch #k"] | None = None
) -> Float[Tensor, "*batch k"]:
    """Softmax over the last axis in at least float32; masked entries and rows without any key are exactly 0."""
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    if mask is None:
        return wide.softmax(dim=-1).to(scores.dtype)
    # Sums and products of numbers run several times as fast as choices by a mask. A row without any key must not become
    # NaN, which would spoil gradients: nothing in it is hidden, and it is emptied afterwards.
    some = mask.any(-1, keepdim=True)
    hidden = torch.zeros_like(mask, dtype=wide.dtype).masked_fill_(some & ~mask, float("-inf"))
    return ((wide + hidden).softmax(dim=-1) * some.to(wide.dtype)).to(scores.dtype)


Normalizer = Callable[[Tensor, Tensor | None, int], Tensor]
"""Scores, a mask of the entries that exist, and the axis over which the entries compete."""


def _existing(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, 0.0)


def clipped_l2norm(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    """Leaky ReLU (slope 0.1), then unit L2 length along `dim`."""
    return l2norm(F.leaky_relu(scores, 0.1), mask, dim)


def l2norm(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    scores = _existing(scores, mask)
    return scores / (scores.square().sum(dim, keepdim=True).clamp_min(1e-30).sqrt() + EPS)


def clipped_l1norm(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    """Leaky ReLU (slope 0.1), then unit L1 length along `dim`. The published code names it but cannot run it."""
    return l1norm(F.leaky_relu(scores, 0.1), mask, dim)


def l1norm(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    scores = _existing(scores, mask)
    return scores / (scores.abs().sum(dim, keepdim=True) + EPS)


def softmax(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    weights = masked_softmax(scores.movedim(dim, -1), None if mask is None else mask.movedim(dim, -1))
    return weights.movedim(-1, dim)


def clipped(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    """Leaky ReLU (slope 0.1) alone."""
    return F.leaky_relu(scores, 0.1)


def no_norm(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    return scores


NORMALIZERS: dict[str, Normalizer] = {
    "clipped_l2norm": clipped_l2norm,
    "l2norm": l2norm,
    "clipped_l1norm": clipped_l1norm,
    "l1norm": l1norm,
    "softmax": softmax,
    "clipped": clipped,
    "no_norm": no_norm,
}

SCALE_FREE = frozenset({"clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm"})
"""Normalisers whose result does not change when all scores are multiplied by one positive number."""


def unit_length(vectors: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Vectors over their L2 norm plus EPS; a zero vector stays zero and has a finite gradient."""
    return l2norm(vectors, None, -1)
