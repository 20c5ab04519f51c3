"""When is a checkpoint written? Often enough to lose little, only where a resumed run goes on to the bit.

`last.ckpt` is written every `every_steps` steps, one step before each validation, and after each epoch; `best.ckpt`
after a validation that improves `monitor`. Never between the last step before a validation and its end: Lightning would
skip that validation on resume. SIGTERM writes `last.ckpt` at the next step and ends the process with code 143; during a
validation it leaves at once, since the checkpoint from just before it is there.
"""

import math
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint

from lit_attn.errors import UserError, did_you_mean
from lit_attn.run.folder import BEST, LAST

TERMINATED = 143


class Checkpoints(Checkpoint):
    """Keeps `last.ckpt` and `best.ckpt` of a run folder."""

    def __init__(self, folder: Path, monitor: str | None, mode: str, every_steps: int) -> None:
        super().__init__()
        self.folder = folder
        self.monitor = monitor
        self.mode = mode
        self.every_steps = every_steps
        self.best = -math.inf if mode == "max" else math.inf
        self._terminated = False
        self._old_handler: Any = None

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "monitor": self.monitor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["monitor"] == self.monitor:
            self.best = state["best"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        lightning = trainer._signal_connector
        self._old_handler = signal.signal(signal.SIGTERM, self._on_sigterm)
        # Lightning's own handler was there until now; it would leave after a step, without a checkpoint.
        if lightning.received_sigterm:
            self._terminated, lightning.received_sigterm = True, False

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        # After a run that ended well Lightning has put back what was there before it: its own handler must not return.
        if self._old_handler is not None and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, self._old_handler)
        self._old_handler = None

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._validates_after(trainer, batch_idx):
            return
        stop = self._should_stop(trainer)
        due = trainer.global_step % self.every_steps == 0 or self._validates_after(trainer, batch_idx + 1)
        if due or stop:
            self._save(trainer, LAST)
        if stop:
            raise SystemExit(TERMINATED)

    def on_validation_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *rest: Any) -> None:
        # Shards may differ in length, so processes cannot ask each other here: alone, or not at all.
        if self._terminated and trainer.world_size == 1:
            raise SystemExit(TERMINATED)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking or self.monitor is None:
            return
        value = trainer.callback_metrics.get(self.monitor)
        if value is None:
            known = sorted(trainer.callback_metrics)
            raise UserError(
                f"monitor {self.monitor!r} was not logged.{did_you_mean(self.monitor, known)} Logged: {', '.join(known)}."
            )
        better = value > self.best if self.mode == "max" else value < self.best
        if better:
            self.best = float(value)
            self._save(trainer, BEST)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._save(trainer, LAST)
        if self._should_stop(trainer):
            raise SystemExit(TERMINATED)

    def _should_stop(self, trainer: L.Trainer) -> bool:
        """Whether any process was told to end: all must leave at the same step."""
        return bool(trainer.strategy.reduce_boolean_decision(self._terminated, all=False))

    @staticmethod
    def _validates_after(trainer: L.Trainer, batch_idx: int) -> bool:
        """Whether the epoch ends, or a validation begins, after this batch."""
        every = trainer.val_check_batch
        validates = isinstance(every, int) and (batch_idx + 1) % every == 0
        return validates or batch_idx + 1 >= trainer.num_training_batches

    def _save(self, trainer: L.Trainer, name: str) -> None:
        trainer.save_checkpoint(self.folder / name)
