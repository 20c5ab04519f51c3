"""Is the verb to come singular or plural? A transformer that reads the words before it.

Source: the verb-number network of Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers": blocks of GPT-2
without a causal mask, six layers of eight heads, 128 wide, learned positions, a closing norm, and a linear layer on the first
token, which opens every sentence. Attention speaks at `encoder.0.self` and so on.

Deviations: padding is masked (the published mask had no effect); `word_dim` may keep the table of words narrow and widen it by
a linear map; the first weights are those of one width for all layers, as published.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.bert import init_bert
from lit_attn.nn.gpt2 import Gpt2Layer, Gpt2Sizes
from lit_attn.nn.tape import Site


class VerbNumber(nn.Module):
    """Tokens in, scores of the classes out.

    Args:
        sizes: Of the layers.
        word_dim: Width of the table of words; that of the layers without.
        max_positions: Longest sequence, its first and its last token included.
        embed_dropout: Of the embedded tokens.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        sizes: Gpt2Sizes,
        layers: int = 6,
        *,
        alignment: str = "scaled_dot",
        word_dim: int | None = None,
        max_positions: int = 64,
        embed_dropout: float = 0.1,
        init_std: float = 0.05,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, word_dim or sizes.dim)
        self.widen: nn.Module = nn.Linear(word_dim, sizes.dim, bias=False) if word_dim else nn.Identity()
        self.positions = nn.Embedding(max_positions, sizes.dim)
        self.embed_drop = nn.Dropout(embed_dropout)
        self.layers = nn.ModuleList(
            Gpt2Layer(sizes, Site(f"encoder.{i}.self", "words", "words", sizes.num_heads), alignment)
            for i in range(layers)
        )
        self.norm = nn.LayerNorm(sizes.dim)
        self.output = nn.Linear(sizes.dim, num_classes)
        init_bert(self, init_std)
        if isinstance(self.widen, nn.Linear):  # the widened words are then as large as if their table were wide
            nn.init.normal_(self.words.weight)
            nn.init.normal_(self.widen.weight, std=init_std * self.widen.in_features**-0.5)

    def forward(self, tokens: Int[Tensor, "b t"], token_mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        return self.classify(self.embed(tokens), token_mask)

    def embed(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Word and place, summed: what gradients of inputs are taken by."""
        limit = self.positions.num_embeddings
        if tokens.shape[1] > limit:
            raise UserError(
                f"A sentence has {tokens.shape[1]} tokens, its first and last included, but this model knows {limit} "
                "positions. Shorten it, or train with a larger model.max_positions."
            )
        place = self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.widen(self.words(tokens)) + place

    def classify(self, embedded: Float[Tensor, "b t d"], token_mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        """From the first token's row."""
        x = self.embed_drop(embedded)
        for layer in self.layers:
            x = layer(x, key_mask=token_mask.unsqueeze(1), query_mask=token_mask)
        return self.output(self.norm(x[:, 0]))
