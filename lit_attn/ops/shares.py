"""Which share of attention goes from these words to those? Sums over many texts, from which shares are taken at the end.

Weights are `c h n m`: text, head, word that attends, source that is attended to. All sums are in float64 with heads last, so
that those of batches and processes can be added; only the sum of a single row is in the precision of the weights.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Weights = Float[Tensor, "c h n m"]


def by_group(weights: Weights, groups: Bool[Tensor, "c m g"]) -> Float[Tensor, "c n g h"]:
    """Attention of every word on the sources of each group."""
    found = weights @ groups.to(weights.dtype).unsqueeze(1)  # c h n g
    return found.permute(0, 2, 3, 1).to(torch.float64, memory_format=torch.contiguous_format)


def from_groups(values: Float[Tensor, "c n g h"], targets: Bool[Tensor, "c n a"]) -> Float[Tensor, "a g h"]:
    """Values of words, added up by the groups that the words belong to."""
    found = targets.double().flatten(0, 1).T @ values.flatten(0, 1).flatten(1)
    return found.unflatten(1, values.shape[2:])


def at_pairs(weights: Weights, pairs: Int[Tensor, "p 3"]) -> Float[Tensor, "p h"]:
    """Attention of single words on single sources; a pair is text, word, source."""
    text, word, source = pairs.unbind(-1)
    return weights[text, :, word, source].double()


def summed(values: Float[Tensor, "x h"], item: Int[Tensor, " x"], items: int) -> Float[Tensor, "i h"]:
    """Values of rows, added up by the item that each row belongs to."""
    return values.new_zeros(items, values.shape[1]).index_add_(0, item, values)


def ratio(part: Float[Tensor, "*g h"], whole: Float[Tensor, "*g h"]) -> Float[Tensor, "*g h"]:
    """Part of whole; NaN where the whole is nothing."""
    return torch.where(whole > 0, part / whole, torch.nan)
