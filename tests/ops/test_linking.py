"""Are the scores of linkers those of slow loops, whatever the order of ties?"""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.ops.linking import accuracy, average_precision, cosines, greedy_f1, link_scores, linked

NONE = -math.inf


def slow_ap(scores, right, most) -> float:
    """The sum over ranks, averaged over every order of the detections that keeps better scores first."""
    known = [i for i, score in enumerate(scores) if score > NONE]
    found = []
    for order in permutations(known):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            total, hits, recall = 0.0, 0, 0.0
            for k, i in enumerate(order[:most], 1):
                hits += right[i]
                total += hits / k * (hits / sum(right) - recall)
                recall = hits / sum(right)
            found.append(total)
    return sum(found) / len(found)


def slow_f1(a, b) -> float:
    def cosine(x, y):
        return sum(p * q for p, q in zip(x, y, strict=True)) / math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))

    precision = sum(max(cosine(x, y) for y in b) for x in a) / len(a)
    recall = sum(max(cosine(x, y) for x in a) for y in b) / len(b)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([NONE, 0.1, 0.2, 0.3]), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 7),
)
def test_average_precision_is_the_mean_over_all_orders_of_ties(items, most):
    scores, right = (list(column) for column in zip(*items, strict=True))
    expected = slow_ap(scores, right, most) if any(right) else 0.0
    assert average_precision(np.array(scores), np.array(right), most) == pytest.approx(expected, abs=1e-12)


def test_average_precision_without_ties_by_hand():
    right = np.array([False, True, True, False, True])
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.6, 0.5]), right) == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 3)
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.6, 0.5]), right, 2) == pytest.approx((1 / 2) / 3)
    assert average_precision(np.array([0.9, NONE, NONE, 0.6, 0.5]), right) == pytest.approx((1 / 3) / 3)


def test_the_best_is_linked_with_all_that_tie_and_nothing_where_nothing_compares():
    scores = np.array([[0.5, 0.5 - 9e-7, 0.5 - 2e-6, NONE], [NONE] * 4, [-0.3, -0.2, NONE, -0.9]])
    assert linked(scores).tolist() == [[True, True, False, False], [False] * 4, [False, True, False, False]]
    assert linked(np.zeros((2, 0))).shape == (2, 0)


def test_accuracy_is_the_share_of_links_that_are_right():
    right = np.array([True, False, True, True])
    assert accuracy(np.array([0.5, 0.5, 0.5, 0.1]), right) == pytest.approx(2 / 3)
    assert accuracy(np.full(4, NONE), right) == 0.0


def test_cosines_of_all_pairs():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 7)), rng.standard_normal((5, 7))
    a[1] = 0
    found = cosines(a, b)
    for i in range(3):
        for j in range(5):
            dot = sum(x * y for x, y in zip(a[i], b[j], strict=True))
            expected = NONE if i == 1 else dot / math.sqrt(sum(x * x for x in a[i]) * sum(y * y for y in b[j]))
            assert found[i, j] == pytest.approx(expected, abs=1e-12)


def test_greedy_f1_equals_a_slow_loop_and_padding_changes_nothing():
    rng = np.random.default_rng(0)
    sizes, others = (2, 5, 1, 0), (3, 1, 7)
    one, other = np.full((4, 5, 11), 1e3), np.full((3, 7, 11), 1e3)
    texts, against = [rng.standard_normal((n, 11)) for n in sizes], [rng.standard_normal((n, 11)) for n in others]
    against[1] = texts[2].copy()
    for array, rows in ((one, texts), (other, against)):
        for i, tokens in enumerate(rows):
            array[i, : len(tokens)] = tokens
    mask, other_mask = (np.arange(w)[None] < np.array(n)[:, None] for w, n in ((5, sizes), (7, others)))
    found = greedy_f1(one, mask, other, other_mask)
    for i, a in enumerate(texts):
        for j, b in enumerate(against):
            expected = slow_f1(a.tolist(), b.tolist()) if len(a) else NONE
            assert found[i, j] == pytest.approx(expected, abs=1e-12)
    assert found[2, 1] == pytest.approx(1.0)


def test_phrases_that_name_nothing_count_as_mistakes_among_all():
    right, none = np.array([True, False, False]), np.zeros(3, bool)
    found = link_scores([(np.array([0.1, 0.5, 0.2]), right), (np.array([0.9, 0.5, 0.2]), right), (np.ones(3), none)])
    assert found[:2] == (3, 2)
    assert found.mean_ap == pytest.approx((1 / 3 + 1) / 3)
    assert found.linkable_mean_ap == pytest.approx((1 / 3 + 1) / 2)
    assert (found.accuracy, found.linkable_accuracy) == (pytest.approx(1 / 3), pytest.approx(1 / 2))
    assert math.isnan(link_scores([]).mean_ap)


def test_a_linker_that_knows_nothing_scores_chance():
    right = np.array([True, False, False, True, False, False, False])
    scores = link_scores([(np.zeros(7), right)])
    assert scores.accuracy == pytest.approx(2 / 7)
    assert scores.mean_ap == pytest.approx(slow_ap([0.0] * 7, right.tolist(), 7))
