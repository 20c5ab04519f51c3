"""What is to be explained? One number per sample, from a network's scores.

`difference` and `ratio` are the targets of logical inspection (Cui et al.): evidence for one answer against another, read
with `heterogenous(…, "full")`: positive speaks for the first. (a - b) / b has the gradient of a / b, so it is not offered.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lit_attn.errors import UserError

Classes = int | Int[Tensor, " b"]
"""One class for all samples, or one each."""


def score_of(scores: Float[Tensor, "b v"], classes: Classes) -> Float[Tensor, " b"]:
    """The score of a class."""
    index = torch.as_tensor(classes, device=scores.device).expand(len(scores))
    wrong = index[(index < 0) | (index >= scores.shape[1])]
    if len(wrong):
        raise UserError(f"The target class {int(wrong[0])} is out of range: there are {scores.shape[1]} classes.")
    return scores.gather(1, index.unsqueeze(1)).squeeze(1)


def best(scores: Float[Tensor, "b v"]) -> Float[Tensor, " b"]:
    """The score of the best class."""
    return score_of(scores, scores.argmax(-1))


def difference(scores: Float[Tensor, "b v"], first: Classes, second: Classes) -> Float[Tensor, " b"]:
    """How much better the first class is."""
    return score_of(scores, first) - score_of(scores, second)


def ratio(scores: Float[Tensor, "b v"], first: Classes, second: Classes) -> Float[Tensor, " b"]:
    """How many times as good the first class is; means something for scores of one sign."""
    return score_of(scores, first) / score_of(scores, second)
