"""Which detections does a noun phrase name, and how well does a linker know? Similarities, ties, mAP@K and accuracy.

Ilinykh and Dobnik (2022, Table 2). A linker gives every detection a score; the phrase is linked to the best one and to all
within 1e-6 of it. A score of minus infinity says that two texts cannot be compared: such a detection is never linked and has no
rank.

Several detections often have the same description and so the same score. What is reported does not depend on their order: the
accuracy of a phrase is the share of its links that are right, and its average precision, the sum over ranks k of
P_k (R_k - R_{k-1}), is the mean over all orders of those that tie. Without ties both are the usual ones. A phrase that names
nothing detected counts as a mistake among all phrases, and has no part among the linkable ones.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

TIE = 1e-6
"""Scores that differ by no more are the same."""


class LinkScores(NamedTuple):
    """Of a linker against gold links. Shares from 0 to 1; NaN where there is no phrase."""

    phrases: int
    linkable: int
    mean_ap: float
    accuracy: float
    linkable_mean_ap: float
    linkable_accuracy: float


def cosines(one: Float[np.ndarray, "p d"], other: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "p n"]:
    """Cosines of all pairs of rows. A row of zeros cannot be compared."""
    a, b = (rows.astype(np.float64) for rows in (one, other))
    lengths = np.linalg.norm(a, axis=1)[:, None], np.linalg.norm(b, axis=1)[None]
    known = (lengths[0] > 0) & (lengths[1] > 0)
    return np.where(known, (a @ b.T) / np.where(known, lengths[0] * lengths[1], 1.0), -np.inf)


def greedy_f1(
    one: Float[np.ndarray, "p t d"],
    one_mask: Bool[np.ndarray, "p t"],
    other: Float[np.ndarray, "n s d"],
    other_mask: Bool[np.ndarray, "n s"],
) -> Float64[np.ndarray, "p n"]:
    """BERTScore's F1 (Zhang et al. 2020), without idf and without rescaling.

    Precision is the mean over the first text's tokens of the largest cosine with a token of the second, recall the same the other
    way around. Texts without tokens cannot be compared; where precision and recall do not add up to more than 0, F1 is 0.
    """
    a, b = (_unit(tokens.astype(np.float64)) for tokens in (one, other))
    cosine = np.tensordot(a, b, (2, 2)).transpose(0, 2, 1, 3)  # p n t s
    left, right = one_mask[:, None, :], other_mask[None]
    both = left[..., None] & right[:, :, None]
    cosine = np.where(both, cosine, -np.inf)
    sizes = one_mask.sum(1)[:, None], other_mask.sum(1)[None]
    known = (sizes[0] > 0) & (sizes[1] > 0)
    precision = np.where(left & known[..., None], cosine.max(3, initial=-np.inf), 0.0).sum(2) / np.maximum(sizes[0], 1)
    recall = np.where(right & known[..., None], cosine.max(2, initial=-np.inf), 0.0).sum(2) / np.maximum(sizes[1], 1)
    total = precision + recall
    f1 = np.where(total > 0, 2 * precision * recall / np.where(total > 0, total, 1.0), 0.0)
    return np.where(known, f1, -np.inf)


def linked(scores: Float[np.ndarray, "*b r"], tolerance: float = TIE) -> Bool[np.ndarray, "*b r"]:
    """The best detection of each row and those with the same score; none where nothing can be compared."""
    best = scores.max(-1, keepdims=True, initial=-np.inf)
    return np.isfinite(scores) & (scores >= best - tolerance)


def accuracy(scores: Float[np.ndarray, " r"], right: Bool[np.ndarray, " r"], tolerance: float = TIE) -> float:
    """Which share of the links is right; 0 without links."""
    chosen = linked(scores, tolerance)
    return float((chosen & right).sum() / max(chosen.sum(), 1))


def average_precision(
    scores: Float[np.ndarray, " r"], right: Bool[np.ndarray, " r"], most: int | None = None, tolerance: float = TIE
) -> float:
    """Mean over all orders of tied detections of the sum over ranks of P_k (R_k - R_{k-1}); 0 where nothing is right.

    Args:
        most: Only so many ranks count (the K of mAP@K).
    """
    if not right.any():
        return 0.0
    ranked = np.flatnonzero(np.isfinite(scores))
    ranked = ranked[np.argsort(-scores[ranked], kind="stable")]
    last = len(ranked) if most is None else min(most, len(ranked))
    total, before, right_before = 0.0, 0, 0
    while before < last:
        group = ranked[before:]
        group = group[scores[group] >= scores[group[0]] - tolerance]
        size, hits = len(group), int(right[group].sum())
        if hits:
            place = np.arange(1, min(size, last - before) + 1)
            others = (place - 1) * (hits - 1) / max(size - 1, 1)
            total += float(((right_before + 1 + others) / (before + place)).sum()) * hits / size
        before, right_before = before + size, right_before + hits
    return total / int(right.sum())


def link_scores(
    judged: Iterable[tuple[Float[np.ndarray, " r"], Bool[np.ndarray, " r"]]], most: int | None = None
) -> LinkScores:
    """Scores and gold links of every phrase, in one row of the paper's table."""
    rows = [
        (bool(right.any()), average_precision(scores, right, most), accuracy(scores, right)) for scores, right in judged
    ]
    table = np.array(rows, np.float64).reshape(-1, 3)
    linkable = table[table[:, 0] > 0]
    means = [part[:, i].mean() if len(part) else np.nan for part in (table, linkable) for i in (1, 2)]
    return LinkScores(len(table), len(linkable), *map(float, means))


def _unit(tokens: Float64[np.ndarray, "p t d"]) -> Float64[np.ndarray, "p t d"]:
    lengths = np.linalg.norm(tokens, axis=-1, keepdims=True)
    return tokens / np.where(lengths > 0, lengths, 1.0)
