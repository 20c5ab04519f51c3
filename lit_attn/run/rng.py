"""How does randomness go on after a resume as if nothing had happened?

The states of Python's, numpy's and torch's generators of every process go into the checkpoint, and come back right
before the first step after a resume, when nothing else is going to draw from them.
"""

import random
from typing import Any, cast

import lightning as L
import numpy as np
import torch


def rng_state() -> dict[str, Any]:
    """Plain numbers and tensors, so that checkpoints load without unpickling objects."""
    name, keys, position, has_gauss, cached = cast("tuple[str, np.ndarray, int, int, float]", np.random.get_state())
    version, internal, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [str(name), torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "python": [version, list(internal), gauss],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))


class RandomState(L.Callback):
    """Saves and restores all generators of all processes."""

    def __init__(self) -> None:
        self._restore: dict[str, Any] | None = None

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        states: list[Any] = [rng_state()]
        if trainer.world_size > 1:
            states = [None] * trainer.world_size
            torch.distributed.all_gather_object(states, rng_state())
        checkpoint["rng"] = states

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        states = checkpoint.get("rng", [])
        self._restore = states[trainer.global_rank] if trainer.global_rank < len(states) else None

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._restore is not None:
            set_rng_state(self._restore)
            self._restore = None
