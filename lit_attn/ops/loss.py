"""What is minimised? Losses as pure functions of scores.

Sources: SCAN (Lee et al. 2018) and VSE++ (Faghri et al. 2018) for the hinge with hardest negatives.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def matching_hinge(scores: Float[Tensor, "n n"], margin: float = 0.2, hardest: bool = True) -> Float[Tensor, ""]:
    """Hinge loss of a square score matrix whose diagonal holds the true pairs, summed over rows and columns.

    Every other entry of a row or column is a negative; with `hardest`, only the largest violation of each counts.
    """
    own = scores.diagonal()
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    by_row = (margin + scores - own[:, None]).clamp_min(0).masked_fill(diagonal, 0)
    by_column = (margin + scores - own[None, :]).clamp_min(0).masked_fill(diagonal, 0)
    if hardest:
        return by_row.amax(1).sum() + by_column.amax(0).sum()
    return by_row.sum() + by_column.sum()
