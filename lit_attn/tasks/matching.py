"""How is picture-caption matching trained and scored? Hinge loss with hardest negatives; recall over the whole set."""

import json
from pathlib import Path
from typing import Any, ClassVar

import lightning as L
import numpy as np
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.metrics.gather import gathered
from lit_attn.metrics.retrieval import Bank, EmbeddingBank
from lit_attn.models.scan import Direction, NormalizerName, Pooling, Scan
from lit_attn.ops.loss import matching_hinge
from lit_attn.ops.retrieval import fold_scores, retrieval_scores
from lit_attn.tasks.predictions import sees_all
from lit_attn.tasks.rank_files import write_ranks
from lit_attn.types import CaptionBatch

PICTURES_AT_ONCE, CAPTIONS_AT_ONCE = 500, 5000
"""Size of the blocks in which a set is scored; bounds the memory of transformed embeddings."""
BEST_SHOWN = 5
"""Captions and pictures that `predict` lists."""


class Matching(L.LightningModule):
    """SCAN as a LightningModule.

    Args:
        vocab_size: Taken from the data when a recipe runs.
        region_dim: Likewise.
        alignment: cosine, dot, scaled_dot, general_query, general_key, biased_query, biased_key, activated, or the
            import path of a subclass of lit_attn.nn.alignment.Alignment.
        direction: Who asks: words ask regions, or regions ask words.
        temperature, sharpness: λ and μ of the paper.
        hardest: Only the hardest negative of each row and column counts.
        warmup_steps: All negatives count in the first so many steps. With the hardest alone, a fresh network tends to
            rest where everything is equally similar and the loss is twice the margin.
        lr, lr_step, lr_gamma: Adam's rate, multiplied by lr_gamma after every lr_step epochs.
        folds: At test time, also the mean over so many consecutive blocks of pictures (COCO 1K: 5 on `testall`).
        paper_layout_bug: Reproduce the published study's error (see the model).
    """

    free_in_evaluation: ClassVar = frozenset(
        {"margin", "hardest", "warmup_steps", "lr", "lr_step", "lr_gamma", "folds"}
    )
    """Settings that may differ from those of a checkpoint that is evaluated."""

    def __init__(
        self,
        vocab_size: int,
        region_dim: int,
        alignment: str = "cosine",
        direction: Direction = "text_to_image",
        normalizer: NormalizerName = "clipped_l2norm",
        temperature: float = 9.0,
        pooling: Pooling = "mean",
        sharpness: float = 6.0,
        dim: int = 1024,
        word_dim: int = 300,
        margin: float = 0.2,
        hardest: bool = True,
        warmup_steps: int = 0,
        lr: float = 2e-4,
        lr_step: int = 15,
        lr_gamma: float = 0.1,
        folds: int = 0,
        paper_layout_bug: bool = False,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = Scan(
            vocab_size=vocab_size,
            region_dim=region_dim,
            dim=dim,
            word_dim=word_dim,
            alignment=alignment,
            direction=direction,
            normalizer=normalizer,
            temperature=temperature,
            pooling=pooling,
            sharpness=sharpness,
            paper_layout_bug=paper_layout_bug,
        )
        self.margin, self.hardest, self.warmup_steps = margin, hardest, warmup_steps
        self.lr, self.lr_step, self.lr_gamma = lr, lr_step, lr_gamma
        self.folds = folds
        self.bank = EmbeddingBank()
        self._named: list[tuple[int, str]] = []

    def forward(self, batch: CaptionBatch) -> Tensor:
        """Similarity of every picture with every caption of the batch: b c."""
        scores: Tensor = self.net(batch.regions, batch.region_mask, batch.tokens, batch.token_mask, batch.owner)
        return scores

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, self.lr_step, self.lr_gamma)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}

    def training_step(self, batch: CaptionBatch, batch_idx: int) -> Tensor:
        hardest = self.hardest and self.global_step >= self.warmup_steps
        loss = matching_hinge(self(batch), self.margin, hardest)
        self.log("train/loss", loss / len(batch.image_id), prog_bar=True)
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    def validation_step(self, batch: CaptionBatch, batch_idx: int) -> None:
        self._remember(batch)

    def test_step(self, batch: CaptionBatch, batch_idx: int) -> None:
        self._remember(batch)

    def predict_step(self, batch: CaptionBatch, batch_idx: int) -> None:
        self._remember(batch)
        self._named += zip(batch.caption_id.tolist(), batch.sample_id, strict=True)

    def _remember(self, batch: CaptionBatch) -> None:
        if not len(batch):
            return
        pictures, words = self.net.embed(batch.regions, batch.region_mask, batch.tokens, batch.token_mask, batch.owner)
        self.bank.update(batch.image_id, pictures, batch.region_mask, batch.caption_id, words, batch.token_mask)

    def on_validation_epoch_start(self) -> None:
        self._open_bank()

    def on_test_epoch_start(self) -> None:
        self._open_bank()

    def on_predict_epoch_start(self) -> None:
        self._open_bank()

    def _open_bank(self) -> None:
        """An empty batch, so that a process without any sample still knows the shapes when all of them gather."""
        none = torch.zeros(0, dtype=torch.long, device=self.device)
        vectors = torch.zeros(0, 1, self.hparams["dim"], device=self.device, dtype=next(self.parameters()).dtype)
        self.bank.update(none, vectors, vectors[..., 0].bool(), none, vectors, vectors[..., 0].bool())

    def on_validation_epoch_end(self) -> None:
        self._score("val")

    def on_test_epoch_end(self) -> None:
        self._score("test")

    def _score(self, stage: str) -> None:
        similarity, captions, pictures = self._similarity()
        scores = retrieval_scores(similarity, captions)
        if stage == "test" and self.folds:
            folded = fold_scores(similarity, self.folds, captions)
            scores |= {f"fold{self.folds}/{name}": value for name, value in folded.items()}
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and sees_all(self.trainer, stage):
            scores |= data.reference_scores(stage)
        if (
            data is not None
            and hasattr(data, "breakdown_facts")
            and self.trainer.is_global_zero
            and not self.trainer.sanity_checking
        ):
            step = self.trainer.fit_loop.epoch_loop._batches_that_stepped
            path = Path(self.trainer.default_root_dir) / "retrieval" / f"{stage}-{step:08d}.csv"
            write_ranks(path, similarity, captions, {i: data.breakdown_facts(stage, i) for i in pictures})
        for name, value in scores.items():
            self.log(f"{stage}/{name}", torch.tensor(value, dtype=torch.float64), prog_bar=name == "rsum")

    def _similarity(self) -> tuple[np.ndarray, int, list[int]]:
        """Similarities of the whole set, pictures by captions, the captions per picture, and the pictures' ids."""
        bank = self.bank.compute()
        self.bank.reset()
        pictures, captions = len(bank.regions), len(bank.lengths)
        if captions % pictures:
            raise UserError(f"{captions} captions for {pictures} pictures: every picture needs equally many.")
        mine = self._share(pictures)
        block = score_bank(self.net, bank, mine)
        if self.trainer.world_size > 1:
            whole = block.new_zeros(pictures, captions)
            whole[mine] = block
            block = self.trainer.strategy.reduce(whole, reduce_op="sum")
        return block.double().cpu().numpy(), captions // pictures, bank.image_id.tolist()

    def _share(self, pictures: int) -> range:
        """The pictures that this process scores."""
        return range(self.trainer.global_rank, pictures, self.trainer.world_size)

    def on_predict_epoch_end(self) -> None:
        """Writes `predictions.jsonl`: the best captions of every picture, the best pictures of every caption."""
        similarity, _, _ = self._similarity()
        names = [name for _, name in sorted(gathered(self._named))]
        self._named.clear()
        if not self.trainer.is_global_zero:
            return
        path = Path(self.trainer.default_root_dir) / "predictions.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for picture, row in enumerate(similarity):
                best = np.argsort(-row, kind="stable")[:BEST_SHOWN]
                found = [{"caption": names[c], "similarity": float(row[c])} for c in best]
                file.write(json.dumps({"picture": picture, "captions": found}) + "\n")
            for caption, column in enumerate(similarity.T):
                best = np.argsort(-column, kind="stable")[:BEST_SHOWN]
                found = [{"picture": int(p), "similarity": float(column[p])} for p in best]
                file.write(json.dumps({"caption": names[caption], "pictures": found}) + "\n")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        data = getattr(self.trainer, "datamodule", None)
        if data is not None:
            checkpoint["vocabulary"] = data.vocabulary.fingerprint

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trainer = self._trainer
        data = None if trainer is None else getattr(trainer, "datamodule", None)
        known = checkpoint.get("vocabulary")
        if data is not None and known is not None and data.vocabulary.fingerprint != known:
            raise UserError(
                "The vocabulary of the data is not the one this checkpoint was trained with "
                f"({len(data.vocabulary)} words now, {self.net.text_encoder.embed.num_embeddings} in the model). "
                "Pass the original vocabulary file, or train anew."
            )


@torch.no_grad()
def score_bank(net: Scan, bank: Bank, pictures: range) -> Tensor:
    """Similarities of some pictures with all captions of a bank, in blocks of bounded memory."""
    starts = bank.lengths.cumsum(0) - bank.lengths
    chosen = torch.tensor(list(pictures), device=bank.regions.device, dtype=torch.long)
    scores = bank.regions.new_empty(len(chosen), len(bank.lengths))
    for first in range(0, len(bank.lengths), CAPTIONS_AT_ONCE):
        lengths = bank.lengths[first : first + CAPTIONS_AT_ONCE]
        start = int(starts[first])
        words = bank.words[start : start + int(lengths.sum())]
        for top in range(0, len(chosen), PICTURES_AT_ONCE):
            rows = chosen[top : top + PICTURES_AT_ONCE]
            block = net.matcher(words, lengths, bank.regions[rows], bank.region_mask[rows])
            scores[top : top + PICTURES_AT_ONCE, first : first + CAPTIONS_AT_ONCE] = block
    return scores
