"""Do the attention metrics accumulate what a slow reader would?"""

import math

import pytest
import torch

from lit_attn.metrics.concentration import EffectiveKeys, HeadDiversity, LargestWeight, NormalizedEntropy, PaddingMass
from lit_attn.metrics.grounding import GroundingChance, GroundingMass, PointingAccuracy
from lit_attn.ops.normalize import masked_softmax

B, H, Q, K = 5, 3, 7, 11


def batch(seed: int):
    torch.manual_seed(seed)
    key_mask = torch.rand(B, 1, K) < 0.7
    key_mask[:, :, 0] = True
    query_mask = torch.rand(B, Q) < 0.8
    weights = masked_softmax(torch.randn(B, H, Q, K, dtype=torch.float64) * 2, key_mask[:, None].expand(B, H, Q, K))
    gold = (torch.rand(B, Q, K) < 0.2) & key_mask & query_mask[..., None]
    return weights, query_mask, key_mask, gold


def loop(value) -> list[float]:
    """Mean per head over rows of three batches; `value` sees one row and says None to leave it out."""
    sums, counts = [0.0] * H, [0] * H
    for seed in range(3):
        weights, query_mask, key_mask, gold = batch(seed)
        for b in range(B):
            for h in range(H):
                for q in range(Q):
                    found = value(weights[b, :, q], h, bool(query_mask[b, q]), key_mask[b, 0], gold[b, q])
                    if found is not None:
                        sums[h] += found
                        counts[h] += 1
    return [s / n for s, n in zip(sums, counts, strict=True)]


def entropy(row) -> float:
    return -sum(w * math.log(w) for w in row.tolist() if w > 0)


def divergence(heads, h) -> float:
    others = [g for g in range(H) if g != h]
    total = sum(entropy((heads[h] + heads[g]) / 2) - (entropy(heads[h]) + entropy(heads[g])) / 2 for g in others)
    return total / len(others) / math.log(2)


SLOW = {
    NormalizedEntropy: lambda w, h, real, keys, gold: entropy(w[h]) / math.log(keys.sum()) if real and keys.sum() > 1 else None,
    EffectiveKeys: lambda w, h, real, keys, gold: math.exp(entropy(w[h])) if real else None,
    LargestWeight: lambda w, h, real, keys, gold: w[h].max().item() if real else None,
    PaddingMass: lambda w, h, real, keys, gold: sum(w[h][~keys].tolist()) if real else None,
    HeadDiversity: lambda w, h, real, keys, gold: divergence(w, h) if real else None,
    GroundingMass: lambda w, h, real, keys, gold: w[h][gold].sum().item() if gold.any() else None,
    PointingAccuracy: lambda w, h, real, keys, gold: float(gold[w[h].argmax()]) if gold.any() else None,
    GroundingChance: lambda w, h, real, keys, gold: gold.sum().item() / keys.sum().item() if gold.any() else None,
}  # fmt: skip


@pytest.mark.parametrize("metric_class", list(SLOW))
def test_means_over_batches_equal_a_loop_over_rows(metric_class):
    metric = metric_class(H)
    for seed in range(3):
        weights, query_mask, key_mask, gold = batch(seed)
        if metric_class in (GroundingMass, PointingAccuracy, GroundingChance):
            metric.update(weights, gold, key_mask)
        else:
            metric.update(weights, query_mask, key_mask)
    wanted = torch.tensor(loop(SLOW[metric_class]), dtype=torch.float64)
    torch.testing.assert_close(metric.compute(), wanted, rtol=0, atol=1e-12)


def test_sums_stay_in_float64_whatever_comes_in():
    metric = LargestWeight(1)
    weights = torch.full((1, 1, 1, 1), 1 / 3, dtype=torch.float32)
    for _ in range(1000):
        metric.update(weights, torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1, 1, dtype=torch.bool))
    assert metric.total.dtype == torch.float64
    metric.reset()
    assert metric.total.dtype == torch.float64
    metric.update(weights, torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1, 1, dtype=torch.bool))
    assert metric.compute().item() == pytest.approx(weights.item(), abs=1e-12)


def test_nothing_counted_is_not_a_number():
    assert torch.isnan(GroundingMass(2).compute()).all()


def test_padding_mass_sees_a_leak():
    metric = PaddingMass(1)
    weights = torch.tensor([[[[0.5, 0.25, 0.25]]]])
    metric.update(weights, torch.ones(1, 1, dtype=torch.bool), torch.tensor([[[True, True, False]]]))
    assert metric.compute().item() == 0.25


def test_uniform_attention_scores_chance():
    _, _, key_mask, gold = batch(0)
    uniform = (key_mask / key_mask.sum(-1, keepdim=True))[:, None].expand(B, 1, Q, K).double()
    mass, chance, pointing = GroundingMass(1), GroundingChance(1), PointingAccuracy(1)
    for metric in (mass, chance, pointing):
        metric.update(uniform, gold, key_mask)
    assert mass.compute().item() == pytest.approx(chance.compute().item(), abs=1e-7)
    assert pointing.compute().item() == pytest.approx(chance.compute().item(), abs=1e-7)
