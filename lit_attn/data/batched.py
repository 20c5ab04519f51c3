"""How does a data set of samples become the loaders of Lightning's stages? Shared by every data module."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.loader import EvalLoader, Loading, ResumableData, TrainLoader
from lit_attn.errors import UserError


class BatchedData(ResumableData, ABC):
    """Data sets say what the samples of a stage are, and how several become a batch."""

    def __init__(self, batch_size: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
        super().__init__()
        for name, value in (("batch_size", batch_size), ("eval_batch_size", eval_batch_size)):
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.num_workers = num_workers
        self.seed = seed

    @abstractmethod
    def dataset(self, stage: str) -> Dataset[Any]:
        """The samples of `train`, `val`, `test` or `predict`."""

    @staticmethod
    @abstractmethod
    def collate(samples: Sequence[Any]) -> Any:
        """Samples to one frozen batch."""

    def lengths(self, dataset: Dataset[Any]) -> Sequence[int] | None:
        """Of the samples, where training shall put those of like length together."""
        return None

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        """The picture itself, where the data set has it."""
        return None

    def evaluated_stage(self) -> str | None:
        """The stage that the command at work evaluates; None without a trainer."""
        if self.trainer is None:
            return None
        fn = self.trainer.state.fn
        return "val" if fn is None or fn.value in ("fit", "validate") else str(fn.value)

    def reference_scores(self, stage: str) -> dict[str, float]:
        """Scores known without any model, such as those of an oracle; logged beside the model's."""
        return {}

    def train_dataloader(self) -> TrainLoader:
        loading = self._loading("train", self.batch_size)
        loading = replace(loading, lengths=self.lengths(loading.dataset))
        share = loading.size // loading.world_size
        if share < self.batch_size:
            raise UserError(
                f"data.batch_size is {self.batch_size}, but a process has only {share} training samples. "
                "Lower the batch size."
            )
        return self.shuffled(loading, self.seed)

    def val_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("val", self.eval_batch_size))

    def test_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("test", self.eval_batch_size))

    def predict_dataloader(self) -> EvalLoader:
        return EvalLoader(self._loading("predict", self.eval_batch_size))

    def _loading(self, stage: str, batch_size: int) -> Loading:
        trainer = self.trainer
        rank, world_size = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        return Loading(self.dataset(stage), batch_size, self.collate, self.num_workers, rank, world_size)
