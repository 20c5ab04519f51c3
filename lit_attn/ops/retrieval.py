"""At which rank does the right caption, or the right picture, come? Retrieval scores from a matrix of similarities.

Rows are pictures, columns captions; captions `c * i … c * i + c - 1` belong to picture i. Sentence retrieval (i2t) takes
the best rank among a picture's own captions, image retrieval (t2i) the rank of a caption's only picture. Ranks start at
0. Ties count against us: every other item with the same score comes first, so a constant matrix scores 0. (The
published code sorts unstably and gives a constant matrix R@1 of 25 %.)
"""

import numpy as np
from numpy.typing import NDArray

RECALLS = (1, 5, 10)


def sentence_ranks(similarity: NDArray[np.floating], captions: int = 5) -> NDArray[np.int64]:
    """For each picture, how many captions of other pictures score at least as much as its best own caption."""
    own = _own(similarity, captions)  # pictures captions
    best = own.max(1, keepdims=True)
    return (similarity >= best).sum(1) - (own >= best).sum(1)


def picture_ranks(similarity: NDArray[np.floating], captions: int = 5) -> NDArray[np.int64]:
    """For each caption, how many other pictures score at least as much as its own."""
    own = _own(similarity, captions).reshape(-1)
    return (similarity >= own).sum(0) - 1


def _own(similarity: NDArray[np.floating], captions: int) -> NDArray[np.floating]:
    pictures = len(similarity)
    if similarity.shape != (pictures, pictures * captions):
        raise ValueError(f"Expected {captions} captions for each of {pictures} pictures; got {similarity.shape}.")
    rows = np.arange(pictures)[:, None]
    return similarity[rows, rows * captions + np.arange(captions)]


def rank_scores(ranks: NDArray[np.int64]) -> dict[str, float]:
    """Recalls in per cent, their sum, and the median and mean rank counted from 1."""
    recalls = {f"r{k}": 100.0 * float(np.mean(ranks < k)) for k in RECALLS}
    return recalls | {
        "rsum": sum(recalls.values()),
        "median_rank": float(np.floor(np.median(ranks))) + 1,
        "mean_rank": float(np.mean(ranks)) + 1,
    }


def retrieval_scores(similarity: NDArray[np.floating], captions: int = 5) -> dict[str, float]:
    """Scores of both directions as `i2t/r1`, `t2i/r1`, …, and `rsum`, the sum of all six recalls."""
    found = {
        "i2t": rank_scores(sentence_ranks(similarity, captions)),
        "t2i": rank_scores(picture_ranks(similarity, captions)),
    }
    scores = {f"{way}/{name}": value for way, values in found.items() for name, value in values.items()}
    return scores | {"rsum": found["i2t"]["rsum"] + found["t2i"]["rsum"]}


def fold_scores(similarity: NDArray[np.floating], folds: int, captions: int = 5) -> dict[str, float]:
    """Mean scores over consecutive blocks of pictures: the 1K protocol of COCO is five folds of its 5,000."""
    pictures, rest = divmod(len(similarity), folds)
    if rest or not pictures:
        raise ValueError(f"{len(similarity)} pictures cannot be cut into {folds} equal folds.")
    blocks = [
        retrieval_scores(
            similarity[i * pictures : (i + 1) * pictures, i * pictures * captions : (i + 1) * pictures * captions],
            captions,
        )
        for i in range(folds)
    ]
    return {name: float(np.mean([block[name] for block in blocks])) for name in blocks[0]}
