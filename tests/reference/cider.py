"""CIDEr-D as loops over single n-grams, straight from the equations. Slow and obvious, for comparison."""

import math


def grams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def weight(ngram, tokens, corpus):
    """Times in the sentence, times the log of all pictures over those that have it in a reference (or 1)."""
    pictures_with_it = 0
    for references in corpus:
        if any(ngram in grams(reference, len(ngram)) for reference in references):
            pictures_with_it += 1
    times = grams(tokens, len(ngram)).count(ngram)
    return times * math.log(len(corpus) / max(1, pictures_with_it))


def similarity(hypothesis, reference, n, corpus, clipped):
    ngrams = sorted(set(grams(hypothesis, n)) | set(grams(reference, n)))
    a = [weight(ngram, hypothesis, corpus) for ngram in ngrams]
    b = [weight(ngram, reference, corpus) for ngram in ngrams]
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    if norms == 0:
        return 0.0
    return sum((min(x, y) if clipped else x) * y for x, y in zip(a, b, strict=True)) / norms


def cider(hypothesis, references, corpus, clipped=True, sigma=6.0):
    """One hypothesis against its references; document frequencies from `corpus`, a list of references for each picture."""
    total = 0.0
    for reference in references:
        difference = len(grams(hypothesis, 2)) - len(grams(reference, 2))
        penalty = 1.0 if sigma is None else math.exp(-(difference**2) / (2 * sigma**2))
        for n in (1, 2, 3, 4):
            total += similarity(hypothesis, reference, n, corpus, clipped) * penalty / 4
    return 10 * total / len(references)
