"""Which words does a painter look at, and where? Attention from the positions of a picture to the words of its caption.

A position spreads its attention over words; read the other way round, every word has a map over the picture. Where the data
know what lies where (Scenes), the map of a word is held against the cells of what the word is about.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_mean import HeadMean
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.probe import Probe
from lit_attn.types import SynthesisBatch

SPREAD = ("word_entropy", "word_coverage", "word_coverage_chance")
PLACES = ("word_mass", "word_mass_chance", "word_pointing", "word_pointing_chance")


class WordsInPicture(Probe):
    """At sites where pixels attend to words, all in [0, 1]:

    `word_entropy`: entropy of a position's weights over the log of the number of words; 0 one word, 1 all alike. Mean over
    positions; captions of one word are left out.
    `word_coverage`: share of a caption's words that are the strongest word of some position, exact ties included. Mean over
    captions. `word_coverage_chance`: what positions that choose their word by chance reach, 1 - (1 - 1 / words)^positions.
    `word_mass`: share of a word's map, which is made to sum to 1 over the picture, that lies on what the word is about.
    `word_pointing`: whether the strongest position of the map lies there; exact ties count by their share. Both are means over
    all words that are about something in the picture; a word without any weight is left out. `word_mass_chance` and
    `word_pointing_chance`: what an even map scores on the same words, the share of positions that are right.
    """

    def metrics(self, site: Site) -> dict[str, Metric]:
        if (site.query_stream, site.key_stream) != ("pixels", "words"):
            return {}
        return {name: HeadMean(site.num_heads, [name]) for name in (*SPREAD, *PLACES)}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, SynthesisBatch)
        weights, said = record.weights, batch.token_mask
        values = {
            "word_entropy": distribution.normalized_entropy(weights, said[:, None, None]),
            "word_coverage": covered(weights, said),
            "word_coverage_chance": chance_covered(weights, said),
        }
        if batch.word_cells is not None:
            values |= in_place(weights, at_positions(batch.word_cells, weights.shape[2]) & said.unsqueeze(-1))
        for name, rows in values.items():
            metrics[name].update(rows.unsqueeze(0))


def covered(weights: Float[Tensor, "b h q k"], said: Bool[Tensor, "b k"]) -> Float[Tensor, "b h 1"]:
    """Share of the words that are the strongest of some position. NaN for a caption without any word."""
    words = said[:, None, None]
    strongest = (weights == weights.masked_fill(~words, -1.0).amax(-1, keepdim=True)) & words
    return strongest.any(2).sum(-1, keepdim=True).double() / said.sum(-1)[:, None, None]


def chance_covered(weights: Float[Tensor, "b h q k"], said: Bool[Tensor, "b k"]) -> Float[Tensor, "b h 1"]:
    """What `covered` is when every position chooses one word by chance. NaN for a caption without any word."""
    words = said.sum(-1).double()
    share = torch.where(words > 0, 1 - (1 - 1 / words) ** weights.shape[2], torch.nan)
    return share[:, None, None].expand(-1, weights.shape[1], -1)


def at_positions(cells: Bool[Tensor, "b k y x"], positions: int) -> Bool[Tensor, "b k q"]:
    """Coarse cells at the positions of a square map, row by row: those of the cell in which a position's middle lies."""
    side = math.isqrt(positions)
    if side * side != positions:
        raise ValueError(f"Maps must be square, but there are {positions} positions.")
    return F.interpolate(cells.to(torch.float32), (side, side), mode="nearest-exact").bool().flatten(2)


def in_place(weights: Float[Tensor, "b h q k"], right: Bool[Tensor, "b k q"]) -> dict[str, Float[Tensor, "b h k"]]:
    """How far the map of each word lies on its right positions; NaN for words without any, or without weight."""
    maps = weights.transpose(2, 3)  # b h k q
    whole = maps.sum(-1)
    there = right.unsqueeze(1).expand(maps.shape)
    chance = there.double().mean(-1)
    found = {
        "word_mass": distribution.mass(maps, there) / whole,
        "word_mass_chance": chance,
        "word_pointing": distribution.points_at(maps, there),
        "word_pointing_chance": chance,
    }
    counted = there.any(-1) & (whole > 0)
    return {name: torch.where(counted, rows, torch.nan) for name, rows in found.items()}
