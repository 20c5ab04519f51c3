"""How well does a key answer a query? The alignment functions as pure formulas.

Sources: Cao et al. (2022), "Understanding Attention for Vision-and-Language Tasks"; Luong et al. (2015) for general.
Each function is a linear map of one operand followed by a product, so it is written once, as a `(query, key, scale)`
triple of transformed operands; `pairwise` and `elementwise` turn the triple into scores. The activated function applies
its activation to the finished score, before any mask.
"""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Query = Float[Tensor, "*batch q e"]
Key = Float[Tensor, "*batch k e"]
Scores = Float[Tensor, "*batch q k"]
Operands = tuple[Tensor, Tensor, float]
"""Transformed query, transformed key, and the factor of their product."""

NORM_FLOOR = 1e-8
"""Norms are clamped here, so that a zero vector has similarity 0 instead of NaN."""


def cosine(query: Tensor, key: Tensor) -> Operands:
    """q . k / (|q| |k|)."""
    return F.normalize(query, dim=-1, eps=NORM_FLOOR), F.normalize(key, dim=-1, eps=NORM_FLOOR), 1.0


def dot(query: Tensor, key: Tensor) -> Operands:
    """q . k."""
    return query, key, 1.0


def scaled_dot(query: Tensor, key: Tensor) -> Operands:
    """q . k / sqrt(d), with d the width of the operands."""
    return query, key, 1.0 / math.sqrt(query.shape[-1])


def general_query(
    query: Tensor, key: Tensor, weight: Float[Tensor, "e e"], bias: Float[Tensor, " e"] | None = None
) -> Operands:
    """k . (W q + b): the query is transformed (general* and, with a bias, biased general*)."""
    return F.linear(query, weight, bias), key, 1.0


def general_key(
    query: Tensor, key: Tensor, weight: Float[Tensor, "e e"], bias: Float[Tensor, " e"] | None = None
) -> Operands:
    """q . (W k + b): the key is transformed (general† and, with a bias, biased general†)."""
    return query, F.linear(key, weight, bias), 1.0


def pairwise(query: Query, key: Key, scale: float = 1.0) -> Scores:
    """Scores of all pairs, query-major."""
    return (query * scale) @ key.transpose(-1, -2)


def elementwise(
    query: Float[Tensor, "*batch e"], key: Float[Tensor, "*batch k e"], scale: float = 1.0
) -> Float[Tensor, "*batch k e"]:
    """The products before they are summed: one query against many keys."""
    return query.unsqueeze(-2) * key * scale
