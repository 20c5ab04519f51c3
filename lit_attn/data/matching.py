"""How do pictures and their captions become batches? Shared by every data set that SCAN can train on."""

from abc import ABC, abstractmethod

from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.loader import EvalLoader, Loading, ResumableData, TrainLoader
from lit_attn.data.pictures import Caption, Picture, collate
from lit_attn.data.vocab import Vocabulary
from lit_attn.errors import UserError


class MatchingSource(ABC):
    """Pictures with captions: `captions_per_picture` of them each, in order."""

    num_pictures: int
    captions_per_picture: int
    region_dim: int

    @abstractmethod
    def picture(self, index: int) -> Picture: ...

    @abstractmethod
    def caption(self, index: int) -> Caption:
        """Caption `index` belongs to picture `index // captions_per_picture`."""


class PairDataset(Dataset[tuple[Picture, list[Caption]]]):
    """For training: one sample per caption, with its picture."""

    def __init__(self, source: MatchingSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.num_pictures * self.source.captions_per_picture

    def __getitem__(self, index: int) -> tuple[Picture, list[Caption]]:
        return self.source.picture(index // self.source.captions_per_picture), [self.source.caption(index)]


class PictureDataset(Dataset[tuple[Picture, list[Caption]]]):
    """For evaluation: one sample per picture, with all its captions."""

    def __init__(self, source: MatchingSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.num_pictures

    def __getitem__(self, index: int) -> tuple[Picture, list[Caption]]:
        each = self.source.captions_per_picture
        return self.source.picture(index), [self.source.caption(index * each + i) for i in range(each)]


class MatchingData(ResumableData, ABC):
    """Loaders over a source per split. Data sets say how to open a split and which vocabulary they use."""

    def __init__(self, batch_size: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
        super().__init__()
        for name, value in (("batch_size", batch_size), ("eval_batch_size", eval_batch_size)):
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.num_workers = num_workers
        self.seed = seed
        self._sources: dict[str, MatchingSource] = {}

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def region_dim(self) -> int: ...

    @abstractmethod
    def open_split(self, split: str) -> MatchingSource: ...

    @abstractmethod
    def split_name(self, stage: str) -> str:
        """The split behind `train`, `val`, `test` or `predict`."""

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        """The picture itself, where the data set has it."""
        return None

    def reference_scores(self, stage: str) -> dict[str, float]:
        """Scores known without any model, such as those of an oracle; logged beside the model's."""
        return {}

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def source(self, stage: str) -> MatchingSource:
        split = self.split_name(stage)
        if split not in self._sources:
            self._sources[split] = self.open_split(split)
        return self._sources[split]

    def train_dataloader(self) -> TrainLoader:
        loading = self._loading(PairDataset(self.source("train")), self.batch_size)
        if loading.size // loading.world_size < self.batch_size:
            raise UserError(
                f"data.batch_size is {self.batch_size}, but a process has only {loading.size // loading.world_size} "
                f"training captions. Lower the batch size."
            )
        return self.shuffled(loading, self.seed)

    def val_dataloader(self) -> EvalLoader:
        return self._eval_loader("val")

    def test_dataloader(self) -> EvalLoader:
        return self._eval_loader("test")

    def predict_dataloader(self) -> EvalLoader:
        return self._eval_loader("predict")

    def _eval_loader(self, stage: str) -> EvalLoader:
        return EvalLoader(self._loading(PictureDataset(self.source(stage)), self.eval_batch_size))

    def _loading(self, dataset: Dataset[tuple[Picture, list[Caption]]], batch_size: int) -> Loading:
        trainer = self.trainer
        rank, world_size = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        return Loading(dataset, batch_size, collate, self.num_workers, rank, world_size)
