"""Which layers make a BERT? Embeddings of word pieces, and layers that normalise after each block.

Source: Devlin et al. (2019), as transformers' `BertModel` computes it: x becomes norm(x + dropout(block(x))), with GELU by
the error function and weights drawn from N(0, 0.02). Attention takes any alignment function. `renamed` turns the names of
published weights into ours. Deviation: a query without any key to attend to gets zeros, not the mean of what is masked.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.nn.attention import KeyValue, MultiHeadAttention
from lit_attn.nn.tape import Part, Site

SPREAD = 0.02
"""Standard deviation of the first weights. It suits published widths; a narrow network needs more to leave even attention."""


class BertSizes(NamedTuple):
    """What the layers of a stack share."""

    dim: int
    num_heads: int
    hidden: int
    dropout: float = 0.1
    eps: float = 1e-12
    """Of every layer norm."""


class BertEmbeddings(nn.Module):
    """Word piece, place and kind of segment (always the first), summed and normalised."""

    def __init__(self, vocab_size: int, sizes: BertSizes, max_positions: int, segments: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, sizes.dim)
        self.positions = nn.Embedding(max_positions, sizes.dim)
        self.segments = nn.Embedding(segments, sizes.dim)
        self.norm = nn.LayerNorm(sizes.dim, sizes.eps)
        self.drop = nn.Dropout(sizes.dropout)

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return self.drop(self.norm(self.summed(tokens)))

    def summed(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Before the norm."""
        place = self.positions.weight[: tokens.shape[1]]
        return self.words(tokens) + place + self.segments.weight[0]


class BertLayer(nn.Module):
    """A sequence attends to itself; then a feed-forward block."""

    def __init__(self, sizes: BertSizes, site: Site, alignment: str = "scaled_dot") -> None:
        super().__init__()
        self.attn = MultiHeadAttention(sizes.dim, sizes.num_heads, site, alignment, dropout=sizes.dropout)
        self.attn_norm = nn.LayerNorm(sizes.dim, sizes.eps)
        self.feed_forward = nn.Sequential(
            nn.Linear(sizes.dim, sizes.hidden), nn.GELU(), nn.Linear(sizes.hidden, sizes.dim)
        )
        self.feed_norm = nn.LayerNorm(sizes.dim, sizes.eps)
        self.drop = nn.Dropout(sizes.dropout)

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        *,
        key_mask: Bool[Tensor, "b #n n"],
        query_mask: Bool[Tensor, "b n"],
        parts: tuple[Part, ...] = (),
    ) -> Float[Tensor, "b n d"]:
        """All positions at once; see `MultiHeadAttention` for the masks."""
        return self._rest(x, self.attn(x, x, key_mask=key_mask, query_mask=query_mask, parts=parts))

    def first(
        self, x: Float[Tensor, "b n d"], key_mask: Bool[Tensor, "b 1 n"], room: int
    ) -> tuple[Float[Tensor, "b n d"], KeyValue]:
        """The positions that see none of those to come, and their keys and values with `room` for those."""
        own = self.attn.project(x)
        roomy = KeyValue(nn.functional.pad(own.key, (0, 0, 0, room)), nn.functional.pad(own.value, (0, 0, 0, room)))
        return self._rest(x, self.attn.reread(x, own, key_mask=key_mask)), roomy

    def next(
        self, x: Float[Tensor, "b 1 d"], stored: KeyValue, place: int, key_mask: Bool[Tensor, "b 1 n"]
    ) -> Float[Tensor, "b 1 d"]:
        """One more position, which sees all before it and itself: `key_mask` covers these. `stored` is filled in place."""
        own = self.attn.project(x)
        stored.key[:, :, place], stored.value[:, :, place] = own.key[:, :, 0], own.value[:, :, 0]
        seen = KeyValue(stored.key[:, :, : place + 1], stored.value[:, :, : place + 1])
        return self._rest(x, self.attn.reread(x, seen, key_mask=key_mask))

    def _rest(self, x: Float[Tensor, "b n d"], attended: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        x = self.attn_norm(x + self.drop(attended))
        return self.feed_norm(x + self.drop(self.feed_forward(x)))


def init_bert(module: nn.Module, spread: float = SPREAD) -> None:
    """First weights of everything inside: N(0, spread) for linear maps, with biases of zero, and for embeddings."""
    for inner in module.modules():
        if isinstance(inner, nn.Linear | nn.Embedding):
            nn.init.normal_(inner.weight, std=spread)
        if isinstance(inner, nn.Linear) and inner.bias is not None:
            nn.init.zeros_(inner.bias)


_EMBEDDINGS = {
    "word_embeddings": "words",
    "position_embeddings": "positions",
    "token_type_embeddings": "segments",
    "LayerNorm": "norm",
}
_LAYER = {
    "attention.self.query": "attn.query",
    "attention.self.key": "attn.key",
    "attention.self.value": "attn.value",
    "attention.output.dense": "attn.output",
    "attention.output.LayerNorm": "attn_norm",
    "intermediate.dense": "feed_forward.0",
    "output.dense": "feed_forward.2",
    "output.LayerNorm": "feed_norm",
}
_ENDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
"""The first published files have other names for the numbers of a layer norm."""


def our_name(published: str) -> str | None:
    """Our name of a tensor of a BERT, as `embed.…` or `layers.0.…`; None for a tensor that we have no use for."""
    stem, _, end = published.rpartition(".")
    if end not in _ENDS:
        return None
    if match := re.fullmatch(r"embeddings\.(\w+)", stem):
        inner = _EMBEDDINGS.get(match[1])
        return None if inner is None else f"embed.{inner}.{_ENDS[end]}"
    if match := re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", stem):
        inner = _LAYER.get(match[2])
        return None if inner is None else f"layers.{match[1]}.{inner}.{_ENDS[end]}"
    return None


def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a BERT by our names, without its pooler and heads."""
    named = ((our_name(name), tensor) for name, tensor in published.items())
    return {name: tensor for name, tensor in named if name is not None}
