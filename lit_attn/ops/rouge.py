"""How much of a reference does a caption tell in the same order? ROUGE-L (Lin, 2004), as COCO counts it.

With L the length of the longest common subsequence, precision is the largest L / hypothesis length over the references
and recall the largest L / reference length, perhaps of another reference; the score is their F measure with beta 1.2,
between 0 and 1, and 0 when nothing is common.

COCO splits text on single blanks here, and on any white space for BLEU and CIDEr. Give `text.split(" ")` to score as it
does: two blanks in a row then hold an empty token, and an empty text is one empty token, which equals an empty reference.

torchmetrics' ROUGE-L is not used, because it differs: it has no beta, takes the best or the mean F over references
instead of mixing their precision and recall (five words against the same five, and against seven that begin with
them, are not 1 there), and drops all but ASCII letters and digits, so that "狗 在 桌子 上" is empty to it.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from lit_attn.ops.cider import Sentence, check_pairs

BETA = 1.2


def longest_common_subsequence(first: Sentence, second: Sentence) -> int:
    """Its length. Row by row of the usual table, a row as the bits of one integer (Hyyrö, 2004)."""
    places: dict[object, int] = {}
    for place, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << place
    everywhere = (1 << len(first)) - 1
    row = everywhere  # a bit is 0 where the table grows by one
    for token in second:
        matches = row & places.get(token, 0)
        row = ((row + matches) | (row - matches)) & everywhere
    return len(first) - row.bit_count()


def rouge_l(
    hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]
) -> Float64[np.ndarray, " hypotheses"]:
    """ROUGE-L of each hypothesis; the corpus score is the mean."""
    check_pairs(hypotheses, references)
    return np.array([_score(tokens, own) for tokens, own in zip(hypotheses, references, strict=True)], dtype=np.float64)


def _score(tokens: Sentence, references: Sequence[Sentence]) -> float:
    common = [longest_common_subsequence(tokens, reference) for reference in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(tokens)
    recall = max(length / len(reference) for length, reference in zip(common, references, strict=True) if length)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
