"""Is a sentence good or bad news? A BERT that reads it and answers from its first token.

Source: Devlin et al. (2019): layers over word pieces, then a pooler (linear, tanh) on the first token, dropout and a linear
layer. Attention takes any alignment function and speaks at `encoder.0.self` and so on. Weights of a published encoder come in
through `lit-attn convert bert FOLDER`; the pooler and the last layer are always trained here.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.bert import SPREAD, BertEmbeddings, BertLayer, BertSizes, init_bert
from lit_attn.nn.tape import Site


class BertClassifier(nn.Module):
    """Tokens in, scores of the classes out.

    Args:
        sizes: Of the layers.
        max_positions: Longest sequence, its first and its last token included.
        init_std: Spread of the first weights.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        sizes: BertSizes,
        layers: int = 6,
        *,
        alignment: str = "scaled_dot",
        max_positions: int = 512,
        init_std: float = SPREAD,
    ) -> None:
        super().__init__()
        self.embedding = BertEmbeddings(vocab_size, sizes, max_positions)
        self.layers = nn.ModuleList(
            BertLayer(sizes, Site(f"encoder.{i}.self", "words", "words", sizes.num_heads), alignment)
            for i in range(layers)
        )
        self.pooler = nn.Linear(sizes.dim, sizes.dim)
        self.drop = nn.Dropout(sizes.dropout)
        self.output = nn.Linear(sizes.dim, num_classes)
        init_bert(self, init_std)

    def forward(self, tokens: Int[Tensor, "b t"], token_mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        return self.classify(self.embed(tokens), token_mask)

    def embed(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Word piece, place and segment, summed: what gradients of inputs are taken by."""
        limit = self.embedding.positions.num_embeddings
        if tokens.shape[1] > limit:
            raise UserError(
                f"A sentence has {tokens.shape[1]} tokens, its first and last included, but this model knows {limit} "
                "positions. Shorten it with a smaller data.max_tokens, or train with a larger model.max_positions."
            )
        return self.embedding.summed(tokens)

    def classify(self, embedded: Float[Tensor, "b t d"], token_mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        """From the first token's row."""
        x = self.embedding.drop(self.embedding.norm(embedded))
        for layer in self.layers:
            x = layer(x, key_mask=token_mask.unsqueeze(1), query_mask=token_mask)
        return self.output(self.drop(torch.tanh(self.pooler(x[:, 0]))))
