"""How do lists of places, as annotations give them, become tensors?"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor


def places(things: list[int]) -> dict[int, list[int]]:
    """Where each thing stands in a list."""
    found: dict[int, list[int]] = {}
    for place, thing in enumerate(things):
        found.setdefault(thing, []).append(place)
    return found


def table(rows: Sequence[tuple[int, ...]], width: int, device: torch.device) -> Int[Tensor, "x w"]:
    """Rows of places; through numpy, which reads long lists faster than torch."""
    return torch.from_numpy(np.array(rows, np.int64).reshape(-1, width)).to(device)


def numbers(values: Sequence[int], device: torch.device) -> Int[Tensor, " x"]:
    """One place each."""
    return table([(value,) for value in values], 1, device)[:, 0]


def marked(rows: Sequence[tuple[int, ...]], shape: tuple[int, ...], device: torch.device) -> Bool[Tensor, "..."]:
    """True at these places."""
    found = np.zeros(shape, bool)
    if rows:
        found[tuple(np.array(rows, np.int64).T)] = True
    return torch.from_numpy(found).to(device)
