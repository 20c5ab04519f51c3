"""How is the judge of pictures trained? Kinds with their colours and the largest thing, on pictures made a little worse.

It will judge generated pictures, which are blurred and noisy. One that only ever saw clean pictures would be thrown off by
that rather than by what they show; so training may roughen its pictures.
"""

from typing import Any, ClassVar

import lightning as L
import torch
import torch.nn.functional as F
from jaxtyping import Float
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.metrics.mean import WeightedMean
from lit_attn.models.scene_classifier import SceneClassifier, SceneScores
from lit_attn.tasks.predictions import write_predictions
from lit_attn.types import SynthesisBatch

COARSEST = 3.0
"""The strongest blur comes from a picture with so many times fewer pixels across."""


def roughened(image: Float[Tensor, "b 3 y x"], strength: float) -> Float[Tensor, "b 3 y x"]:
    """Each picture mixed with a blurred copy, with other contrast and brightness, and noise: all by chance, up to `strength`."""

    def drawn() -> Tensor:
        """A number from 0 to `strength` per picture."""
        return strength * torch.rand(len(image), 1, 1, 1, device=image.device, dtype=image.dtype)

    factor = 1 + (COARSEST - 1) * float(torch.rand(()))
    small = F.interpolate(image, scale_factor=1 / factor, mode="bilinear", antialias=True)
    blurred = F.interpolate(small, size=image.shape[2:], mode="bilinear")
    mixed = torch.lerp(image, blurred, drawn().clamp(max=1))
    contrast, brightness = 1 + 0.2 * (drawn() - strength / 2), 0.2 * (drawn() - strength / 2)
    noise = 0.1 * drawn() * torch.randn_like(image)
    return (mixed * contrast + brightness + noise).clamp(-1, 1)


class Classifying(L.LightningModule):
    """The judge of Scenes pictures as a LightningModule.

    Args:
        num_kinds, num_colors: Of the world; by default those of Scenes.
        roughness: How much worse than they are training makes its pictures: 0 not at all, 1 as far as it goes.
        absent_weight: How much an absent kind counts, compared with one that is there.
        lr: Adam's rate at the start; it falls to zero over the run, along a cosine.
    """

    free_in_evaluation: ClassVar = frozenset({"roughness", "absent_weight", "lr"})
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        num_kinds: int = 36,
        num_colors: int = 11,
        roughness: float = 0.5,
        absent_weight: float = 0.3,
        lr: float = 3e-3,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        if not 0 <= roughness <= 1:
            raise UserError(f"roughness goes from 0 to 1, got {roughness}.")
        if absent_weight <= 0:
            raise UserError(f"absent_weight must be above 0, got {absent_weight}.")
        self.net = SceneClassifier(num_kinds, num_colors)
        self.num_kinds, self.num_colors = num_kinds, num_colors
        self.roughness, self.lr = roughness, lr
        self.register_buffer("look_weights", torch.tensor([1.0] * num_colors + [absent_weight]), persistent=False)
        self.scores = torch.nn.ModuleDict(
            {name: WeightedMean() for name in ("loss", "accuracy_main", "accuracy_color", "f1_present")}
        )
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    look_weights: Tensor

    def forward(self, image: Float[Tensor, "b 3 y x"]) -> SceneScores:
        found: SceneScores = self.net(image)
        return found

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        steps = self.trainer.estimated_stepping_batches
        if steps == float("inf"):
            raise UserError("The learning rate falls to the end of the run: set --trainer.max_epochs or max_steps.")
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=int(steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def loss(self, found: SceneScores, looks: Tensor, main: Tensor) -> Tensor:
        """Cross-entropy of what is there, by kind and colour, that of absent kinds beside it, and that of the largest thing.

        Looks are summed over kinds and divided by the number of things: their mean over kinds, most of which are absent
        and soon known to be, would be drowned by the other part.
        """
        wrong = F.cross_entropy(found.looks.flatten(0, 1), looks.flatten(), weight=self.look_weights, reduction="sum")
        there = (looks < self.num_colors).sum().clamp(min=1)
        return wrong / there + F.cross_entropy(found.main, main)

    def training_step(self, batch: SynthesisBatch, batch_idx: int) -> Tensor:
        image, looks, main = self._labelled(batch)
        if self.roughness:
            image = roughened(image, self.roughness)
        loss = self.loss(self(image), looks, main)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def _labelled(self, batch: SynthesisBatch) -> tuple[Tensor, Tensor, Tensor]:
        if batch.image is None or batch.looks is None or batch.main_thing is None:
            raise UserError("These data do not say what their pictures show. Train and score the classifier on Scenes.")
        if batch.looks.shape[1] != self.num_kinds:
            raise UserError(
                f"num_kinds is {self.num_kinds}, but the data know {batch.looks.shape[1]} kinds. Set model.num_kinds."
            )
        return batch.image, batch.looks, batch.main_thing

    # Evaluation.

    def validation_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def test_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        self._evaluate(batch)

    def _evaluate(self, batch: SynthesisBatch) -> None:
        if not len(batch):
            return
        image, looks, main = self._labelled(batch)
        found = self(image)
        self._count("loss", self.loss(found, looks, main) * len(batch), torch.tensor(len(batch)))
        self._count("accuracy_main", (found.main.argmax(1) == main).sum(), torch.tensor(len(batch)))
        there, seen = looks < self.num_colors, found.looks.argmax(2) < self.num_colors
        right = found.looks[..., : self.num_colors].argmax(2) == looks
        self._count("accuracy_color", (right & there).sum(), there.sum())
        self._count("f1_present", 2 * (seen & there).sum(), seen.sum() + there.sum())

    def _count(self, name: str, total: Tensor, count: Tensor) -> None:
        count = count.to(total.device)
        self._mean(name).update(total.double() / count.clamp(min=1), count)

    def _mean(self, name: str) -> WeightedMean:
        mean = self.scores[name]
        assert isinstance(mean, WeightedMean)
        return mean

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        for name in self.scores:
            self.log(f"{stage}/{name}", self._mean(name).compute(), prog_bar=name == "accuracy_main")
            self._mean(name).reset()

    # Predicting.

    def predict_step(self, batch: SynthesisBatch, batch_idx: int) -> list[dict[str, Any]]:
        if not len(batch):
            return []
        if batch.image is None:
            raise UserError("The classifier looks at pictures; leave out data.sentences.")
        found = self(batch.image)
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        kinds, colors = data.kind_names, data.color_names
        rows: list[dict[str, Any]] = []
        for name, looks, main in zip(
            batch.picture_name, found.looks.argmax(2).tolist(), found.main.argmax(1).tolist(), strict=True
        ):
            seen = [f"{colors[look]} {kinds[kind]}" for kind, look in enumerate(looks) if look < self.num_colors]
            rows.append({"picture": name, "largest": kinds[main], "things": seen})
        self._predicted += zip(batch.caption_id.tolist(), rows, strict=True)
        return rows

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per picture."""
        write_predictions(self.trainer, self._predicted)
        self._predicted = []
