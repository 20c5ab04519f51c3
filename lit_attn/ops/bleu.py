"""How many of a caption's n-grams stand in its references? BLEU-1 to BLEU-4 (Papineni et al., 2002), as COCO counts it.

Right n-grams over all n-grams, an n-gram being right at most as often as in the reference that has it most often;
BLEU-n is the geometric mean of these shares up to n, times exp(1 - r / c) when the hypothesis, of c tokens, is shorter
than r, the length of the reference closest to it. The corpus score adds up right n-grams, n-grams and lengths first.
Everything is between 0 and 1. As in COCO's code 1e-15 and 1e-9 keep the shares from 0 / 0, so that a sentence without a
common 4-gram has a tiny BLEU-4, not 0, and a perfect one falls 1e-9 short of 1.

torchmetrics' BLEU is not used, because it differs: of two references equally close in length it takes the first, COCO
the shorter (a hypothesis of two tokens with references of three and one has BLEU-1 0.607 there, 1 here), it is 0 where
one share is 0, and it computes in float32.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from lit_attn.ops.cider import LONGEST, Sentence, check_pairs, ngrams

TINY = 1e-15
SMALL = 1e-9


class _Counts(NamedTuple):
    """What BLEU has to know: of one sentence or, added up, of a corpus."""

    right: Int64[np.ndarray, "*sentences n"]
    total: Int64[np.ndarray, "*sentences n"]
    length: Int64[np.ndarray, "*sentences"]
    closest: Int64[np.ndarray, "*sentences"]


def bleu(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> Float64[np.ndarray, " n"]:
    """BLEU-1 to BLEU-4 of the whole corpus."""
    return _scores(_Counts(*(np.sum(counts, axis=0) for counts in _count(hypotheses, references))))


def sentence_bleu(
    hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]
) -> Float64[np.ndarray, "hypotheses n"]:
    """BLEU-1 to BLEU-4 of each hypothesis alone, as a reward uses it."""
    return _scores(_count(hypotheses, references))


def _count(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> _Counts:
    check_pairs(hypotheses, references)
    right = np.zeros((len(hypotheses), LONGEST), dtype=np.int64)
    lengths = np.array([len(tokens) for tokens in hypotheses], dtype=np.int64)
    closest = np.zeros_like(lengths)
    for row, (tokens, own) in enumerate(zip(hypotheses, references, strict=True)):
        closest[row] = min(
            (len(reference) for reference in own), key=lambda length: (abs(length - len(tokens)), length)
        )
        tables = [ngrams(reference) for reference in own]
        for n, table in enumerate(ngrams(tokens)):
            most = [max(theirs[n].get(ngram, 0) for theirs in tables) for ngram in table]
            right[row, n] = sum(map(min, table.values(), most))
    total = np.maximum(lengths[:, None] - np.arange(LONGEST), 0)
    return _Counts(right, total, lengths, closest)


def _scores(counts: _Counts) -> Float64[np.ndarray, "*sentences n"]:
    shares = (counts.right + TINY) / (counts.total + SMALL)
    means = np.cumprod(shares, axis=-1) ** (1 / np.arange(1, LONGEST + 1))
    ratio = (counts.length + TINY) / (counts.closest + SMALL)
    return means * np.exp(np.minimum(0, 1 - 1 / ratio))[..., None]
