"""How are DAMSM's encoders trained? A picture must find its caption and a caption its picture, by words and as a whole.

Source: Xu et al. 2018, AttnGAN. The trained encoders stay as they are while AttnGAN learns (`tasks.synthesis`).
"""

from typing import Any, ClassVar

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.metrics.mean import WeightedMean
from lit_attn.models.damsm import Codes, Damsm
from lit_attn.ops.damsm import match_loss, sentence_similarity, word_similarity
from lit_attn.tasks.caption_rivals import CaptionRivals
from lit_attn.tasks.caption_words import check_words, keep_words
from lit_attn.types import SynthesisBatch

BETAS = (0.5, 0.999)
LOWEST_SHARE = 0.1
"""The learning rate falls to this share of the first one, and no further."""


def matching_loss(codes: Codes, token_mask: Tensor, class_id: Tensor) -> Tensor:
    """What it costs that words and sentences do not find their pictures, nor pictures them."""
    by_words = match_loss(word_similarity(codes.regions, codes.words, token_mask), class_id)
    as_a_whole = match_loss(sentence_similarity(codes.image, codes.sentence), class_id)
    return torch.stack([*by_words, *as_a_whole]).sum()


def pictures_of(batch: SynthesisBatch) -> Tensor:
    """The pictures, or word that there are none."""
    if batch.image is None:
        raise UserError(
            "There are captions here without pictures: they can be painted with lit-attn predict, not more."
        )
    return batch.image


class DamsmTraining(L.LightningModule):
    """DAMSM as a LightningModule.

    Args:
        vocab_size: Taken from the data when a recipe runs.
        word_dim, dim: Width of words and of the joint space.
        encoder: Of pictures: `inception`, or `small` for the pictures of Scenes.
        weights: Local file with Inception's weights. Without one it is random, and the log says so.
        dropout: Of embedded words.
        lr: Adam's rate in the first epoch.
        lr_decay: What an epoch leaves of the rate, down to a tenth of the first.
        fresh_adam: Forget Adam's averages after every epoch, as the published code does.
        text_clip: Largest norm of the gradient of the text encoder's LSTM and embedding.
        distractors: Wrong captions beside the right one when R-precision is measured.
    """

    free_in_evaluation: ClassVar = frozenset(
        {"weights", "dropout", "lr", "lr_decay", "fresh_adam", "text_clip", "distractors"}
    )
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        word_dim: int = 300,
        dim: int = 256,
        encoder: str = "inception",
        weights: str | None = None,
        dropout: float = 0.5,
        lr: float = 2e-3,
        lr_decay: float = 0.98,
        fresh_adam: bool = False,
        text_clip: float = 0.25,
        distractors: int = 99,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = Damsm(vocab_size, word_dim, dim, encoder, weights, dropout)
        self.lr, self.lr_decay, self.fresh_adam, self.text_clip = lr, lr_decay, fresh_adam, text_clip
        self.loss = WeightedMean()
        self.rivals = CaptionRivals(distractors)

    def forward(self, batch: SynthesisBatch) -> Codes:
        codes: Codes = self.net(pictures_of(batch), batch.tokens, batch.token_mask)
        return codes

    # Training.

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adam(trained, lr=self.lr, betas=BETAS)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: max(self.lr_decay**epoch, LOWEST_SHARE))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}

    def training_step(self, batch: SynthesisBatch, batch_idx: int) -> Tensor:
        loss = matching_loss(self(batch), batch.token_mask, batch.class_id)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        torch.nn.utils.clip_grad_norm_(self.net.text.parameters(), self.text_clip)

    def on_train_epoch_end(self) -> None:
        if self.fresh_adam:
            for optimizer in self.trainer.optimizers:
                optimizer.state.clear()

    # Evaluation.

    def on_validation_start(self) -> None:
        self._begin("val")

    def on_test_start(self) -> None:
        self._begin("test")

    def _begin(self, stage: str) -> None:
        self.rivals.begin(self.net.text, self.trainer.datamodule, stage)  # type: ignore[attr-defined]

    def validation_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def test_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def _evaluate(self, batch: SynthesisBatch) -> None:
        if not len(batch):
            return
        codes = self(batch)
        loss = matching_loss(codes, batch.token_mask, batch.class_id)
        self.loss.update(loss, torch.tensor(len(batch), device=loss.device))
        self.rivals.update(codes.image, codes.sentence, batch)

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        self.log(f"{stage}/loss", self.loss.compute())
        self.loss.reset()
        for name, value in self.rivals.finish().items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "r_precision")

    # What a checkpoint holds besides the weights.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        keep_words(checkpoint, self._trainer)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        check_words(checkpoint, self._trainer)
