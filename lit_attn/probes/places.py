"""How do places, as annotations give them, become tensors? Tables of single texts, joined to one of the batch."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor


def places(things: Sequence[int]) -> dict[int, list[int]]:
    """Where each thing stands in a list."""
    found: dict[int, list[int]] = {}
    for place, thing in enumerate(things):
        found.setdefault(thing, []).append(place)
    return found


def places_in_rows(things: Int[np.ndarray, "c r"]) -> list[dict[int, list[int]]]:
    """The same for every row; equal ones, such as those of captions of one picture, are looked at once."""
    found: dict[bytes, dict[int, list[int]]] = {}
    for row in things:
        if row.tobytes() not in found:
            found[row.tobytes()] = places(row.tolist())
    return [found[row.tobytes()] for row in things]


def table(rows: Sequence[Sequence[int]], width: int) -> Int[np.ndarray, "x w"]:
    """Rows of places; there may be none."""
    return np.array(rows, np.int64).reshape(-1, width)


def joined(tables: Sequence[Int[np.ndarray, "_ w"]], width: int) -> Int[np.ndarray, "x v"]:
    """The rows of the tables of all texts, each with the number of its text before it."""
    text = np.repeat(np.arange(len(tables)), [len(one) for one in tables])
    return np.column_stack([text, np.concatenate([np.empty((0, width), np.int64), *tables])])


def marked(rows: Int[np.ndarray, "x w"], shape: tuple[int, ...], device: torch.device) -> Bool[Tensor, "..."]:
    """True at these places."""
    found = np.zeros(shape, bool)
    found[tuple(rows.T)] = True
    return torch.from_numpy(found).to(device)
