"""Which layers make a GPT-2? Blocks that normalise before attention and before the feed-forward part.

Source: Radford et al. (2019): x becomes x + dropout(attention(norm(x))), then x + dropout(mlp(norm(x))), with GELU by its tanh
formula; the caller closes the stack with one more norm. Attention takes any alignment function and any mask, so that a
stack without a causal mask is an encoder.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.nn.attention import MultiHeadAttention
from lit_attn.nn.tape import Site


class Gpt2Sizes(NamedTuple):
    """What the layers of a stack share."""

    dim: int
    num_heads: int
    hidden: int
    dropout: float = 0.1
    """Of what a block adds to its stream."""
    attn_dropout: float = 0.1
    """Of attention weights."""


class Gpt2Layer(nn.Module):
    """A sequence attends to itself; then a feed-forward block."""

    def __init__(self, sizes: Gpt2Sizes, site: Site, alignment: str = "scaled_dot") -> None:
        super().__init__()
        self.attn_norm = nn.LayerNorm(sizes.dim)
        self.attn = MultiHeadAttention(sizes.dim, sizes.num_heads, site, alignment, dropout=sizes.attn_dropout)
        self.feed_norm = nn.LayerNorm(sizes.dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(sizes.dim, sizes.hidden), nn.GELU(approximate="tanh"), nn.Linear(sizes.hidden, sizes.dim)
        )
        self.drop = nn.Dropout(sizes.dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], *, key_mask: Bool[Tensor, "b #n n"], query_mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b n d"]:
        """See `MultiHeadAttention` for the masks."""
        normed = self.attn_norm(x)
        x = x + self.drop(self.attn(normed, normed, key_mask=key_mask, query_mask=query_mask))
        return x + self.drop(self.feed_forward(self.feed_norm(x)))
