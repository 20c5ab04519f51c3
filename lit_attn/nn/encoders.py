"""How do raw inputs become streams? Region projection and recurrent text encoder."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lit_attn.ops.normalize import unit_length


class RegionProjection(nn.Module):
    """Detector features to unit vectors of the joint space, as in SCAN."""

    def __init__(self, region_dim: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(region_dim, dim)
        bound = math.sqrt(6 / (region_dim + dim))
        nn.init.uniform_(self.proj.weight, -bound, bound)
        nn.init.zeros_(self.proj.bias)

    def forward(self, regions: Float[Tensor, "b r f"]) -> Float[Tensor, "b r d"]:
        return unit_length(self.proj(regions))


class WordGru(nn.Module):
    """Token ids to one unit vector per word: a bidirectional GRU, both directions averaged, as in SCAN."""

    def __init__(self, vocab_size: int, word_dim: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, word_dim)
        self.gru = nn.GRU(word_dim, dim, batch_first=True, bidirectional=True)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    def forward(self, tokens: Int[Tensor, "c t"], token_mask: Bool[Tensor, "c t"]) -> Float[Tensor, "c t d"]:
        """Padding comes back as zero vectors."""
        packed = pack_padded_sequence(
            self.embed(tokens), token_mask.sum(-1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=tokens.shape[1])
        words = states.unflatten(-1, (2, -1)).mean(-2)  # c t d
        return torch.where(token_mask.unsqueeze(-1), unit_length(words), 0.0)
