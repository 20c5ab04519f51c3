"""How similar are a picture and a caption? Stacked cross attention (Lee et al. 2018, SCAN) as pure functions.

One stream asks, the other answers; text-to-image lets words ask regions, image-to-text lets regions ask words. For each
query: scores against the keys, normalised over the queries that compete for a key, a sharpened softmax over keys, the
attended vector, and its cosine with the query. `pool` turns the cosines into one similarity.

The original builds every attended vector, d wide, in a loop over captions. `relevance_from_gram` needs only its inner
product with the query, which is a weighted sum of query-key dot products, and its norm, which is a quadratic form of
the keys' Gram matrix. So all pairs cost two matrix products and some work on scalars.

Deviations: padding never takes part; `logsumexp` instead of exponentials that overflow.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lit_attn.ops.normalize import Normalizer, masked_softmax

COSINE_FLOOR = 1e-8
"""The product of two norms is clamped here, as in the original."""


def cross_attention(
    scores: Tensor, exists: Tensor | None, normalizer: Normalizer, temperature: float, query_axis: int = -2
) -> Tensor:
    """Weights over the last axis, the keys; `exists` is False where query or key is padding, None without any."""
    return masked_softmax(normalizer(scores, exists, query_axis) * temperature, exists)


def scrambled_attention(
    scores: Float[Tensor, "*batch q k"],
    lengths: Int[Tensor, "*#batch"],
    normalizer: Normalizer,
    temperature: float,
) -> Float[Tensor, "*batch q k"]:
    """What the published alignment study computes for four of its functions, for reproduction only.

    Scores are normalised over regions instead of words, laid out as [region, word], and read back as [word, region]
    without a transposition, so that entries change places. Every picture must have the same number of regions.
    """
    queries, keys = scores.shape[-2:]
    exists = (torch.arange(queries, device=scores.device) < lengths[..., None])[..., None]  # * q 1
    normalized = normalizer(scores, exists.expand(scores.shape), -1)
    words = lengths[..., None]  # * 1
    position = torch.arange(queries * keys, device=scores.device)
    source = (position % words) * keys + position // words  # * q·k
    source = torch.where(position < words * keys, source, 0)
    flat = normalized.flatten(-2)
    moved = flat.gather(-1, source.expand(flat.shape)).unflatten(-1, (queries, keys))
    return masked_softmax(moved * temperature, exists.expand(scores.shape))


def relevance(query: Float[Tensor, "*batch q d"], context: Float[Tensor, "*batch q d"]) -> Float[Tensor, "*batch q"]:
    """Cosine of each query with what it attended to."""
    norms = query.norm(dim=-1) * context.norm(dim=-1)
    return (query * context).sum(-1) / norms.clamp_min(COSINE_FLOOR)


def relevance_from_gram(
    weights: Float[Tensor, "a q m k"],
    products: Float[Tensor, "a q m k"],
    query_norm: Float[Tensor, "a q"],
    gram: Float[Tensor, "m k k"],
) -> Float[Tensor, "a q m"]:
    """The same cosine for all pairs of a and m, from query-key dot products and the keys' Gram matrices."""
    inner = torch.linalg.vecdot(weights, products)
    rows = weights.flatten(0, 1).transpose(0, 1)  # m a·q k
    squared = torch.linalg.vecdot(torch.bmm(rows, gram), rows).T.unflatten(0, query_norm.shape)  # a q m
    # Rounding can push a tiny square below zero; the floor also keeps the gradient of the root finite.
    norm = squared.clamp_min(COSINE_FLOOR**2).sqrt()
    return inner / (query_norm[..., None] * norm).clamp_min(COSINE_FLOOR)


def pool(relevance: Tensor, query_mask: Tensor | None, how: str, sharpness: float, query_axis: int = -1) -> Tensor:
    """One similarity from the relevances of all queries: `mean`, `sum`, `max`, or `lse` = log sum exp(s r) / s."""
    if query_mask is None:
        query_mask = torch.ones((), dtype=torch.bool, device=relevance.device)
    query_mask = query_mask.expand(relevance.shape)
    match how:
        case "mean":
            return relevance.masked_fill(~query_mask, 0).sum(query_axis) / query_mask.sum(query_axis)
        case "sum":
            return relevance.masked_fill(~query_mask, 0).sum(query_axis)
        case "max":
            return relevance.masked_fill(~query_mask, -math.inf).amax(query_axis)
        case "lse":
            sharp = (relevance * sharpness).masked_fill(~query_mask, -math.inf)
            return sharp.logsumexp(query_axis) / sharpness
        case _:
            raise ValueError(f"Unknown pooling {how!r}. Known: mean, sum, max, lse.")
