"""In which order do samples come, and how does a killed run find its place again?

`TrainLoader` yields the batches of one epoch after the other. Their order depends on (seed, epoch) only, and its state
is the epoch and the number of batches handed out, so a resumed run continues with the very next batch, whatever the
number of workers. `EvalLoader` goes through a data set once, in order, and has no state. Over several processes,
training shards have equal length (a few samples of an epoch are left out, others each time), evaluation shards together
hold every sample exactly once. Where the lengths of samples are known, samples of like length come together, so that little is
padding; which ones, and in which order their batches come, is still chance.

torchdata's StatefulDataLoader does a similar service, but Lightning starts a restored loader before it tells samplers
the epoch; this one knows its epoch itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset

from lit_attn.errors import UserError

POOL = 50
"""So many batches are drawn by chance before samples of like length are put together within them."""


@dataclass(frozen=True)
class Loading:
    """How samples are fetched, and which share of them this process gets."""

    dataset: Dataset[Any]
    batch_size: int
    collate: Callable[[Sequence[Any]], Any]
    num_workers: int = 0
    rank: int = 0
    world_size: int = 1
    lengths: Sequence[int] | None = None
    """Of the samples: those of like length share a batch in training."""

    @property
    def size(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def split(self, order: Sequence[int]) -> list[list[int]]:
        """Batches of this process's share of the samples, the last one perhaps short."""
        mine = order[self.rank :: self.world_size]
        return [list(mine[i : i + self.batch_size]) for i in range(0, len(mine), self.batch_size)]

    def fetch(self, batches: list[list[int]]) -> DataLoader[Any]:
        return DataLoader(
            self.dataset,
            batch_sampler=batches,
            collate_fn=self.collate,
            num_workers=self.num_workers,
            # Its own generator: seeds of workers must not come from the stream that drives dropout.
            generator=torch.Generator().manual_seed(0),
        )


def told_briefly(loader: DataLoader[Any]) -> Iterator[Any]:
    """The batches of a loader. What a user did wrong is told as such, without the traceback that a worker puts around it."""
    try:
        yield from loader
    except UserError as error:
        _, _, told = str(error).rpartition(f"{UserError.__module__}.{UserError.__qualname__}: ")
        raise UserError(told.strip()) from error


class EvalLoader:
    """Every sample once, in order. A process without any gets one empty batch: Lightning would leave it behind else."""

    def __init__(self, loading: Loading) -> None:
        self.loading = loading
        self.batches = loading.split(range(loading.size))

    def __len__(self) -> int:
        return max(1, len(self.batches))

    def __iter__(self) -> Iterator[Any]:
        if not self.batches:
            return iter([self.loading.collate([self.loading.dataset[0]]).emptied()])
        return told_briefly(self.loading.fetch(self.batches))


class TrainLoader:
    """Full batches in a new order every epoch, resumable between any two of them."""

    def __init__(self, loading: Loading, seed: int) -> None:
        self.loading = loading
        self.seed = seed
        self._epoch = 0
        self._done = 0
        self._running = False

    def __len__(self) -> int:
        return self.loading.size // self.loading.world_size // self.loading.batch_size

    def batches(self, epoch: int) -> list[list[int]]:
        """The sample indices of every batch of this process in one epoch."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(self.loading.size, generator=generator).tolist()
        # Equal shares keep processes in step: a rank with one more batch would wait for the others forever.
        order = order[: len(self) * self.loading.batch_size * self.loading.world_size]
        lengths = self.loading.lengths
        if lengths is None:
            return self.loading.split(order)
        pool = POOL * self.loading.batch_size * self.loading.world_size
        pools = (order[i : i + pool] for i in range(0, len(order), pool))
        found = self.loading.split([sample for part in pools for sample in sorted(part, key=lengths.__getitem__)])
        return [found[i] for i in torch.randperm(len(found), generator=generator).tolist()]

    def __iter__(self) -> Iterator[Any]:
        """Goes on where the state says; otherwise begins the next epoch. Iterators that nobody asked for a batch do not count:
        Lightning makes one when it measures the length of a run."""
        finished = self._done >= len(self) or (self._running and self._done > 0)
        if finished:
            self._epoch, self._done, self._running = self._epoch + 1, 0, False
        return self._counted(self.loading.fetch(self.batches(self._epoch)[self._done :]))

    def _counted(self, loader: DataLoader[Any]) -> Iterator[Any]:
        for batch in told_briefly(loader):
            self._done += 1
            self._running = True
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._epoch, self._done, self._running = state["epoch"], state["done"], False


class ResumableData(L.LightningDataModule):
    """A data module whose training loader finds its place again after a resume.

    Lightning restores a loader itself, but not after a checkpoint at the end of an epoch; data modules it always restores.
    """

    def __init__(self) -> None:
        super().__init__()
        self._train_loader: TrainLoader | None = None
        self._place: dict[str, int] | None = None

    def __str__(self) -> str:
        """Lightning would count the batches of all loaders, and loads one to do so."""
        return type(self).__name__

    def shuffled(self, loading: Loading, seed: int) -> TrainLoader:
        """The training loader, at the restored place if there is one."""
        self._train_loader = TrainLoader(loading, seed)
        if self._place is not None:
            self._train_loader.load_state_dict(self._place)
            self._place = None
        return self._train_loader

    def state_dict(self) -> dict[str, Any]:
        return {} if self._train_loader is None else {"place": self._train_loader.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._place = state_dict.get("place")
