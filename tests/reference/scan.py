"""SCAN's similarity as loops over single numbers, straight from the equations. Slow and obvious, for comparison."""

import math

import torch
from torch import Tensor


def normalize(scores: Tensor, name: str, dim: int) -> Tensor:
    if name.startswith("clipped"):
        scores = torch.where(scores > 0, scores, scores * 0.1)
    if name.endswith("l2norm"):
        return scores / (scores.pow(2).sum(dim, keepdim=True).sqrt() + 1e-8)
    if name.endswith("l1norm"):
        return scores / (scores.abs().sum(dim, keepdim=True) + 1e-8)
    if name == "softmax":
        return scores.exp() / scores.exp().sum(dim, keepdim=True)
    return scores


def similarity(
    query: Tensor, key: Tensor, score, normalizer: str, temperature: float, pooling: str, sharpness: float
) -> tuple[float, Tensor]:
    """One picture and one caption, unpadded: similarity, and weights [query, key]."""
    scores = torch.stack([torch.stack([score(q, k) for k in key]) for q in query])
    sharpened = temperature * normalize(scores, normalizer, dim=0)
    weights = torch.stack([row.exp() / row.exp().sum() for row in sharpened])
    relevances = []
    for q, row in zip(query, weights, strict=True):
        context = sum(w * k for w, k in zip(row, key, strict=True))
        relevances.append(float(q @ context) / max(1e-8, float(q.norm() * context.norm())))
    match pooling:
        case "mean":
            pooled = sum(relevances) / len(relevances)
        case "sum":
            pooled = sum(relevances)
        case "max":
            pooled = max(relevances)
        case "lse":
            pooled = math.log(sum(math.exp(sharpness * r) for r in relevances)) / sharpness
    return pooled, weights
