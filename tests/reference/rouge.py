"""ROUGE-L by trying all subsequences. Slow and obvious, for comparison."""

from itertools import combinations


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(token in rest for token in part)


def common_length(first, second):
    """Length of the longest subsequence of both."""
    for length in range(len(first), 0, -1):
        if any(is_subsequence(part, second) for part in combinations(first, length)):
            return length
    return 0


def rouge_l(hypothesis, references):
    precision = max(common_length(hypothesis, r) / len(hypothesis) for r in references) if hypothesis else 0.0
    recall = max(common_length(hypothesis, r) / len(r) if r else 0.0 for r in references)
    if precision == 0:
        return 0.0
    return (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)
