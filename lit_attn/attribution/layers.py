"""How does relevance pass through a layer of attention? As a matrix over all positions, kept as its blocks.

A layer is A = diag(own) + blocks: each position keeps a share of what it holds and adds what it reads. Products of layers,
upper ones on the left, say what each position at the top holds of each input. For one row at the top, v becomes v A from the
top down, in O(n^2) per layer instead of O(n^3).

With the positions of all streams in one sequence this is the rollout of Abnar and Zuidema (2020) for one stream and the
method of Cui et al. for several.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lit_attn.attribution.heard import Heard, Map

Fusion = Callable[[Map], Tensor]
"""The heads of a map to one matrix, `b h q k` to `b q k`."""


class Block(NamedTuple):
    """What some positions read of others."""

    rows: slice
    columns: slice
    weights: Float[Tensor, "b q k"]


@dataclass(frozen=True)
class Layer:
    """One group of a plan as a matrix over all positions."""

    own: Float[Tensor, "b n"]
    blocks: tuple[Block, ...]

    def on(self, state: Float[Tensor, "b n m"]) -> Float[Tensor, "b n m"]:
        """A times what positions held before; all blocks read the old state."""
        new = self.own.unsqueeze(-1) * state
        for rows, columns, weights in self.blocks:
            new[:, rows] += weights @ state[:, columns]
        return new

    def back(self, row: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """A row on the upper side as a row on the lower side: v A."""
        new = row * self.own
        for rows, columns, weights in self.blocks:
            new[:, columns] += (row[:, None, rows] @ weights).squeeze(1)
        return new

    def matrix(self) -> Float[Tensor, "b n n"]:
        dense = torch.diag_embed(self.own)
        for rows, columns, weights in self.blocks:
            dense[:, rows, columns] += weights
        return dense


def head_mean(one: Map) -> Float[Tensor, "b q k"]:
    return one.weights.mean(1)


def added(heard: Heard, fuse: Fusion) -> list[Layer]:
    """I + blocks, one layer per group, lowest first."""
    return [Layer(_ones(heard), _blocks(group, fuse)) for group in heard.groups]


def averaged(heard: Heard, fuse: Fusion = head_mean) -> list[Layer]:
    """I + blocks, each row divided by its sum: rows stay distributions, and a row that reads nothing stays itself."""
    layers = []
    for layer in added(heard, fuse):
        share = 1 / _row_sums(layer)
        layers.append(Layer(share, tuple(Block(r, c, share[:, r, None] * weights) for r, c, weights in layer.blocks)))
    return layers


def without_residual(heard: Heard, fuse: Fusion = head_mean) -> list[Layer]:
    """Blocks alone, averaged where a row reads several streams; a row that reads nothing stays itself."""
    layers = []
    for layer in added(heard, fuse):
        readers = torch.zeros_like(layer.own)
        for rows, _, weights in layer.blocks:
            readers[:, rows] += weights.sum(-1) != 0
        share = 1 / readers.clamp_min(1)
        blocks = tuple(Block(r, c, share[:, r, None] * weights) for r, c, weights in layer.blocks)
        layers.append(Layer((readers == 0).to(layer.own), blocks))
    return layers


def products(layers: Sequence[Layer]) -> Float[Tensor, "l b n n"]:
    """A_1, A_2 A_1, …: what each position holds of each input after each layer."""
    state = torch.diag_embed(torch.ones_like(layers[0].own))
    states = []
    for layer in layers:
        state = layer.on(state)
        states.append(state)
    return torch.stack(states)


def backwards(layers: Sequence[Layer], row: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """One row of the whole product, from the top down."""
    for layer in reversed(layers):
        row = layer.back(row)
    return row


def _blocks(group: Sequence[Map], fuse: Fusion) -> tuple[Block, ...]:
    return tuple(Block(one.rows, one.columns, fuse(one)) for one in group)


def _ones(heard: Heard) -> Float[Tensor, "b n"]:
    like = next(iter(heard)).weights
    return torch.ones(heard.layout.mask.shape, dtype=like.dtype, device=like.device)


def _row_sums(layer: Layer) -> Float[Tensor, "b n"]:
    sums = layer.own.clone()
    for rows, _, weights in layer.blocks:
        sums[:, rows] += weights.sum(-1)
    return sums
