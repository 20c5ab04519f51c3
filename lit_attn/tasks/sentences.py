"""How is a classifier of sentences trained and scored? Cross-entropy, and accuracy by kinds of sentences. Shared by its tasks."""

import math
from abc import ABC
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.metrics.accuracy import KindAccuracy
from lit_attn.metrics.mean import WeightedMean
from lit_attn.ops.schedule import one_cycle
from lit_attn.tasks.answer_lists import check_words, keep_words
from lit_attn.tasks.predictions import sees_all, write_predictions
from lit_attn.types import SentenceBatch


class SentenceTask(L.LightningModule, ABC):
    """A network from tokens and their mask to the scores of classes, as a LightningModule.

    Args:
        net: The network.
        lr: The highest rate of AdamW; it rises over the share `warmup` of the run and falls to zero along a cosine.
        word_dropout: Share of the words that training replaces by the unknown one, so that a blanked-out word is nothing new.
    """

    def __init__(
        self, net: nn.Module, lr: float, warmup: float, weight_decay: float, word_dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not 0 <= warmup < 1:
            raise UserError(f"warmup is a share of the run, from 0 to below 1; got {warmup}.")
        if not 0 <= word_dropout < 1:
            raise UserError(f"word_dropout is a share of the words, from 0 to below 1; got {word_dropout}.")
        self.net = net
        self.lr, self.warmup, self.weight_decay = lr, warmup, weight_decay
        self.word_dropout = word_dropout
        self.loss = WeightedMean()
        self.accuracy = KindAccuracy(())
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    def forward(self, batch: SentenceBatch) -> Tensor:
        """Scores of the classes: b v."""
        scores: Tensor = self.net(batch.tokens, batch.token_mask)
        return scores

    def setup(self, stage: str) -> None:
        kinds = getattr(getattr(self.trainer, "datamodule", None), "kinds", ())
        self.accuracy = KindAccuracy(kinds).to(self.device)

    # Training.

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        steps = self.trainer.estimated_stepping_batches
        if math.isinf(steps):
            raise UserError("The learning rate falls to the end of the run: set --trainer.max_epochs or max_steps.")
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: one_cycle(done, int(steps), self.warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def training_step(self, batch: SentenceBatch, batch_idx: int) -> Tensor:
        loss = F.cross_entropy(self.net(self._some_unknown(batch), batch.token_mask), batch.answer)
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    def _some_unknown(self, batch: SentenceBatch) -> Tensor:
        """The tokens, some words of which are unknown now. The marks around a sentence stay."""
        if not self.word_dropout:
            return batch.tokens
        length = batch.token_mask.sum(-1, keepdim=True)
        place = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        inner = (place > 0) & (place < length - 1)
        lost = inner & (torch.rand(batch.tokens.shape, device=batch.tokens.device) < self.word_dropout)
        return batch.tokens.masked_fill(lost, self.trainer.datamodule.unknown)  # type: ignore[attr-defined]

    # Evaluation.

    def validation_step(self, batch: SentenceBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def test_step(self, batch: SentenceBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def _evaluate(self, batch: SentenceBatch) -> None:
        if not len(batch):
            return
        if (batch.answer < 0).any():
            raise UserError("These sentences have no classes to score against. Use lit-attn predict.")
        scores = self(batch)
        self.loss.update(F.cross_entropy(scores, batch.answer), torch.tensor(len(batch), device=scores.device))
        self.accuracy.update(scores.argmax(-1) == batch.answer, batch.kind)

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        scores = {"loss": float(self.loss.compute())} | self.accuracy.compute()
        self.loss.reset()
        self.accuracy.reset()
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and sees_all(self.trainer, stage):
            scores |= data.reference_scores(stage)
        for name, value in scores.items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "accuracy")

    # Predicting.

    @property
    def answers(self) -> tuple[str, ...]:
        return self.trainer.datamodule.answers  # type: ignore[attr-defined]

    def predict_step(self, batch: SentenceBatch, batch_idx: int) -> list[dict[str, Any]]:
        if not len(batch):
            return []
        shares, found = self(batch).softmax(-1).max(-1)
        rows: list[dict[str, Any]] = []
        for i, (answer, share) in enumerate(zip(found.tolist(), shares.tolist(), strict=True)):
            truth = int(batch.answer[i])
            rows.append(
                {
                    "sample": batch.sample_id[i],
                    "sentence": " ".join(batch.words[i][1:-1]),
                    "answer": self.answers[answer],
                    "probability": share,
                }
                | ({"truth": self.answers[truth]} if truth >= 0 else {})
            )
        self._predicted += zip(batch.sentence_id.tolist(), rows, strict=True)
        return rows

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per sentence."""
        write_predictions(self.trainer, self._predicted)
        self._predicted = []

    # What a checkpoint holds besides the weights.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        data = getattr(self.trainer, "datamodule", None)
        if data is not None:
            keep_words(checkpoint, data)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        data = None if self._trainer is None else getattr(self._trainer, "datamodule", None)
        if data is not None:
            check_words(checkpoint, data)
