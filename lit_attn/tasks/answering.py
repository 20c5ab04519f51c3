"""How is MAC trained and scored? Cross-entropy over answers, averaged weights for evaluation, accuracy by kind of question."""

import math
from typing import Any, ClassVar, Literal

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.metrics.accuracy import KindAccuracy
from lit_attn.metrics.mean import WeightedMean
from lit_attn.models.mac import Mac
from lit_attn.nn.tape import AttentionTape
from lit_attn.ops.loss import cross_entropy_with_set
from lit_attn.ops.schedule import halved_by_loss
from lit_attn.tasks.answer_lists import check_words, keep_words
from lit_attn.tasks.averaging import KEY, HideAverage, WeightAverage
from lit_attn.tasks.predictions import sees_all, write_predictions
from lit_attn.types import QUESTION_KINDS, QuestionBatch

NETWORK = "net."
LrRule = Literal["loss", "cosine"]


class Answering(L.LightningModule):
    """MAC as a LightningModule.

    Args:
        vocab_size, num_answers, grid_dim: Taken from the data when a recipe runs.
        alignment: Of the read unit: cosine, dot, scaled_dot, general_query, general_key, biased_query, biased_key,
            activated, or the import path of a subclass of lit_attn.nn.alignment.Alignment.
        read_alignment: The same by its own name; wins over `alignment`.
        control_alignment: Of the control unit.
        paper_code: As the published code of the study: the control unit has the read unit's function, with the other
            operand transformed.
        steps: Reasoning steps.
        kernel: Side of the convolutions over the grid: 3 as published, 1 where every cell speaks for itself.
        self_attention, memory_gate, recurrent_control: Options of the network (see the model).
        guide: Weight of a second loss that shows the last step where to look, on data that know what an answer rests on:
            the cross-entropy of its read attention with the cells that speak for those things. 0, as published: it finds
            out by itself.
        guide_rest: What this loss leaves to all other cells together, in shares of one such cell. Above 0, attention itself
            tells how many things there are.
        average: Decay of the average of the weights that evaluation uses; 0 for none.
        lr: Adam's rate at the start.
        lr_rule: `loss` halves it after an epoch in which the training loss is small and hardly fell; `cosine` lowers it
            to zero over the whole run.
        warmup: Steps in which the rate rises from zero.
    """

    free_in_evaluation: ClassVar = frozenset({"guide", "guide_rest", "average", "lr", "lr_rule", "warmup"})
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        num_answers: int,
        grid_dim: int,
        alignment: str = "dot",
        read_alignment: str | None = None,
        control_alignment: str = "dot",
        paper_code: bool = False,
        dim: int = 512,
        word_dim: int = 300,
        steps: int = 4,
        kernel: int = 3,
        self_attention: bool = False,
        memory_gate: bool = False,
        recurrent_control: bool = False,
        grid_dropout: float = 0.18,
        word_dropout: float = 0.15,
        question_dropout: float = 0.08,
        memory_dropout: float = 0.15,
        read_dropout: float = 0.15,
        output_dropout: float = 0.15,
        guide: float = 0.0,
        guide_rest: float = 0.0,
        average: float = 0.999,
        lr: float = 1e-4,
        lr_rule: LrRule = "loss",
        warmup: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        read = read_alignment or alignment
        if paper_code and control_alignment not in ("dot", read):
            raise UserError(
                f"paper_code gives the control unit the read unit's alignment {read!r}; "
                f"leave out control_alignment={control_alignment!r}."
            )
        self.net = Mac(
            vocab_size=vocab_size,
            num_answers=num_answers,
            grid_dim=grid_dim,
            dim=dim,
            word_dim=word_dim,
            steps=steps,
            kernel=kernel,
            read_alignment=read,
            control_alignment=read if paper_code else control_alignment,
            self_attention=self_attention,
            memory_gate=memory_gate,
            recurrent_control=recurrent_control,
            swapped_control=paper_code,
            grid_dropout=grid_dropout,
            word_dropout=word_dropout,
            question_dropout=question_dropout,
            memory_dropout=memory_dropout,
            read_dropout=read_dropout,
            output_dropout=output_dropout,
        )
        if not 0 <= average < 1:
            raise UserError(f"average is the decay of an average of weights, from 0 to below 1; got {average}.")
        self.decay = average
        if guide_rest < 0:
            raise UserError(f"guide_rest is a share of attention and must not be negative, got {guide_rest}.")
        self.guide, self.guide_rest = guide, guide_rest
        self.lr, self.lr_rule, self.warmup = lr, lr_rule, warmup
        self.average: WeightAverage | None = None
        self.train_loss = WeightedMean()
        self.loss_before: float | None = None
        self.rate = lr
        """What the rule by loss has made of the learning rate."""
        self.accuracy = KindAccuracy(QUESTION_KINDS)
        self.loss = WeightedMean()
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    def forward(self, batch: QuestionBatch) -> Tensor:
        """Scores of all answers to every question: c v."""
        scores: Tensor = self.net(batch.grid, batch.tokens, batch.token_mask, batch.owner)
        return scores

    # Training.

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        steps = self.trainer.estimated_stepping_batches if self.lr_rule == "cosine" else math.inf
        if self.lr_rule == "cosine" and math.isinf(steps):
            raise UserError(
                "lr_rule 'cosine' must know when the run ends: set --trainer.max_epochs or --trainer.max_steps, "
                "or take lr_rule 'loss'."
            )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: self._share_of_rate(done, steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_callbacks(self) -> list[L.Callback]:
        return [HideAverage()]

    def _share_of_rate(self, done: int, steps: float) -> float:
        """The learning rate after so many steps, over `lr`."""
        rising = min(1.0, (done + 1) / self.warmup) if self.warmup else 1.0
        if self.lr_rule == "cosine":
            return rising * (0.5 + 0.5 * math.cos(math.pi * min(1.0, done / steps)))
        return rising * self.rate / self.lr

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        scores, misled = self._guided(batch) if self.guide else (self(batch), None)
        loss = F.cross_entropy(scores, batch.answer)
        self.train_loss.update(loss, torch.tensor(len(batch), device=loss.device))
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        if misled is None:
            return loss
        self.log("train/guide", misled)
        return loss + self.guide * misled

    def _guided(self, batch: QuestionBatch) -> tuple[Tensor, Tensor]:
        """Scores, and how far the last step's read attention is from the cells of what the answers rest on."""
        if batch.spokesmen is None:
            raise UserError("guide needs data that know what an answer rests on, such as Scenes. Set model.guide to 0.")
        with AttentionTape(self.net, "read", gradients=True) as tape:
            scores = self(batch)
        reads = tape["read"][-1].weights[:, 0, 0]
        return scores, cross_entropy_with_set(reads, batch.spokesmen, self.guide_rest)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)
        if self.average is not None:
            self.average.update()

    def on_fit_start(self) -> None:
        if self.decay and self.average is None:
            self.average = WeightAverage(self.net, self.decay)
        if self.average is not None:
            self.average.follow()

    def on_train_epoch_end(self) -> None:
        loss = float(self.train_loss.compute())
        self.train_loss.reset()
        self.rate = halved_by_loss(self.rate, loss, self.loss_before)
        self.loss_before = loss
        if self.lr_rule == "loss":
            self._set_rate()

    def _set_rate(self) -> None:
        """For the very next step: the scheduler has set its rate before the epoch's loss was known."""
        scheduler = self.lr_schedulers()
        assert isinstance(scheduler, torch.optim.lr_scheduler.LambdaLR)
        share = scheduler.lr_lambdas[0](scheduler.last_epoch)
        for group in scheduler.optimizer.param_groups:
            group["lr"] = self.lr * share

    # Evaluation.

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> dict[str, list[str]]:
        return self._evaluate(batch)

    def test_step(self, batch: QuestionBatch, batch_idx: int) -> dict[str, list[str]]:
        return self._evaluate(batch)

    def _evaluate(self, batch: QuestionBatch) -> dict[str, list[str]]:
        if not len(batch):
            return {}
        scores = self(batch)
        known = batch.answer >= 0
        if not known.all():
            raise UserError("These questions have no answers to score against. Use lit-attn predict.")
        seen = batch.answer < scores.shape[1]
        if seen.any():
            self.loss.update(F.cross_entropy(scores[seen], batch.answer[seen]), seen.sum())
        found = scores.argmax(-1)
        self.accuracy.update(found == batch.answer, batch.kind)
        return {"answers": self._named(found)}

    def _named(self, found: Tensor) -> list[str]:
        answers = self.answers
        return [answers[i] for i in found.tolist()]

    @property
    def answers(self) -> tuple[str, ...]:
        return self.trainer.datamodule.answers  # type: ignore[attr-defined]

    # Evaluation during and after training sees the average; a checkpoint that is evaluated holds nothing else.

    def on_validation_start(self) -> None:
        self._show_average()

    def on_test_start(self) -> None:
        self._show_average()

    def on_predict_start(self) -> None:
        self._show_average()

    def on_validation_epoch_end(self) -> None:
        self._hide_average()
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._hide_average()
        self._score("test")

    def _show_average(self) -> None:
        if self.average is not None:
            self.average.show()

    def _hide_average(self) -> None:
        if self.average is not None:
            self.average.hide()

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

    def predict_step(self, batch: QuestionBatch, batch_idx: int) -> list[dict[str, Any]]:
        if not len(batch):
            return []
        shares, found = self(batch).softmax(-1).max(-1)
        rows: list[dict[str, Any]] = []
        for i, (answer, share) in enumerate(zip(self._named(found), shares.tolist(), strict=True)):
            truth = int(batch.answer[i])
            known = {"truth": self.answers[truth]} if 0 <= truth < len(self.answers) else {}
            rows.append(
                {
                    "question_id": int(batch.question_id[i]),
                    "question": " ".join(batch.words[i]),
                    "picture": batch.picture_name[int(batch.owner[i])],
                    "answer": answer,
                    "probability": share,
                    **known,
                }
            )
        self._predicted += zip(batch.question_id.tolist(), rows, strict=True)
        return rows

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per question."""
        self._hide_average()
        write_predictions(self.trainer, self._predicted)
        self._predicted = []

    # What a checkpoint holds besides the weights.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        data = getattr(self.trainer, "datamodule", None)
        if data is not None:
            keep_words(checkpoint, data)
        # Every process counts its own questions: what is kept is the sum.
        counted = torch.stack([self.train_loss.total, self.train_loss.count])
        counted = self.trainer.strategy.reduce(counted, reduce_op="sum")
        checkpoint["progress"] = {"rate": self.rate, "loss_before": self.loss_before, "loss": tuple(counted.tolist())}
        if self.average is not None:
            self.average.save(checkpoint, NETWORK)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trainer = self._trainer
        data = None if trainer is None else getattr(trainer, "datamodule", None)
        if data is not None:
            check_words(checkpoint, data)
        self.average = None
        if trainer is None or trainer.state.fn != "fit":
            return
        progress = checkpoint["progress"]
        self.rate, self.loss_before = progress["rate"], progress["loss_before"]
        total, count = progress["loss"] if trainer.is_global_zero else (0.0, 0.0)
        self.train_loss.total.fill_(total)
        self.train_loss.count.fill_(count)
        if KEY in checkpoint:
            self.average = WeightAverage(self.net, self.decay)
            self.average.load(checkpoint, NETWORK)
