"""Is a sentence good or bad news? A BERT with a classifier as a task; published encoders are fine-tuned by `--from_weights`."""

from typing import ClassVar

from lit_attn.models.sentiment import BertClassifier
from lit_attn.nn.bert import SPREAD, BertSizes
from lit_attn.tasks.sentences import SentenceTask


class Sentiment(SentenceTask):
    """A BERT with a classifier as a LightningModule.

    Args:
        vocab_size, num_answers: Taken from the data when a recipe runs.
        alignment: Inside every head: cosine, dot, scaled_dot, general_query, general_key, biased_query, biased_key, activated,
            or the import path of a subclass of lit_attn.nn.alignment.Alignment.
        max_positions: Longest sentence with its first and last token.
        eps: Of every layer norm.
        dropout: Of embeddings, attention weights, what blocks add, and of what the last layer reads.
        word_dropout: Share of the word pieces that training replaces by the unknown one.
        lr: The highest rate of AdamW; it rises over the share `warmup` of the run and falls to zero along a cosine.
    """

    free_in_evaluation: ClassVar = frozenset({"dropout", "word_dropout", "init_std", "lr", "warmup", "weight_decay"})
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        num_answers: int,
        alignment: str = "scaled_dot",
        dim: int = 384,
        num_heads: int = 12,
        hidden: int = 1536,
        layers: int = 6,
        max_positions: int = 512,
        eps: float = 1e-12,
        dropout: float = 0.1,
        word_dropout: float = 0.0,
        init_std: float = SPREAD,
        lr: float = 5e-5,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
    ) -> None:
        net = BertClassifier(
            vocab_size,
            num_answers,
            BertSizes(dim, num_heads, hidden, dropout, eps),
            layers,
            alignment=alignment,
            max_positions=max_positions,
            init_std=init_std,
        )
        super().__init__(net, lr, warmup, weight_decay, word_dropout)
        self.save_hyperparameters()
