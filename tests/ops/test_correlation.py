"""Do correlations agree with loops and with scipy?"""

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from lit_attn.ops.correlation import pearson, spearman


def by_loop(x, y) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return top / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


def test_pearson_and_spearman():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=13), rng.normal(size=13)
    y = y + x
    found = pearson(x, y)
    assert found.r == pytest.approx(by_loop(x, y), abs=1e-12)
    assert found.p == pytest.approx(stats.pearsonr(x, y).pvalue, rel=1e-9)
    tied = np.round(x)
    ranks = spearman(tied, y)
    assert ranks.r == pytest.approx(stats.spearmanr(tied, y).statistic, abs=1e-12)
    assert ranks.p == pytest.approx(stats.spearmanr(tied, y).pvalue, rel=1e-9)


def test_the_papers_p_values_are_those_of_sixteen_points():
    """r = .49, p = .056 and r = .60, p = .014, as published."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=16)
    x = (x - x.mean()) / np.linalg.norm(x - x.mean())
    noise = rng.normal(size=16)
    noise -= noise.mean() + (noise @ x) * x
    noise /= np.linalg.norm(noise)
    for r, p in ((0.49, 0.054), (0.60, 0.014)):
        found = pearson(x, r * x + math.sqrt(1 - r * r) * noise)
        assert found.n == 16
        assert found.r == pytest.approx(r, abs=1e-9)
        assert found.p == pytest.approx(p, abs=2e-3)


def test_permutation_p_is_the_share_of_all_orders():
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 3.0, 7.0]
    r = abs(by_loop(x, y))
    exact = np.mean([abs(by_loop(x, order)) >= r - 1e-12 for order in permutations(y)])
    assert pearson(x, y).permutation_p == pytest.approx(exact, abs=0.015)


def test_too_few_points_and_constant_lists_are_not_numbers():
    assert math.isnan(pearson([1, 2], [3, 4]).r)
    assert math.isnan(pearson([1, 1, 1], [1, 2, 3]).p)
    assert pearson([1, 2, 3, math.nan], [1, 2, 4, 5]).n == 3
    with pytest.raises(ValueError, match="equal length"):
        pearson([1], [1, 2])
