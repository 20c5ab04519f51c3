"""BLEU as loops over single n-grams, straight from the definition. Slow and obvious, for comparison."""

import math

from tests.reference.cider import grams


def bleu(hypotheses, references, n):
    """BLEU-n of a corpus; its shares are kept from 0 / 0 as COCO does."""
    product = 1.0
    for k in range(1, n + 1):
        right = total = 0
        for hypothesis, own in zip(hypotheses, references, strict=True):
            for ngram in set(grams(hypothesis, k)):
                right += min(grams(hypothesis, k).count(ngram), max(grams(r, k).count(ngram) for r in own))
            total += len(grams(hypothesis, k))
        product *= (right + 1e-15) / (total + 1e-9)
    length = sum(len(hypothesis) for hypothesis in hypotheses) + 1e-15
    wanted = 1e-9
    for hypothesis, own in zip(hypotheses, references, strict=True):
        shortest_first = sorted(len(reference) for reference in own)
        wanted += min(shortest_first, key=lambda size: abs(size - len(hypothesis)))
    return product ** (1 / n) * (math.exp(1 - wanted / length) if length < wanted else 1.0)
