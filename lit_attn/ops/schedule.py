"""How does the learning rate change with time?"""


def noam(step: int, dim: int, warmup: int, factor: float = 1.0) -> float:
    """The rate at a step counted from 1: linear up to `warmup`, then falling with the root (Vaswani et al. 2017)."""
    return factor * dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
