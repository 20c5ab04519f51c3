"""What does a person see while and after it runs? Plain lines in a log, and a table of scores at the end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import lightning as L
from rich.console import Console
from rich.table import Table

SECONDS_BETWEEN_LINES = 15.0


class PlainProgress(L.Callback):
    """A line now and then, for output that is not a terminal."""

    def __init__(self, monitor: str | None) -> None:
        self.shown = [name for name in (monitor, "val/loss") if name]
        self._console = Console(highlight=False, soft_wrap=True)
        self._begun = time.monotonic()
        self._last = 0.0
        self._evaluated = 0.0

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self._last < SECONDS_BETWEEN_LINES or not trainer.is_global_zero:
            return
        self._last = time.monotonic()
        loss = trainer.callback_metrics.get("train/loss")
        shown = f" loss {float(loss):.4f}" if loss is not None else ""
        self._say(trainer, f"batch {batch_idx + 1}/{trainer.num_training_batches}{shown}")

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._evaluated = time.monotonic()

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._evaluated = time.monotonic()

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int, *rest: Any
    ) -> None:
        self._count(trainer, "validation", batch_idx + 1, trainer.num_val_batches)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int, *rest: Any
    ) -> None:
        self._count(trainer, "test", batch_idx + 1, trainer.num_test_batches)

    def _count(self, trainer: L.Trainer, stage: str, done: int, batches: Sequence[int | float]) -> None:
        """Writing and parsing texts may take minutes, in which nothing else is said."""
        if time.monotonic() - self._evaluated >= SECONDS_BETWEEN_LINES and trainer.is_global_zero:
            self._evaluated = time.monotonic()
            self._console.print(
                f"[{self._evaluated - self._begun:6.0f} s] {stage} batch {done}/{sum(batches)}", markup=False
            )

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking and trainer.is_global_zero:
            known = trainer.callback_metrics
            scores = [f"{name} {float(known[name]):.4g}" for name in self.shown if name in known]
            self._say(trainer, "validated " + " ".join(scores))

    def _say(self, trainer: L.Trainer, text: str) -> None:
        seconds = time.monotonic() - self._begun
        self._console.print(
            f"[{seconds:6.0f} s] epoch {trainer.current_epoch + 1}/{trainer.max_epochs} {text}", markup=False
        )


def print_scores(title: str, metrics: Mapping[str, Any]) -> None:
    """A table of the task's scores, then of attention."""
    table = Table(title=title, header_style="bold")
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in sorted(metrics.items(), key=lambda item: ("attention" in item[0], item[0])):
        if not name.startswith("train/"):
            table.add_row(name, f"{float(value):.4f}")
    Console().print(table)
