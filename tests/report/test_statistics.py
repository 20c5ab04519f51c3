"""Are the statistics right? Against scipy and against slow loops."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from lit_attn.report import statistics as ours


def test_permutation_test_is_scipys():
    rng = np.random.default_rng(3)
    for n in (2, 3, 5, 7, 11):
        first, second = rng.normal(size=n), rng.normal(0.7, size=n)
        wanted = stats.permutation_test(
            (first, second),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
        )
        assert ours.permutation_test(first, second) == pytest.approx(wanted.pvalue, abs=1e-12)


def test_permutation_test_by_a_loop_and_its_floor():
    values = [0.3, 0.1, 0.2]
    flipped = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in itertools.product((1, -1), repeat=3)
    ]
    wanted = sum(f >= 0.6 - 1e-9 for f in flipped) / 8
    assert ours.permutation_test(values, [0, 0, 0]) == wanted == 0.25 == ours.smallest_p(3)
    assert ours.permutation_test([], []) == 1.0
    assert ours.permutation_test([1.0, 2.0], [1.0, 2.0]) == 1.0
    many = ours.permutation_test([1.0] * 20, [0.0] * 20)
    assert 0 < many < 1e-3


def test_bootstrap_goes_over_all_samples_of_few_seeds():
    differences = [1.0, 2.0, 4.0]
    means = [sum(s) / 3 for s in itertools.product(differences, repeat=3)]
    low, high = ours.bootstrap_interval(differences, [0, 0, 0])
    assert low == pytest.approx(np.quantile(means, 0.025))
    assert high == pytest.approx(np.quantile(means, 0.975))
    rng = np.random.default_rng(1)
    many = rng.normal(2.0, 1.0, 400)
    low, high = ours.bootstrap_interval(many, np.zeros(400))
    assert low == pytest.approx(many.mean() - 1.96 * many.std() / 20, abs=0.02)
    assert high == pytest.approx(many.mean() + 1.96 * many.std() / 20, abs=0.02)
    assert all(map(math.isnan, ours.bootstrap_interval([], [])))


def test_two_groups_give_students_test_and_more_give_the_within_variance_of_anova():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=5).tolist(), rng.normal(1, size=3).tolist()
    noise = ours.pooled_noise([first, second])
    assert ours.pooled_test(first, second, noise) == pytest.approx(stats.ttest_ind(first, second).pvalue, abs=1e-12)
    groups = [rng.normal(i, size=n).tolist() for i, n in enumerate((2, 3, 5, 7))]
    noise = ours.pooled_noise(groups)
    everything = np.concatenate(groups)
    within = sum((v - np.mean(g)) ** 2 for g in groups for v in g)
    between = sum(len(g) * (np.mean(g) - everything.mean()) ** 2 for g in groups)
    f = (between / 3) / noise.std**2
    assert noise.freedom == 13
    assert noise.std**2 * 13 == pytest.approx(within)
    assert f == pytest.approx(stats.f_oneway(*groups).statistic)


def test_noise_that_is_not_known_gives_no_p():
    noise = ours.pooled_noise([[1.0], [2.0]])
    assert math.isnan(noise.std)
    assert math.isnan(ours.pooled_test([1.0], [2.0], noise))
    assert math.isnan(ours.hedges_g([1.0], [2.0], noise))
    flat = ours.pooled_noise([[1.0, 1.0], [2.0, 2.0]])
    assert ours.pooled_test([1.0, 1.0], [2.0, 2.0], flat) == 0.0
    assert ours.pooled_test([1.0, 1.0], [1.0, 1.0], flat) == 1.0


def test_hedges_correction_makes_the_effect_unbiased():
    rng = np.random.default_rng(7)
    found = []
    for _ in range(4000):
        first, second = rng.normal(1.0, 1.0, 3), rng.normal(0.0, 1.0, 3)
        found.append(ours.hedges_g(first, second, ours.pooled_noise([first, second])))
    assert np.mean(found) == pytest.approx(1.0, abs=0.06), "without the correction it would be 1.25"


def test_holm_by_its_definition():
    generator = random.Random(2)
    for _ in range(50):
        values = [generator.random() ** 3 for _ in range(7)]
        order = sorted(range(7), key=lambda i: values[i])
        wanted = [0.0] * 7
        for k, i in enumerate(order):
            wanted[i] = min(1.0, max((7 - j) * values[order[j]] for j in range(k + 1)))
        assert ours.holm(values) == pytest.approx(wanted)
    assert ours.holm([0.01, math.nan, 0.04])[::2] == pytest.approx([0.02, 0.04])


def test_correlation_is_scipys_and_p_counts_orders():
    rng = np.random.default_rng(11)
    for n in (3, 5, 7, 13):
        x, y = rng.normal(size=n).tolist(), rng.normal(size=n).tolist()
        found, wanted = ours.correlation(x, y), stats.pearsonr(x, y)
        assert found.r == pytest.approx(wanted.statistic)
        assert found.n == n
        if n > 8:
            assert found.p == pytest.approx(wanted.pvalue)
        else:
            rs = [abs(np.corrcoef(x, order)[0, 1]) for order in itertools.permutations(y)]
            assert found.p == pytest.approx(np.mean(np.array(rs) >= abs(found.r) - 1e-9))
    assert math.isnan(ours.correlation([1, 1, 1], [1, 2, 3]).r)
    assert ours.correlation([1, 2, 3, math.nan], [1, 2, 3, 4]).n == 3
