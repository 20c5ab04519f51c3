"""How do all processes come to know what each of them has? For things that are not tensors."""

from typing import TypeVar

import torch.distributed as dist

Item = TypeVar("Item")


def gathered(own: list[Item]) -> list[Item]:
    """The items of all processes, in the order of their ranks. All must call it, also those that have none."""
    if not (dist.is_available() and dist.is_initialized()):
        return own
    shares: list[list[Item]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(shares, own)
    return [item for share in shares for item in share]
