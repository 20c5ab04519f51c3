"""How is AttnGAN trained and scored? Discriminators and generator take turns; encoders that were trained before judge both.

Source: Xu et al. 2018, AttnGAN. Deviations: losses on logits; one Adam for all discriminators, which is the same as one for
each; a step of training is one turn of both, and that is what `max_steps` counts. Evaluation sees the average of the
generator's weights, and draws the noise of a caption from its number, so that every process and every run paints the same.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import lightning as L
import torch
import torch.nn.functional as F
from jaxtyping import Float
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.models.attngan import Discriminator, Generator, Synthesized, check_sides
from lit_attn.models.damsm import Codes, TextCodes, TextEncoder, build_image_encoder
from lit_attn.ops.gan import condition_divergence, discriminator_loss, generator_loss, mismatched
from lit_attn.tasks.averaging import KEY, HideAverage, WeightAverage
from lit_attn.tasks.caption_words import check_words, keep_words
from lit_attn.tasks.damsm import BETAS, matching_loss, pictures_of
from lit_attn.tasks.encoders import ENCODERS, take_encoders
from lit_attn.tasks.gradients import backward
from lit_attn.tasks.painting_scores import PaintingScores
from lit_attn.tasks.predictions import write_predictions
from lit_attn.types import SynthesisBatch

GENERATOR = "generator."
NOISE_SEED = 20_180
"""Of the noise that evaluation draws for a caption, together with its number."""


class Noise(NamedTuple):
    """What differs between two pictures of one caption."""

    z: Float[Tensor, "b z"]
    eps: Float[Tensor, "b n"]


class Synthesis(L.LightningModule):
    """AttnGAN as a LightningModule.

    Args:
        vocab_size: Taken from the data when a recipe runs.
        damsm: Weights of the encoders, from `lit-attn fit damsm_…` or `lit-attn convert attngan`, or `scenes` for the shipped
            ones; needed to train. Without them the encoders are random, and the log says so.
        alignment: Of the positions of a picture with words: cosine, dot, scaled_dot, general_query, general_key,
            biased_query, biased_key, activated, or the import path of a subclass of lit_attn.nn.alignment.Alignment.
        word_dim, text_dim, encoder: Of the encoders: width of words, of the joint space, and kind of the picture encoder.
        sides: Pixels across the pictures of each stage; every side is twice the one before.
        z_dim, condition_dim: Width of the noise and of the condition drawn around a sentence.
        width: Channels of the generator's largest maps.
        residuals: Residual blocks in every stage after the first.
        discriminator_width: Channels after a discriminator's first convolution.
        match_weight: Weight of DAMSM's loss beside that of the discriminators (λ).
        average: Decay of the average of the generator's weights, which evaluation uses; 0 for none.
        lr: Adam's rate, of generator and discriminators.
        judge: What FID and IS are measured with: `scenes`, `fid`, `inception:FILE`; without one they are not.
        distractors: Wrong captions beside the right one when R-precision is measured.
    """

    free_in_evaluation: ClassVar = frozenset(
        {"damsm", "discriminator_width", "match_weight", "average", "lr", "judge", "distractors"}
    )
    """Settings that may differ from those of a checkpoint that is evaluated."""
    only_in_training: ClassVar = ("discriminators.",)
    """What weights may lack, and may have, when they are evaluated."""
    only_in_scoring: ClassVar = ("image.",)
    """What they may lack when they only paint."""

    def __init__(
        self,
        vocab_size: int,
        damsm: str | None = None,
        alignment: str = "dot",
        word_dim: int = 300,
        text_dim: int = 256,
        encoder: str = "inception",
        sides: list[int] | None = None,
        z_dim: int = 100,
        condition_dim: int = 100,
        width: int = 32,
        residuals: int = 2,
        discriminator_width: int = 64,
        match_weight: float = 5.0,
        average: float = 0.999,
        lr: float = 2e-4,
        judge: str | None = None,
        distractors: int = 99,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.sides = tuple(sides or (64, 128, 256))
        check_sides(self.sides)
        if not 0 <= average < 1:
            raise UserError(f"average is the decay of an average of weights, from 0 to below 1; got {average}.")
        self.text = TextEncoder(vocab_size, word_dim, text_dim)
        self.image = build_image_encoder(encoder, text_dim)
        self.generator = Generator(text_dim, z_dim, condition_dim, width, self.sides, residuals, alignment)
        self.discriminators = nn.ModuleList(Discriminator(side, text_dim, discriminator_width) for side in self.sides)
        self.text.requires_grad_(False).eval()
        self.image.requires_grad_(False).eval()
        self.damsm = damsm
        self.from_elsewhere: tuple[str, ...] = () if damsm is None else ENCODERS
        """What weights may lack, because it is taken from `damsm`."""
        self.z_dim, self.condition_dim = z_dim, condition_dim
        self.match_weight, self.lr, self.decay = match_weight, lr, average
        self.average: WeightAverage | None = None
        self.scores = PaintingScores(judge, distractors)
        self.painted: list[Tensor] = []
        """What evaluation painted last: pictures of every stage, small to large."""
        self._restored = False
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    @property
    def net(self) -> Generator:
        """What attention is captured of."""
        return self.generator

    def train(self, mode: bool = True) -> "Synthesis":
        """The encoders stay as they are."""
        super().train(mode)
        self.text.eval()
        self.image.eval()
        return self

    def forward(self, batch: SynthesisBatch, noise: Noise) -> Synthesized:
        text = self.read(batch)
        made: Synthesized = self.generator(text.sentence, text.words, batch.token_mask, noise.z, noise.eps)
        return made

    @torch.no_grad()
    def read(self, batch: SynthesisBatch) -> TextCodes:
        codes: TextCodes = self.text(batch.tokens, batch.token_mask)
        return codes

    # Training.

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [
            torch.optim.Adam(network.parameters(), lr=self.lr, betas=BETAS)
            for network in (self.generator, self.discriminators)
        ]

    def configure_callbacks(self) -> list[L.Callback]:
        return [HideAverage()]

    def on_fit_start(self) -> None:
        if not self._restored:
            self.fetch()
        if self.decay and self.average is None:
            self.average = WeightAverage(self.generator, self.decay)
        if self.average is not None:
            self.average.follow()

    def fetch(self, parts: Sequence[str] = ENCODERS) -> None:
        """Takes encoders from DAMSM's weights."""
        take_encoders(self, self.damsm, parts)

    def training_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        if len(batch) < 2:
            raise UserError("AttnGAN learns from at least 2 samples at once: raise data.batch_size.")
        generator_turn, discriminator_turn = self._turns()
        real = shrunk(pictures_of(batch), self.sides)
        text = self.read(batch)
        z = torch.randn(len(batch), self.z_dim).to(text.sentence)
        made = self.generator(text.sentence, text.words, batch.token_mask, z)

        refused = self._discriminate(real, [image.detach() for image in made.images], text.sentence)
        discriminator_turn.zero_grad()
        backward(self, refused, self.discriminators.parameters())
        discriminator_turn.step()

        self.discriminators.requires_grad_(False)
        fooled = self._fool(made.images, text.sentence)
        seen = self.image(made.images[-1])
        codes = Codes(seen.regions, seen.image, text.words, text.sentence)
        matched = matching_loss(codes, batch.token_mask, batch.class_id)
        spread = condition_divergence(made.mu, made.logvar)
        generator_turn.zero_grad()
        backward(self, fooled + self.match_weight * matched + spread, self.generator.parameters())
        generator_turn.step()
        self.discriminators.requires_grad_(True)
        if self.average is not None:
            self.average.update()
        losses = {"loss": fooled + self.match_weight * matched + spread, "discriminator": refused, "matching": matched}
        for name, loss in losses.items():
            self.log(f"train/{name}", loss, prog_bar=name != "matching")

    def _turns(self) -> tuple[LightningOptimizer, LightningOptimizer]:
        """Both optimizers. Lightning would count a step for each of them; only the generator's is one."""
        both = self.optimizers()
        assert isinstance(both, list)
        generator, discriminators = both
        assert isinstance(generator, LightningOptimizer)
        assert isinstance(discriminators, LightningOptimizer)
        discriminators._on_before_step = discriminators._on_after_step = _uncounted
        return generator, discriminators

    def _discriminate(self, real: Sequence[Tensor], fake: Sequence[Tensor], sentence: Tensor) -> Tensor:
        losses = []
        for network, true, made in zip(self.discriminators, real, fake, strict=True):
            assert isinstance(network, Discriminator)
            features = network.features(true)
            said, said_matched = network(made, sentence)
            losses.append(
                discriminator_loss(
                    real=network.unconditional(features),
                    real_matched=network.conditional(features, sentence),
                    real_mismatched=network.conditional(*mismatched(features, sentence)),
                    fake=said,
                    fake_matched=said_matched,
                )
            )
        return torch.stack(losses).sum()

    def _fool(self, made: Sequence[Tensor], sentence: Tensor) -> Tensor:
        said = [network(image, sentence) for network, image in zip(self.discriminators, made, strict=True)]
        return torch.stack([generator_loss(fake=alone, fake_matched=matched) for alone, matched in said]).sum()

    # Evaluation.

    @torch.no_grad()
    def paint(self, batch: SynthesisBatch) -> list[Tensor]:
        """The pictures of each caption at every side, from noise that belongs to its number."""
        drawn = [
            torch.randn(
                self.z_dim + self.condition_dim, generator=torch.Generator().manual_seed(NOISE_SEED + int(number))
            )
            for number in batch.caption_id.tolist()
        ]
        like = next(self.generator.parameters())
        z, eps = torch.stack(drawn).to(like).split([self.z_dim, self.condition_dim], dim=1)
        self.painted = self(batch, Noise(z, eps)).images
        return self.painted

    def on_validation_start(self) -> None:
        self._begin("val")

    def on_test_start(self) -> None:
        self._begin("test")

    def on_predict_start(self) -> None:
        self._show_average()

    def _begin(self, stage: str) -> None:
        self._show_average()
        self.scores.begin(self, self.trainer.datamodule, stage)  # type: ignore[attr-defined]

    def validation_step(self, batch: SynthesisBatch, batch_idx: int) -> dict[str, list[bool | None]]:
        return self._evaluate(batch)

    def test_step(self, batch: SynthesisBatch, batch_idx: int) -> dict[str, list[bool | None]]:
        return self._evaluate(batch)

    def _evaluate(self, batch: SynthesisBatch) -> dict[str, list[bool | None]]:
        """Returns as `verdicts` whether what a caption names first of all has its colour."""
        if not len(batch):
            return {}
        made = self.paint(batch)[-1]
        return {"verdicts": self.scores.update(made, self.image(made).image, self.read(batch).sentence, batch)}

    def on_validation_epoch_end(self) -> None:
        self._hide_average()
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._hide_average()
        self._score("test")

    def _score(self, stage: str) -> None:
        for name, value in self.scores.finish().items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "fid")

    def _show_average(self) -> None:
        if self.average is not None:
            self.average.show()

    def _hide_average(self) -> None:
        if self.average is not None:
            self.average.hide()

    # Predicting.

    def predict_step(self, batch: SynthesisBatch, batch_idx: int) -> list[dict[str, Any]]:
        if not len(batch):
            return []
        self.paint(batch)
        rows = [
            {"sample": name, "caption": " ".join(words)}
            for name, words in zip(batch.sample_id, batch.words, strict=True)
        ]
        self._predicted += zip(batch.caption_id.tolist(), rows, strict=True)
        return rows

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per caption."""
        self._hide_average()
        write_predictions(self.trainer, self._predicted)
        self._predicted = []

    # What a checkpoint holds besides the weights.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        keep_words(checkpoint, self._trainer)
        if self.average is not None:
            self.average.save(checkpoint, GENERATOR)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        check_words(checkpoint, self._trainer)
        self.average = None
        self._restored = True
        if self._trainer is not None and self._trainer.state.fn == "fit" and KEY in checkpoint:
            self.average = WeightAverage(self.generator, self.decay)
            self.average.load(checkpoint, GENERATOR)


def shrunk(image: Float[Tensor, "b 3 y x"], sides: Sequence[int]) -> list[Float[Tensor, "b 3 _ _"]]:
    """A picture at every side, as the published code resizes: bilinear, over all pixels that a smaller one covers."""
    if image.shape[-1] != sides[-1]:
        raise UserError(
            f"The pictures of the data have side {image.shape[-1]}, but the model paints {sides[-1]}: "
            "set data.side and the last of model.sides alike."
        )
    return [
        image if side == sides[-1] else F.interpolate(image, (side, side), mode="bilinear", antialias=True)
        for side in sides
    ]


def _uncounted() -> None:
    """In place of Lightning's count of optimizer steps."""
