"""How does attention between word pieces become attention between words?

Attention to a word is the sum over its pieces; attention from a word is the mean over its pieces. So the sum of a row survives,
apart from what goes to pieces that belong to no word. Rows of words without any piece are zero.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def word_attention(
    weights: Float[Tensor, "b h q k"],
    query_word: Int[Tensor, "b q"],
    key_word: Int[Tensor, "b k"],
    queries: int,
    keys: int,
) -> Float[Tensor, "b h w v"]:
    """Weights between `queries` and `keys` words.

    Args:
        weights: Between pieces.
        query_word, key_word: Of each piece its word, -1 for none.
        queries, keys: How many words there are at most.
    """
    to = _belongs(key_word, keys).to(weights.dtype)  # b k v
    of = _belongs(query_word, queries).to(weights.dtype)  # b q w
    mean = of / of.sum(1, keepdim=True).clamp(min=1.0)
    return torch.einsum("bqw,bhqk,bkv->bhwv", mean, weights, to)


def _belongs(word: Int[Tensor, "b p"], count: int) -> Float[Tensor, "b p n"]:
    """One-hot over words; all zero for pieces that belong to none."""
    return (word.unsqueeze(-1) == torch.arange(count, device=word.device)).double()
