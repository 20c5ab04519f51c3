"""How is a captioner trained and scored? Cross-entropy with the Noam schedule, or self-critical with a CIDEr-D reward.

Self-critical training (Rennie et al. 2017) starts from weights of cross-entropy training (`--from_weights`). One caption
is drawn per caption in the batch, in training mode; the greedy caption of each picture, in evaluation mode, is the
baseline. Rewards see END, or captions learn to stop in the middle.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.decode import BAD_ENDINGS, Rules, beam_search, greedy, sample
from lit_attn.errors import UserError
from lit_attn.metrics import java
from lit_attn.metrics.captions import Captioned, CaptionScores
from lit_attn.metrics.mean import WeightedMean
from lit_attn.models.captioner import BatchNormPlace, Captioner, Capture, DecoderState, Geometry
from lit_attn.nn.tape import silence
from lit_attn.nn.transformer import NormName
from lit_attn.ops.cider import CiderD, DocumentFrequencies, with_end
from lit_attn.ops.loss import next_word_loss, reward_loss
from lit_attn.ops.schedule import noam
from lit_attn.tasks.predictions import sees_all, write_predictions
from lit_attn.types import CaptionBatch
from lit_attn.vocabulary import END, CaptionWords

Objective = Literal["cross_entropy", "self_critical"]


class Captioning(L.LightningModule):
    """The object-relation transformer as a LightningModule, for captions and paragraphs.

    Args:
        vocab_size: Taken from the data when a recipe runs.
        region_dim: Likewise.
        alignment: cosine, dot, scaled_dot, general_query, general_key, biased_query, biased_key, activated, or the
            import path of a subclass of lit_attn.nn.alignment.Alignment. `encoder_alignment`, `decoder_alignment` and
            `cross_alignment` override it for one kind of site.
        hidden: Width of the feed-forward blocks.
        region_dropout: On projected regions; `dropout` is everywhere else.
        norm: `unbiased` is the published layer norm.
        legacy_extra_skip: See the model; the released self-critical weights need it.
        capture: `raw_residual` adds sites `raw.…`: attention as the published probing code captured it.
        objective: `self_critical` is for weights that were trained with cross-entropy before.
        warmup, noam_factor: Of the Noam schedule (cross-entropy).
        smoothing: Of labels.
        samples: Texts drawn per picture in self-critical training.
        lr, lr_decay, lr_decay_every: Adam's rate in self-critical training, multiplied after every so many epochs.
        max_words: Length limit when decoding.
        beam: Width of the beam search in `test` and `predict`; 1 is greedy.
        validation_beam: The same in validation.
        by_length: Rank beams by their score over their length.
        trigram_penalty: See lit_attn.decode.Rules; `inf` forbids that a trigram comes twice.
        keep_bad_endings: Otherwise no text ends after a word such as "the" or "of".
        keep_unknown: Otherwise the unknown word is never written.
        meteor, spice: In `test`, also these; they need Java and the extra `java`.
    """

    free_in_evaluation: ClassVar = frozenset(
        {
            "dropout", "region_dropout", "capture", "objective", "warmup", "noam_factor", "smoothing", "samples", "lr",
            "lr_decay", "lr_decay_every", "max_words", "beam", "validation_beam", "by_length", "trigram_penalty",
            "keep_bad_endings", "keep_unknown", "meteor", "spice",
        }
    )  # fmt: skip
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        region_dim: int,
        alignment: str = "scaled_dot",
        encoder_alignment: str | None = None,
        decoder_alignment: str | None = None,
        cross_alignment: str | None = None,
        dim: int = 512,
        num_heads: int = 8,
        hidden: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        dropout: float = 0.1,
        region_dropout: float = 0.5,
        norm: NormName = "unbiased",
        geometry: Geometry = "trigonometric",
        legacy_extra_skip: bool = False,
        batch_norm: BatchNormPlace = "none",
        capture: Capture = "used",
        objective: Objective = "cross_entropy",
        warmup: int = 10000,
        noam_factor: float = 1.0,
        smoothing: float = 0.0,
        samples: int = 5,
        lr: float = 5e-5,
        lr_decay: float = 0.8,
        lr_decay_every: int = 3,
        max_words: int = 16,
        beam: int = 5,
        validation_beam: int = 1,
        by_length: bool = False,
        trigram_penalty: float = 0.0,
        keep_bad_endings: bool = True,
        keep_unknown: bool = False,
        meteor: bool = False,
        spice: bool = False,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = Captioner(
            vocab_size=vocab_size,
            region_dim=region_dim,
            dim=dim,
            num_heads=num_heads,
            hidden=hidden,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            alignment=alignment,
            encoder_alignment=encoder_alignment,
            decoder_alignment=decoder_alignment,
            cross_alignment=cross_alignment,
            dropout=dropout,
            region_dropout=region_dropout,
            norm=norm,
            geometry=geometry,
            legacy_extra_skip=legacy_extra_skip,
            batch_norm=batch_norm,
            capture=capture,
        )
        self.objective = objective
        self.dim, self.warmup, self.noam_factor, self.smoothing = dim, warmup, noam_factor, smoothing
        self.samples = samples
        self.lr, self.lr_decay, self.lr_decay_every = lr, lr_decay, lr_decay_every
        self.max_words, self.beam, self.validation_beam, self.by_length = max_words, beam, validation_beam, by_length
        self.trigram_penalty = trigram_penalty
        self.keep_bad_endings, self.keep_unknown = keep_bad_endings, keep_unknown
        self.java = [score for score, wanted in ((java.meteor, meteor), (java.spice, spice)) if wanted]
        self.words: CaptionWords | None = None
        self.loss = WeightedMean()
        self.scores = CaptionScores()
        self._reward: CiderD | None = None
        self._predicted: list[tuple[int, dict[str, Any]]] = []

    def forward(self, batch: CaptionBatch) -> Tensor:
        """Log-probabilities of every next word of every caption: c t-1 v."""
        found: Tensor = self.net(batch.regions, batch.boxes, batch.region_mask, batch.tokens, batch.owner)
        return found

    def setup(self, stage: str) -> None:
        self.words = self.trainer.datamodule.vocabulary  # type: ignore[attr-defined]

    # Training.

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        if self.objective == "cross_entropy":
            optimizer = torch.optim.Adam(self.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
            by_step = torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda done: noam(done + 1, self.dim, self.warmup, self.noam_factor)
            )
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": by_step, "interval": "step"}}
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr, betas=(0.9, 0.999), eps=1e-8)
        by_epoch = torch.optim.lr_scheduler.StepLR(optimizer, self.lr_decay_every, self.lr_decay)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": by_epoch, "interval": "epoch"}}

    def training_step(self, batch: CaptionBatch, batch_idx: int) -> Tensor:
        loss = self._likelihood(batch) if self.objective == "cross_entropy" else self._self_critical(batch)
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    def _likelihood(self, batch: CaptionBatch, smoothing: float | None = None) -> Tensor:
        smoothing = self.smoothing if smoothing is None else smoothing
        return next_word_loss(self(batch), batch.tokens[:, 1:], batch.token_mask[:, 1:], smoothing)

    def _self_critical(self, batch: CaptionBatch) -> Tensor:
        self.net.eval()
        with torch.no_grad():
            baseline = greedy(self.net.step, self._start(batch), self._opening(batch), self.max_words)
        self.net.train()
        drawn = sample(self.net.step, self._start(batch), self._opening(batch, self.samples), self.max_words)
        gain = self._rewards(batch, drawn.tokens) - self._rewards(batch, baseline.tokens)  # b w
        self.log("train/reward_gain", gain.mean())
        reward = gain.flatten().unsqueeze(1).to(drawn.logprobs.dtype)
        return reward_loss(drawn.logprobs.flatten(0, 1), drawn.tokens.flatten(0, 1), reward)

    def _rewards(self, batch: CaptionBatch, tokens: Tensor) -> Tensor:
        """CIDEr-D of `w` texts per picture: b w."""
        references = [self._reference_ids(texts) for texts in batch.references for _ in range(tokens.shape[1])]
        hypotheses = [with_end(ids) for ids in tokens.flatten(0, 1).tolist()]
        scores = torch.from_numpy(self._scorer().scores(hypotheses, references))
        return scores.to(tokens.device).view(tokens.shape[:2])

    def _reference_ids(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """References as decoding could write them: cut, and with END where it fits."""
        return tuple((*self._encoded(text), END)[: self.max_words] for text in texts)

    def _encoded(self, text: str) -> list[int]:
        assert self.words is not None
        return self.words.encode(text.split())

    def _scorer(self) -> CiderD:
        """CIDEr-D with the document frequencies of the whole training captions and their ENDs, counted once."""
        if self._reward is None:
            texts = self.trainer.datamodule.training_references()  # type: ignore[attr-defined]
            counted = DocumentFrequencies.count([(*self._encoded(text), END) for text in own] for own in texts)
            self._reward = CiderD(counted)
        return self._reward

    # Decoding.

    def _start(self, batch: CaptionBatch) -> DecoderState:
        return self.net.start(batch.regions, batch.boxes, batch.region_mask)

    @staticmethod
    def _opening(batch: CaptionBatch, texts: int = 1) -> Tensor:
        """START for so many texts per picture."""
        return batch.image_id.new_full((len(batch.image_id), texts), END)

    def _rules(self) -> Rules:
        assert self.words is not None
        known = self.words.ids
        return Rules(
            unknown=None if self.keep_unknown else self.words.unknown,
            trigram_penalty=self.trigram_penalty,
            bad_endings=() if self.keep_bad_endings else tuple(known[w] for w in BAD_ENDINGS if w in known),
        )

    @torch.no_grad()
    def caption(self, batch: CaptionBatch, beam: int | None = None) -> tuple[Tensor, Tensor]:
        """The best text of every picture as ids `b t`, 0 after the end, and its score. Tapes do not hear the search."""
        width = self.beam if beam is None else beam
        start, rules = self._opening(batch), self._rules()
        with silence():
            state = self._start(batch)
            if width == 1:
                found = greedy(self.net.step, state, start, self.max_words, rules)
                return found.tokens[:, 0], found.logprobs[:, 0].sum(-1)
            beams = beam_search(self.net.step, state, start, width, self.max_words, rules, self.by_length)
        return beams.tokens[:, 0], beams.scores[:, 0]

    @torch.no_grad()
    def reread(self, batch: CaptionBatch, tokens: Tensor) -> Tensor:
        """One pass over texts that were decoded, `b t`: what a tape hears is the attention that wrote them."""
        opened = torch.nn.functional.pad(tokens, (1, 1))
        owner = torch.arange(len(tokens), device=tokens.device)
        found: Tensor = self.net(batch.regions, batch.boxes, batch.region_mask, opened, owner)
        return found

    # Validation.

    def validation_step(self, batch: CaptionBatch, batch_idx: int) -> dict[str, list[str]]:
        return self._evaluate(batch, self.validation_beam)

    def test_step(self, batch: CaptionBatch, batch_idx: int) -> dict[str, list[str]]:
        return self._evaluate(batch, self.beam)

    def _evaluate(self, batch: CaptionBatch, beam: int) -> dict[str, list[str]]:
        """Scores the gold captions by likelihood, where tapes hear, and what the model writes against them."""
        if not len(batch):
            return {}
        self.loss.update(self._likelihood(batch, smoothing=0.0), batch.token_mask[:, 1:].sum())
        texts = self._texts(self.caption(batch, beam)[0])
        self.scores.update(batch.image_id.tolist(), texts, batch.references)
        return {"texts": texts}

    def _texts(self, tokens: Tensor) -> list[str]:
        assert self.words is not None
        return [" ".join(self.words.decode(row)) for row in tokens.tolist()]

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        captions = self.scores.gather()
        scores = {"loss": float(self.loss.compute())} | self.scores.compute()
        self.loss.reset()
        self.scores.reset()
        if stage == "test" and self.java and captions:
            scores |= self._java_scores(captions)
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and sees_all(self.trainer, stage):
            scores |= data.reference_scores(stage)
            scores |= data.text_scores(stage, {one.picture_id: one.hypothesis for one in captions})
        for name, value in scores.items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "cider")

    def _java_scores(self, captions: Sequence[Captioned]) -> dict[str, float]:
        """METEOR and SPICE, computed by the first process for all."""
        found: dict[str, float] = {}
        if self.trainer.is_global_zero:
            texts, references = [one.hypothesis for one in captions], [one.references for one in captions]
            found = {score.__name__: score(texts, references).corpus for score in self.java}
        return self.trainer.strategy.broadcast(found)

    # Predicting.

    def predict_step(self, batch: CaptionBatch, batch_idx: int) -> list[dict[str, Any]]:
        """Captions, then one pass over them that tapes hear."""
        if not len(batch.image_id):
            return []
        tokens, scores = self.caption(batch)
        self.reread(batch, tokens)
        texts = self._texts(tokens)
        found = [
            {"picture": name, "caption": text, "score": score}
            for name, text, score in zip(batch.picture_name, texts, scores.tolist(), strict=True)
        ]
        self._predicted += zip(batch.image_id.tolist(), found, strict=True)
        return found

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: a line per picture."""
        write_predictions(self.trainer, self._predicted)
        self._predicted = []

    # Words travel with the weights.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.words is not None:
            checkpoint["words"] = list(self.words.words)
            checkpoint["vocabulary"] = self.words.fingerprint

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        known = checkpoint.get("vocabulary")
        if self.words is not None and known is not None and self.words.fingerprint != known:
            raise UserError(
                f"The vocabulary of the data ({len(self.words)} ids) is not the one this checkpoint was trained with "
                f"({len(checkpoint['words']) + 1} ids). Pass the original with --data.vocabulary, or train anew."
            )
