"""Do the pure formulas agree with slow, obvious or independent versions?"""

import itertools
import math

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch

from lit_attn.ops import distribution
from lit_attn.ops.loss import matching_hinge
from lit_attn.ops.normalize import NORMALIZERS, SCALE_FREE, masked_softmax, unit_length

B, H, Q, K = 2, 3, 5, 7


def weights_and_mask() -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.rand(B, 1, Q, K) < 0.7
    mask[:, :, 0] = True
    mask[0, 0, 1] = False
    mask[0, 0, 2] = torch.arange(K) == 3
    return masked_softmax(torch.randn(B, H, Q, K, dtype=torch.float64) * 3, mask), mask


def rows(weights: torch.Tensor, mask: torch.Tensor):
    for b in range(B):
        for h in range(H):
            for q in range(Q):
                yield (b, h, q), weights[b, h, q][mask[b, 0, q]].numpy()


def test_masked_softmax_row_by_row():
    scores = torch.randn(B, H, Q, K, dtype=torch.float64)
    _, mask = weights_and_mask()
    found = masked_softmax(scores, mask)
    for b, h, q in np.ndindex(B, H, Q):
        allowed = [k for k in range(K) if mask[b, 0, q, k]]
        total = sum(math.exp(scores[b, h, q, k]) for k in allowed)
        for k in range(K):
            wanted = math.exp(scores[b, h, q, k]) / total if k in allowed else 0.0
            assert found[b, h, q, k].item() == pytest.approx(wanted, abs=1e-12)


def test_masked_softmax_survives_huge_scores_and_empty_rows_with_finite_gradients():
    scores = torch.tensor([[1e4, -1e4, 3.0], [0.0, 0.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    weights = masked_softmax(scores, mask)
    weights.square().sum().backward()
    assert weights.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert torch.isfinite(scores.grad).all()


def test_entropies_against_scipy():
    weights, mask = weights_and_mask()
    normalized = distribution.normalized_entropy(weights, mask)
    effective = distribution.effective_keys(distribution.entropy(weights))
    largest = distribution.largest_weight(weights)
    for index, row in rows(weights, mask):
        if len(row) > 1:
            assert normalized[index].item() == pytest.approx(scipy.stats.entropy(row) / math.log(len(row)), abs=1e-12)
        else:
            assert math.isnan(normalized[index])
        if len(row):
            assert effective[index].item() == pytest.approx(math.exp(scipy.stats.entropy(row)), abs=1e-12)
            assert largest[index].item() == max(row)
        else:
            assert effective[index] == 1
            assert math.isnan(largest[index])


def test_uniform_and_one_hot_rows_are_the_ends_of_the_scale():
    uniform = torch.full((1, 1, K), 1 / K, dtype=torch.float64)
    one_hot = torch.eye(K, dtype=torch.float64)[None, 3:4]
    everything = torch.ones(1, 1, K, dtype=torch.bool)
    assert distribution.normalized_entropy(uniform, everything).item() == pytest.approx(1)
    assert distribution.normalized_entropy(one_hot, everything).item() == 0
    assert distribution.effective_keys(distribution.entropy(uniform)).item() == pytest.approx(K)


def test_head_divergence_against_scipy():
    weights, _ = weights_and_mask()
    weights = weights[:, :, :1]  # rows that allow every key
    found = distribution.head_divergence(weights)
    for b, h in np.ndindex(B, H):
        others = [
            scipy.spatial.distance.jensenshannon(weights[b, h, 0].numpy(), weights[b, g, 0].numpy(), base=2) ** 2
            for g in range(H)
            if g != h
        ]
        assert found[b, h, 0].item() == pytest.approx(sum(others) / len(others), abs=1e-12)
    assert torch.isnan(distribution.head_divergence(weights[:, :1])).all()


def test_mass_and_pointing_by_hand():
    weights = torch.tensor([[[0.1, 0.4, 0.4, 0.1], [0.7, 0.1, 0.1, 0.1]]], dtype=torch.float64)
    chosen = torch.tensor([[[False, True, False, True]]])
    torch.testing.assert_close(distribution.mass(weights, chosen), torch.tensor([[0.5, 0.2]], dtype=torch.float64))
    assert distribution.points_at(weights, chosen).tolist() == [[0.5, 0.0]]


def test_hinge_by_loops():
    scores = torch.randn(5, 5, dtype=torch.float64)
    for hardest in (True, False):
        pick = max if hardest else sum
        total = 0.0
        for i in range(5):
            total += pick(max(0.0, 0.2 + scores[i, j].item() - scores[i, i].item()) for j in range(5) if j != i)
            total += pick(max(0.0, 0.2 + scores[j, i].item() - scores[i, i].item()) for j in range(5) if j != i)
        assert matching_hinge(scores, 0.2, hardest).item() == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("name", list(NORMALIZERS))
def test_scale_free_normalisers_are_those_we_say(name):
    scores = torch.randn(3, 5, 7, dtype=torch.float64)
    change = (NORMALIZERS[name](scores * 3, None, -2) - NORMALIZERS[name](scores, None, -2)).abs().max()
    assert (change < 1e-6) == (name in SCALE_FREE)


def test_unit_length_of_a_zero_vector_is_zero_with_a_finite_gradient():
    vectors = torch.zeros(2, 3, requires_grad=True)
    unit_length(vectors).sum().backward()
    assert torch.isfinite(vectors.grad).all()


def test_rank_is_the_expected_place_over_all_ways_to_break_ties():
    generator = torch.Generator().manual_seed(3)
    keys = 5
    weights = torch.randint(0, 3, (11, keys), generator=generator).double()
    allowed = torch.rand(11, keys, generator=generator) < 0.8
    chosen = torch.rand(11, keys, generator=generator) < 0.4
    found = distribution.rank_of(weights, chosen, allowed)
    for row in range(11):
        kept = [k for k in range(keys) if allowed[row, k]]
        right = {k for k in kept if chosen[row, k]}
        if not right:
            assert torch.isnan(found[row])
            continue
        orders = [sorted(order, key=lambda k: -weights[row, k].item()) for order in itertools.permutations(kept)]
        places = [1 + min(order.index(k) for k in right) for order in orders]
        assert found[row].item() == pytest.approx(sum(places) / len(places), abs=1e-12)


def test_rank_of_equal_weights_is_that_of_chance():
    chosen = torch.tensor([[True, False, True, False, False, True], [False] * 6])
    allowed = torch.tensor([[True] * 5 + [False]] * 2)
    equal = torch.full((2, 6), 1 / 5, dtype=torch.float64)
    torch.testing.assert_close(
        distribution.rank_of(equal, chosen, allowed), distribution.chance_rank(chosen, allowed), equal_nan=True
    )
    assert distribution.chance_rank(chosen, allowed)[0].item() == pytest.approx(6 / 3)
