"""Do scores find the known cause? Mass, pointing and average precision against what an answer truly rests on.

Each lies in [0, 1], higher is better, and is NaN for a sample without a known cause. `chance` gives each measure's value for
scores that know nothing.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.ops import distribution

Scores = Float[Tensor, "b n"]
Chosen = Bool[Tensor, "b n"]


def mass(scores: Scores, truth: Chosen, mask: Chosen) -> Float[Tensor, " b"]:
    """Share of the positive scores that lies on the cause; NaN if nothing is positive."""
    positive = scores.clamp_min(0).masked_fill(~mask, 0.0).unsqueeze(1)
    total = positive.sum((-2, -1))
    share = distribution.mass(positive, (truth & mask).unsqueeze(1)).squeeze(1) / total
    return _known(torch.where(total > 0, share, torch.nan), truth & mask)


def pointing(scores: Scores, truth: Chosen, mask: Chosen) -> Float[Tensor, " b"]:
    """Whether the strongest position is part of the cause; a fraction for exact ties."""
    real = scores.masked_fill(~mask, -torch.inf).unsqueeze(1)
    return _known(distribution.points_at(real, (truth & mask).unsqueeze(1)).squeeze(1), truth & mask)


def average_precision(scores: Scores, truth: Chosen, mask: Chosen) -> Float[Tensor, " b"]:
    """Mean over the cause's positions of the precision among all that score as high; equal scores stand together."""
    ordered, order = scores.masked_fill(~mask, -torch.inf).sort(dim=-1)
    right = (truth & mask).gather(1, order)
    first = torch.searchsorted(ordered, ordered)  # how many score lower
    above = scores.shape[1] - first
    so_far = torch.nn.functional.pad(right.cumsum(-1), (1, 0))
    hits = so_far[:, -1:] - so_far.gather(1, first)
    precision = torch.where(right, hits / above, 0.0).to(scores.dtype)
    return _known(precision.sum(-1) / right.sum(-1).clamp_min(1), right)


def chance(truth: Chosen, mask: Chosen) -> dict[str, Float[Tensor, " b"]]:
    """Expected mass of equal scores, pointing of a random position, average precision of a random order."""
    known = truth & mask
    right, count = known.sum(-1).double(), mask.sum(-1).double()
    share = _known(right / count, known)
    longest = int(count.max()) if len(count) else 0
    harmonic = torch.cat([torch.zeros(1), (1 / torch.arange(1, longest + 1).double()).cumsum(0)]).to(share)
    first = harmonic[mask.sum(-1)] / count
    others = torch.where(count > 1, (right - 1) / (count - 1).clamp_min(1), 0.0)
    return {"mass": share, "pointing": share, "average_precision": _known(others * (1 - first) + first, known)}


def _known(values: Float[Tensor, " b"], truth: Chosen) -> Float[Tensor, " b"]:
    return torch.where(truth.any(-1), values, torch.nan)
