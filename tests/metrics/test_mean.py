"""Is a mean over batches the mean over all?"""

import torch

from lit_attn.metrics.mean import WeightedMean


def test_batches_of_any_size_give_the_mean_over_all():
    values, metric = torch.randn(17, dtype=torch.float64), WeightedMean()
    for part in values.split([2, 3, 5, 7]):
        metric.update(part.mean(), torch.tensor(len(part)))
    torch.testing.assert_close(metric.compute(), values.mean(), rtol=0, atol=1e-15)


def test_small_values_are_not_lost_in_a_large_sum():
    metric = WeightedMean()
    metric.update(torch.tensor(1e8), torch.tensor(1))
    metric.update(torch.tensor(1.0), torch.tensor(1))
    assert metric.compute().item() == (1e8 + 1) / 2


def test_nothing_is_nan():
    assert WeightedMean().compute().isnan()
