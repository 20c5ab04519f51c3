"""Do means by step, kind and head count what a slow reader would, over batches and over processes?"""

import math

import torch

from lit_attn.metrics.step_mean import ALL, StepMean

B, H, Q, S = 7, 3, 5, 4
KINDS = ("exist", "count")


def batch(seed: int):
    torch.manual_seed(seed)
    values = torch.rand(B, H, Q, dtype=torch.float64)
    values[torch.rand(B, H, Q) < 0.2] = math.nan
    kinds = [("exist", "count", "other")[i] for i in torch.randint(0, 3, (B,))]
    return values, torch.tensor([0, 1, 3, 3, 4]), kinds


def test_means_equal_a_loop_over_rows():
    metric = StepMean(H, S, KINDS)
    found: dict[tuple[int, str, int], list[float]] = {}
    for seed in range(3):
        values, steps, kinds = batch(seed)
        metric.update(values, steps, kinds)
        for b in range(B):
            for h in range(H):
                for q in range(Q):
                    if not math.isnan(values[b, h, q]):
                        for group in {ALL, kinds[b]}:
                            found.setdefault((int(steps[q]), group, h), []).append(values[b, h, q].item())
    result = metric.compute()
    assert metric.groups == (ALL, *KINDS)
    for step in range(S):
        for g, group in enumerate(metric.groups):
            for h in range(H):
                own = found.get((step, group, h), [])
                assert metric.count[step, g, h] == len(own)
                if own:
                    assert abs(result[step, g, h].item() - sum(own) / len(own)) < 1e-12
                else:
                    assert math.isnan(result[step, g, h])
    assert math.isnan(result[2, 0, 0]), "no row was of step 2"


def test_sums_stay_in_float64_and_empty_batches_change_nothing():
    metric = StepMean(1, 1)
    values = torch.full((1, 1, 1), 1 / 3, dtype=torch.float32)
    for _ in range(1000):
        metric.update(values, torch.tensor([0]), [""])
    metric.update(values[:0], torch.tensor([0]), [])
    assert metric.total.dtype == torch.float64
    assert abs(metric.total.item() - 1000 * values.double().item()) < 1e-9
    assert metric.count.item() == 1000
