"""Which layers make a transformer that sees boxes? Pre-norm encoder and decoder layers with a geometric bias.

Source: the object-relation transformer (Herdade et al. 2019). x becomes x + dropout(sublayer(norm(x))); the caller closes
a stack with one more norm. Every attention takes any alignment function; geometry adds to the scores of any of them.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.nn.attention import KeyValue, MultiHeadAttention, RawCapture
from lit_attn.nn.tape import Site

NormName = Literal["unbiased", "standard"]
SMALLEST_GATE = 1e-6


class UnbiasedLayerNorm(nn.Module):
    """The published layer norm: standard deviation over n - 1, and epsilon added to it outside the root."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        centered = x - x.mean(-1, keepdim=True)
        # At a constant row the root has no gradient; the tiny floor keeps it finite and changes no value.
        variance = centered.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
        deviation = variance.clamp_min(1e-30).sqrt()
        return self.weight * centered / (deviation + self.eps) + self.bias


def build_norm(name: NormName, dim: int) -> nn.Module:
    return UnbiasedLayerNorm(dim) if name == "unbiased" else nn.LayerNorm(dim)


class GeometricGate(nn.Module):
    """How much a head cares for a pair of boxes, as a bias on its scores: log max(ReLU(w . geometry + b), 1e-6)."""

    def __init__(self, geometry_dim: int, num_heads: int) -> None:
        super().__init__()
        self.proj = nn.Linear(geometry_dim, num_heads)

    def forward(self, geometry: Float[Tensor, "b r r g"]) -> Float[Tensor, "b h r r"]:
        return F.relu(self.proj(geometry)).clamp_min(SMALLEST_GATE).log().permute(0, 3, 1, 2)


class FeedForward(nn.Sequential):
    """Linear, ReLU, dropout, Linear."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))


class LayerSizes(NamedTuple):
    """What the layers of a stack share."""

    dim: int
    num_heads: int
    hidden: int
    dropout: float
    norm: NormName
    raw: bool
    """Add `raw.` sites that speak of attention on the stream before its norm."""


def _raw_capture(sizes: LayerSizes, site: Site) -> RawCapture | None:
    return RawCapture(replace(site, name=f"raw.{site.name}")) if sizes.raw else None


class EncoderLayer(nn.Module):
    """Regions attend to regions, with a bias from geometry; then a feed-forward block."""

    def __init__(self, index: int, sizes: LayerSizes, alignment: str, geometry_dim: int, extra_skip: bool) -> None:
        super().__init__()
        dim, num_heads, dropout = sizes.dim, sizes.num_heads, sizes.dropout
        site = Site(f"encoder.{index}.self", "regions", "regions", num_heads)
        self.attn = MultiHeadAttention(dim, num_heads, site, alignment, dropout=dropout, extra_skip=extra_skip)
        self.gate = GeometricGate(geometry_dim, num_heads)
        self.feed_forward = FeedForward(dim, sizes.hidden, dropout)
        self.attn_norm, self.feed_norm = build_norm(sizes.norm, dim), build_norm(sizes.norm, dim)
        self.drop = nn.Dropout(dropout)
        self.raw = _raw_capture(sizes, site)

    def forward(
        self,
        x: Float[Tensor, "b r d"],
        geometry: Float[Tensor, "b r r g"],
        region_mask: Bool[Tensor, "b r"],
    ) -> Float[Tensor, "b r d"]:
        key_mask, bias = region_mask.unsqueeze(1), self.gate(geometry)
        if self.raw is not None:
            self.raw(self.attn, x, x, key_mask=key_mask, query_mask=region_mask, bias=bias)
        normed = self.attn_norm(x)
        x = x + self.drop(self.attn(normed, normed, key_mask=key_mask, query_mask=region_mask, bias=bias))
        return x + self.drop(self.feed_forward(self.feed_norm(x)))


class DecoderLayer(nn.Module):
    """Words attend to the words before them, then to regions; then a feed-forward block."""

    def __init__(self, index: int, sizes: LayerSizes, alignment: str, cross_alignment: str) -> None:
        super().__init__()
        dim, num_heads, dropout = sizes.dim, sizes.num_heads, sizes.dropout
        site = Site(f"decoder.{index}.self", "words", "words", num_heads, predicts=True)
        cross_site = Site(f"decoder.{index}.cross", "words", "regions", num_heads, predicts=True)
        self.attn = MultiHeadAttention(dim, num_heads, site, alignment, dropout=dropout)
        self.cross_attn = MultiHeadAttention(dim, num_heads, cross_site, cross_alignment, dropout=dropout)
        self.feed_forward = FeedForward(dim, sizes.hidden, dropout)
        self.attn_norm, self.cross_norm = build_norm(sizes.norm, dim), build_norm(sizes.norm, dim)
        self.feed_norm = build_norm(sizes.norm, dim)
        self.drop = nn.Dropout(dropout)
        self.raw, self.cross_raw = _raw_capture(sizes, site), _raw_capture(sizes, cross_site)

    def forward(
        self,
        x: Float[Tensor, "c t d"],
        memory: Float[Tensor, "c r d"],
        word_mask: Bool[Tensor, "c t"],
        causal_mask: Bool[Tensor, "c t t"],
        region_mask: Bool[Tensor, "c r"],
    ) -> Float[Tensor, "c t d"]:
        """All words at once, each seeing those before it."""
        key_mask = region_mask.unsqueeze(1)
        if self.raw is not None:
            self.raw(self.attn, x, x, key_mask=causal_mask, query_mask=word_mask)
        normed = self.attn_norm(x)
        x = x + self.drop(self.attn(normed, normed, key_mask=causal_mask, query_mask=word_mask))
        if self.cross_raw is not None:
            self.cross_raw(self.cross_attn, x, memory, key_mask=key_mask, query_mask=word_mask)
        crossed = self.cross_attn(self.cross_norm(x), memory, key_mask=key_mask, query_mask=word_mask)
        x = x + self.drop(crossed)
        return x + self.drop(self.feed_forward(self.feed_norm(x)))

    def step(
        self,
        x: Float[Tensor, "b w d"],
        before: KeyValue | None,
        memory: KeyValue,
        region_mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b w d"], KeyValue]:
        """One more word of each of `w` beams per picture. `before` holds the words so far, a row per beam.

        Beams of one picture are the queries of one cross-attention, so regions are never copied.
        """
        normed = self.attn_norm(x).flatten(0, 1).unsqueeze(1)  # (b w) 1 d
        own = self.attn.project(normed)
        if before is not None:
            own = KeyValue(torch.cat([before.key, own.key], 2), torch.cat([before.value, own.value], 2))
        x = x + self.drop(self.attn.reread(normed, own, key_mask=None).view(x.shape))
        x = x + self.drop(self.cross_attn.reread(self.cross_norm(x), memory, key_mask=region_mask.unsqueeze(1)))
        return x + self.drop(self.feed_forward(self.feed_norm(x))), own


def positions(length: int, dim: int) -> Float[Tensor, "t d"]:
    """Sinusoids of Vaswani et al. (2017), sine on even and cosine on odd columns, in float32 as published weights saw."""
    place = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * -(torch.log(torch.tensor(10000.0)) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)[:, : dim // 2]
    return table
