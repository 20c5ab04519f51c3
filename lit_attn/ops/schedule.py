"""How does the learning rate change with time?"""

import math


def noam(step: int, dim: int, warmup: int, factor: float = 1.0) -> float:
    """The rate at a step counted from 1: linear up to `warmup`, then falling with the root (Vaswani et al. 2017)."""
    return factor * dim**-0.5 * min(step**-0.5, step * warmup**-1.5)


MAC_RULES = ((0.015, 0.5, 2e-5), (0.008, 0.15, 1e-5), (0.003, 0.10, 5e-6))
"""Per rule: the least fall of the loss, the loss before it, and the rate above which it applies."""


def halved_by_loss(rate: float, loss: float, before: float | None) -> float:
    """The rate after an epoch, by MAC's rule: half of it when the training loss is small and hardly falls any more."""
    if before is None:
        return rate
    for least, small, floor in MAC_RULES:
        if before - loss < least and before < small and rate > floor:
            return rate / 2
    return rate


def one_cycle(done: int, steps: int, rising: float) -> float:
    """Share of the highest rate after so many of `steps`: linear up over the share `rising` of them, then a cosine to 0."""
    top = max(1.0, rising * steps)
    if done < top:
        return (done + 1) / (top + 1)
    return 0.5 + 0.5 * math.cos(math.pi * min(1.0, (done - top) / max(1.0, steps - top)))
