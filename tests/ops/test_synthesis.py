"""Do the scores of picture sets equal slow or independent versions of their formulas, also where sets are tiny?"""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from lit_attn.ops.synthesis import covariance, drawn, fold_precision, frechet_distance, inception_score, parts

N, K, F = 29, 7, 5


def probabilities(rows: int = N, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(K, 0.4), rows))


def slow_inception_score(rows: list[list[float]], splits: int) -> tuple[float, float]:
    scores = []
    for i in range(splits):
        part = rows[i * len(rows) // splits : (i + 1) * len(rows) // splits]
        marginal = [sum(row[k] for row in part) / len(part) for k in range(K)]
        divergences = [sum(p * math.log(p / m) for p, m in zip(row, marginal, strict=True)) for row in part]
        scores.append(math.exp(sum(divergences) / len(part)))
    mean = sum(scores) / splits
    return mean, math.sqrt(sum((score - mean) ** 2 for score in scores) / splits)


@pytest.mark.parametrize("splits", [1, 3, 10])
def test_inception_score_against_a_loop(splits):
    rows = probabilities()
    assert inception_score(rows, splits) == pytest.approx(slow_inception_score(rows.tolist(), splits), abs=1e-12)


def test_inception_score_of_known_sets():
    sure = torch.eye(K).repeat(3, 1)
    assert inception_score(sure, 1) == pytest.approx((K, 0)), "sure about each, all classes as frequent"
    assert inception_score(sure[:1].repeat(N, 1)) == pytest.approx((1, 0)), "always the same class"
    assert inception_score(torch.full((N, K), 1 / K)) == pytest.approx((1, 0), abs=1e-6), "it cannot tell"


def test_fewer_pictures_than_splits_are_parts_of_their_own():
    assert inception_score(probabilities(3), 10) == pytest.approx((1, 0), abs=1e-12)
    assert all(math.isnan(value) for value in inception_score(probabilities(0)))


@pytest.mark.parametrize(("rows", "count"), [(29, 10), (7, 3), (2, 5), (0, 4)])
def test_parts_cover_every_row_once(rows, count):
    found = [list(range(rows))[part] for part in parts(rows, count)]
    assert [row for part in found for row in part] == list(range(rows))
    assert len(found) == min(rows, count)
    assert all(found)


def test_shares_and_their_spread_over_folds():
    hits = torch.tensor([1, 1, 1, 0, 0, 1, 0], dtype=torch.bool)
    shares = [2 / 2, 1 / 2, 1 / 3]  # of 2, 2 and 3 rows
    assert fold_precision(hits, 3) == pytest.approx((4 / 7, np.std(shares)))
    assert fold_precision(hits[:2], 10) == pytest.approx((1, 0))
    assert all(math.isnan(value) for value in fold_precision(hits[:0]))


def moments(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows.mean(0)), torch.from_numpy(np.cov(rows, rowvar=False))


def two_sets(first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(first, F)) @ rng.normal(size=(F, F)), 3 + rng.normal(size=(second, F))


def test_frechet_distance_against_the_root_of_a_matrix():
    one, other = two_sets(31, 23)
    (m1, c1), (m2, c2) = moments(one), moments(other)
    root = np.trace(scipy.linalg.sqrtm(c1.numpy() @ c2.numpy())).real
    expected = float(((m1 - m2) ** 2).sum() + c1.trace() + c2.trace()) - 2 * root
    assert frechet_distance(m1, c1, m2, c2) == pytest.approx(expected, abs=1e-9)
    assert frechet_distance(m2, c2, m1, c1) == pytest.approx(expected, abs=1e-9), "either way"


def test_distance_of_independent_numbers_can_be_worked_out_on_paper():
    m1, m2 = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0])
    c1, c2 = torch.diag(torch.tensor([4.0, 0.0])), torch.diag(torch.tensor([9.0, 16.0]))
    assert frechet_distance(m1, c1, m2, c2) == pytest.approx(25 + (2 - 3) ** 2 + (0 - 4) ** 2)


@pytest.mark.parametrize("rows", [2, 3, 31])
def test_a_set_is_at_no_distance_from_itself_even_with_fewer_rows_than_numbers(rows):
    one, _ = two_sets(rows, 2)
    assert frechet_distance(*moments(one), *moments(one)) == pytest.approx(0, abs=1e-12)


def test_singular_covariances_give_the_limit_of_regular_ones():
    """The distance is continuous: a spread of 1e-12 in all directions changes it by about the root of that."""
    one, other = two_sets(3, 4)
    (m1, c1), (m2, c2) = moments(one), moments(other)
    assert int(torch.linalg.matrix_rank(c1)) < F
    nudge = 1e-12 * torch.eye(F, dtype=torch.float64)
    assert frechet_distance(m1, c1, m2, c2) == pytest.approx(frechet_distance(m1, c1 + nudge, m2, c2 + nudge), abs=1e-4)
    nothing = torch.zeros(F, F, dtype=torch.float64)
    assert frechet_distance(m1, nothing, m2, nothing) == pytest.approx(float(((m1 - m2) ** 2).sum()))


def test_numbers_that_are_not_finite_give_nan():
    mean, nothing = torch.zeros(F), torch.eye(F)
    assert math.isnan(frechet_distance(mean, nothing, mean, nothing * math.nan))


def test_sums_give_numpys_covariance_and_one_row_has_none():
    rows, _ = two_sets(11, 2)
    sums = torch.from_numpy(rows)
    mean, cov = covariance(sums.sum(0), sums.T @ sums, len(rows))
    np.testing.assert_allclose(mean, rows.mean(0), atol=1e-12)
    np.testing.assert_allclose(cov, np.cov(rows, rowvar=False), atol=1e-12)
    _, alone = covariance(sums[0], torch.outer(sums[0], sums[0]), 1)
    assert not alone.any()


def test_draws_are_different_allowed_columns_that_depend_on_seed_and_id_alone():
    rng = np.random.default_rng(3)
    allowed, ids = rng.random((13, 101)) < 0.5, np.arange(13) * 7
    found = drawn(allowed, ids, 11, seed=2)
    assert found.shape == (13, 11)
    for row, columns in enumerate(found):
        assert len(set(columns.tolist())) == 11
        assert allowed[row, columns].all()
        np.testing.assert_array_equal(drawn(allowed[row : row + 1], ids[row : row + 1], 11, seed=2)[0], columns)
    assert (found != drawn(allowed, ids, 11, seed=3)).any()
    assert (drawn(allowed[:1], ids[:1], 11) != drawn(allowed[:1], ids[:1] + 1, 11)).any()
    assert drawn(allowed, ids, 0).shape == (13, 0)
    with pytest.raises(ValueError, match="102 columns are to be drawn, but a row allows only"):
        drawn(allowed, ids, 102)


def test_every_column_is_drawn_as_often_as_any_other():
    counts = np.bincount(drawn(np.ones((5000, 17), bool), np.arange(5000), 3).reshape(-1), minlength=17)
    expected, spread = 5000 * 3 / 17, math.sqrt(5000 * (3 / 17) * (14 / 17))
    assert np.abs(counts - expected).max() < 4 * spread
