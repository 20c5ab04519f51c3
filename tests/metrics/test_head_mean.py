"""Are means over rows kept in float64, whatever comes in?"""

import pytest
import torch

from lit_attn.metrics.head_mean import HeadMean


def test_means_over_batches_equal_a_loop_over_rows():
    torch.manual_seed(0)
    metric, sums, counts = HeadMean(3, ["one", "two"]), torch.zeros(2, 3), torch.zeros(2, 3)
    for rows in (5, 7):
        values = torch.rand(2, 11, 3, rows, dtype=torch.float64)
        values[values > 0.8] = torch.nan
        metric.update(values)
        for g in range(2):
            for h in range(3):
                known = [v for b in range(11) for v in values[g, b, h].tolist() if v == v]
                sums[g, h] += sum(known)
                counts[g, h] += len(known)
    torch.testing.assert_close(metric.compute(), (sums / counts).double(), rtol=0, atol=1e-6)
    assert metric.count.tolist() == counts.tolist()


def test_sums_stay_in_float64_whatever_comes_in():
    metric = HeadMean(1, ["third"])
    third = torch.full((1, 1, 1, 1), 1 / 3, dtype=torch.float32)
    for _ in range(1000):
        metric.update(third)
    assert metric.total.dtype == torch.float64
    assert metric.compute().item() == pytest.approx(third.item(), abs=1e-12)
    metric.reset()
    assert metric.total.dtype == torch.float64
    assert metric.total.item() == 0


def test_nothing_counted_is_not_a_number():
    assert torch.isnan(HeadMean(2, ["one"]).compute()).all()
