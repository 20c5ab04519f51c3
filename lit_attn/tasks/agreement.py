"""Is the verb to come singular or plural? The verb-number network as a task."""

from typing import ClassVar

from lit_attn.models.agreement import VerbNumber
from lit_attn.nn.gpt2 import Gpt2Sizes
from lit_attn.tasks.sentences import SentenceTask


class Agreement(SentenceTask):
    """The verb-number network as a LightningModule.

    Args:
        vocab_size, num_answers: Taken from the data when a recipe runs.
        alignment: Inside every head: cosine, dot, scaled_dot, general_query, general_key, biased_query, biased_key, activated,
            or the import path of a subclass of lit_attn.nn.alignment.Alignment.
        word_dim: Width of the table of words; null for that of the layers, as published.
        max_positions: Longest sentence with its first and last token.
        dropout, attn_dropout, embed_dropout: Of what blocks add, of attention weights, of embedded tokens.
        word_dropout: Share of the words that training replaces by the unknown one, so that a blanked-out word is nothing new.
        lr: The highest rate of AdamW; it rises over the share `warmup` of the run and falls to zero along a cosine.
    """

    free_in_evaluation: ClassVar = frozenset(
        {"dropout", "attn_dropout", "embed_dropout", "word_dropout", "init_std", "lr", "warmup", "weight_decay"}
    )
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        num_answers: int,
        alignment: str = "scaled_dot",
        dim: int = 128,
        num_heads: int = 8,
        hidden: int = 512,
        layers: int = 6,
        word_dim: int | None = None,
        max_positions: int = 64,
        dropout: float = 0.1,
        attn_dropout: float = 0.1,
        embed_dropout: float = 0.1,
        word_dropout: float = 0.0,
        init_std: float = 0.05,
        lr: float = 5e-4,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
    ) -> None:
        net = VerbNumber(
            vocab_size,
            num_answers,
            Gpt2Sizes(dim, num_heads, hidden, dropout, attn_dropout),
            layers,
            alignment=alignment,
            word_dim=word_dim,
            max_positions=max_positions,
            embed_dropout=embed_dropout,
            init_std=init_std,
        )
        super().__init__(net, lr, warmup, weight_decay, word_dropout)
        self.save_hyperparameters()
