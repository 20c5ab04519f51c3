"""How is M4C trained and scored? Multi-label decoding with copying; TextVQA's accuracy and ANLS of its own answers."""

import logging
import math
from bisect import bisect_right
from typing import Any, ClassVar

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.metrics.answers import AnswerScores
from lit_attn.metrics.mean import WeightedMean
from lit_attn.models.m4c import M4C, read_back
from lit_attn.nn.tape import silence
from lit_attn.ops.loss import multilabel_decoding
from lit_attn.tasks.answer_lists import check_words, keep_words
from lit_attn.tasks.predictions import sees_all, write_predictions
from lit_attn.types import ReadingBatch

log = logging.getLogger(__name__)

FINE_TUNED_SHARE = 0.1
"""Of the learning rate, for parts that start from other models' weights."""
FIRST_SHARE = 0.2
"""Of the learning rate, at the first step of warming up."""


class Reading(L.LightningModule):
    """M4C as a LightningModule.

    Args:
        vocab_size, num_answers, region_dim, word_vector_dim, max_steps: Taken from the data when a recipe runs.
        alignment: Inside every head of the joint layers: cosine, dot, scaled_dot, general_query, general_key, biased_query,
            biased_key, activated, or the import path of a subclass of lit_attn.nn.alignment.Alignment.
        text_weights: Folder or hub name of BERT weights for the question encoder; random without.
        text_sizes: Of the question encoder, kept with a model's weights so that these can be used without that folder.
        fc7_dim: Width of a further layer on detector features, as in MMF; without it they are used unchanged.
        legacy_zeros: Columns of zeros that follow the features of an OCR token: the published weights have them.
        init_std: Spread of the first weights of the layers; a narrow network needs more than the published 0.02.
        lr: Adam's rate; parts from other models' weights have a tenth of it.
        warmup: Steps in which the rate rises from a fifth.
        lr_steps: Steps after which the rate falls to a tenth.
    """

    free_in_evaluation: ClassVar = frozenset({"lr", "warmup", "lr_steps", "init_std", "text_weights", "text_sizes"})
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        num_answers: int,
        region_dim: int,
        word_vector_dim: int,
        max_steps: int,
        alignment: str = "scaled_dot",
        dim: int = 768,
        num_heads: int = 12,
        hidden: int = 3072,
        layers: int = 4,
        text_layers: int = 3,
        text_weights: str | None = None,
        text_sizes: dict[str, int | float] | None = None,
        dropout: float = 0.1,
        fc7_dim: int | None = None,
        legacy_zeros: int = 50,
        init_std: float = 0.02,
        lr: float = 1e-4,
        warmup: int = 1000,
        lr_steps: list[int] = [14000, 19000],  # noqa: B006 - a default that recipes show; never changed
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = M4C(
            vocab_size=vocab_size,
            num_answers=num_answers,
            region_dim=region_dim,
            word_vector_dim=word_vector_dim,
            dim=dim,
            num_heads=num_heads,
            hidden=hidden,
            layers=layers,
            text_layers=text_layers,
            text_weights=text_weights,
            text_sizes=text_sizes,
            alignment=alignment,
            dropout=dropout,
            max_steps=max_steps,
            fc7_dim=fc7_dim,
            legacy_zeros=legacy_zeros,
            init_std=init_std,
        )
        self._drawn = self._a_word() if text_weights is None else None
        self.hparams.update(text_weights=None, text_sizes=self.net.text.sizes)
        self.lr, self.warmup, self.lr_steps = lr, warmup, sorted(lr_steps)
        self.loss = WeightedMean()
        self.scores = AnswerScores()
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Scores of answer words and OCR tokens at every step that is taught: b s n."""
        scores: Tensor = self.net(batch)
        return scores

    def setup(self, stage: str) -> None:
        kinds = getattr(getattr(self.trainer, "datamodule", None), "question_kinds", ())
        self.scores = AnswerScores(kinds).to(self.device)

    # Training.

    def on_fit_start(self) -> None:
        """Weights of a file, or of a run that goes on, are in their place by now."""
        if self._drawn is not None and torch.equal(self._a_word().to(self._drawn), self._drawn):
            log.warning("The question encoder starts from random weights; published M4C starts from those of BERT.")

    def _a_word(self) -> Tensor:
        """A vector by which drawn weights of the question encoder can be told from loaded ones."""
        return self.net.text.embed.words.weight[-1].detach().clone()

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        slow = {id(parameter) for parameter in self.net.fine_tuned()}
        groups = [
            {"params": [p for p in self.parameters() if id(p) not in slow], "lr": self.lr},
            {"params": [p for p in self.parameters() if id(p) in slow], "lr": self.lr * FINE_TUNED_SHARE},
        ]
        optimizer = torch.optim.Adam([group for group in groups if group["params"]])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._share_of_rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _share_of_rate(self, done: int) -> float:
        """The learning rate after so many steps, over `lr`."""
        rising = FIRST_SHARE + (1 - FIRST_SHARE) * done / self.warmup if done < self.warmup else 1.0
        return rising * 0.1 ** bisect_right(self.lr_steps, done)

    def training_step(self, batch: ReadingBatch, batch_idx: int) -> Tensor:
        loss = multilabel_decoding(self(batch), batch.targets, batch.step_mask)
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    # Evaluation.

    def validation_step(self, batch: ReadingBatch, batch_idx: int) -> dict[str, Any]:
        return self._evaluate(batch)

    def test_step(self, batch: ReadingBatch, batch_idx: int) -> dict[str, Any]:
        return self._evaluate(batch)

    def _evaluate(self, batch: ReadingBatch) -> dict[str, Any]:
        """The loss of what is taught, which no tape hears, and the score of the model's own answers, which tapes hear."""
        if not len(batch):
            return {}
        with silence():
            loss = multilabel_decoding(self(batch), batch.targets, batch.step_mask)
        self.loss.update(loss, batch.step_mask.sum())
        answers, heard = self.answer(batch)
        self.scores.update(answers, batch.answers, batch.kind or None)
        return {"answers": answers, "heard": heard}

    def answer(self, batch: ReadingBatch) -> tuple[list[str], ReadingBatch]:
        """The model's own answers, and the batch with them, after one pass over it that tapes hear."""
        tokens = self.net.answer(batch)
        heard = read_back(batch, tokens)
        self.net(heard)
        words = self.trainer.datamodule.answer_words  # type: ignore[attr-defined]
        return [words.decode(ids, own) for ids, own in zip(tokens.tolist(), batch.ocr_words, strict=True)], heard

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        scores = {"loss": float(self.loss.compute())}
        means = {name: float(value) for name, value in self.scores.compute().items()}
        # A kind that was not asked for has no score.
        scores |= {name.replace("/", "_"): v for name, v in means.items() if "/" not in name or not math.isnan(v)}
        self.loss.reset()
        self.scores.reset()
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and sees_all(self.trainer, stage):
            scores |= data.reference_scores(stage)
        for name, value in scores.items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "accuracy")

    # Predicting.

    def predict_step(self, batch: ReadingBatch, batch_idx: int) -> list[dict[str, Any]]:
        if not len(batch):
            return []
        rows = [
            {"question_id": number, "question": " ".join(words[1:-1]), "picture": picture, "answer": answer}
            | ({"answers": list(known)} if known else {})
            for number, words, picture, answer, known in zip(
                batch.question_id.tolist(),
                batch.words,
                batch.picture_name,
                self.answer(batch)[0],
                batch.answers,
                strict=True,
            )
        ]
        self._predicted += zip(batch.question_id.tolist(), rows, strict=True)
        return rows

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per question."""
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
