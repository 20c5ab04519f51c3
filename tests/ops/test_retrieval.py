"""Are ranks counted as published, and ties against us?"""

import numpy as np
import pytest

from lit_attn.ops.retrieval import fold_scores, picture_ranks, rank_scores, retrieval_scores, sentence_ranks

NAMES = ("r1", "r5", "r10", "median_rank", "mean_rank")


def listed(scores: dict[str, float], way: str) -> list[float]:
    return [scores[f"{way}/{name}"] for name in NAMES]


def test_scores_equal_the_original(golden):
    arrays = golden("alignment/scan_retrieval.npz")
    scores = retrieval_scores(arrays["sims"].numpy())
    for way in ("i2t", "t2i"):
        np.testing.assert_allclose(listed(scores, way), arrays[f"{way}_metrics"].numpy(), atol=1e-9)
    np.testing.assert_array_equal(sentence_ranks(arrays["sims"].numpy()), arrays["i2t_ranks"].numpy())
    np.testing.assert_array_equal(picture_ranks(arrays["sims"].numpy()), arrays["t2i_ranks"].numpy())


def test_ties_count_against_us(golden):
    arrays = golden("alignment/scan_retrieval.npz")
    ties = arrays["ties.sims"].numpy()
    np.testing.assert_array_equal(sentence_ranks(ties), arrays["ties.i2t_ranks_pessimistic_other_images"].numpy())
    np.testing.assert_array_equal(picture_ranks(ties), arrays["ties.t2i_ranks_pessimistic"].numpy())
    scores = retrieval_scores(arrays["constant.sims"].numpy())
    assert scores["i2t/r1"] == scores["t2i/r1"] == 0


def test_folds_equal_the_original(golden):
    arrays = golden("alignment/scan_retrieval.npz")
    scores = fold_scores(arrays["folds.sims"].numpy(), 5)
    wanted = arrays["folds.mean"].numpy()
    np.testing.assert_allclose(listed(scores, "i2t") + listed(scores, "t2i"), wanted, atol=1e-9)


def test_ranks_by_sorting():
    similarity = np.random.default_rng(0).standard_normal((7, 21))
    for picture in range(7):
        order = np.argsort(-similarity[picture]).tolist()
        best = min(order.index(caption) for caption in range(3 * picture, 3 * picture + 3))
        assert sentence_ranks(similarity, 3)[picture] == best
    for caption in range(21):
        order = np.argsort(-similarity[:, caption]).tolist()
        assert picture_ranks(similarity, 3)[caption] == order.index(caption // 3)


def test_rsum_is_the_sum_of_recalls():
    scores = rank_scores(np.array([0, 3, 7, 12]))
    assert (scores["r1"], scores["r5"], scores["r10"], scores["rsum"]) == (25, 50, 75, 150)
    assert (scores["median_rank"], scores["mean_rank"]) == (6, 6.5)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="Expected 5 captions for each of 3 pictures"):
        retrieval_scores(np.zeros((3, 14)))
    with pytest.raises(ValueError, match="cannot be cut into 2 equal folds"):
        fold_scores(np.zeros((3, 15)), 2)
