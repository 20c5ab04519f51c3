"""Where do logged numbers go? `metrics.csv`: one row per step, one column per metric, complete after every checkpoint.

A resumed run forgets the rows after its checkpoint and writes them again, so the file of a killed and resumed run is
that of a run that was never killed. Numbers are written in full precision.
"""

import csv
import io
import math
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.utilities.logger import _convert_params
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from lit_attn.files import write_text

FLUSH_SECONDS = 10.0


class MetricsCsv(Logger):
    """Lightning logger for one run folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.path = folder / "metrics.csv"
        self.rows: dict[int, dict[str, float]] = {}
        self.hparams: dict[str, Any] = {}
        self._flushed = 0.0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def version(self) -> str:
        return ""

    @property
    def log_dir(self) -> str:
        return str(self.folder)

    @property
    def save_dir(self) -> str:
        return str(self.folder)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        self.hparams |= _convert_params(params)

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.setdefault(step or 0, {}).update({name: float(value) for name, value in metrics.items()})
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.save()

    @rank_zero_only
    def save(self) -> None:
        names = sorted({name for row in self.rows.values() for name in row} - {"epoch"})
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["epoch", "step", *names])
        for step, row in sorted(self.rows.items()):
            epoch = int(row["epoch"]) if "epoch" in row else ""
            writer.writerow([epoch, step, *(_cell(row.get(name)) for name in names)])
        write_text(self.path, text.getvalue())
        self._flushed = time.monotonic()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self.rows:
            self.save()

    def restore(self, last_step: int) -> None:
        """Take up the rows of an earlier part of this run, up to a step."""
        if not self.path.exists():
            return
        with self.path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                step = int(row.pop("step"))
                if step <= last_step:
                    self.rows[step] = {name: float(value) for name, value in row.items() if value}


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return "nan" if math.isnan(value) else repr(value)


class KeepMetrics(L.Callback):
    """Makes `metrics.csv` part of the state that a resume restores."""

    def __init__(self, logger: MetricsCsv) -> None:
        self.logger = logger
        self._in_step = False

    def on_train_batch_start(self, trainer: L.Trainer, *rest: Any) -> None:
        self._in_step = True

    def on_validation_start(self, trainer: L.Trainer, *rest: Any) -> None:
        self._in_step = False

    def on_train_epoch_end(self, trainer: L.Trainer, *rest: Any) -> None:
        self._in_step = False

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        pending = {}
        if self._in_step and (step + 1) % getattr(trainer, "log_every_n_steps", 50) == 0:
            # Lightning logs a step after the callbacks that save it have run, so that row travels in the checkpoint.
            logged = trainer.logged_metrics.items()
            pending = {name: float(value) for name, value in logged if name.startswith("train/")}
        checkpoint["metrics"] = {"step": step, "pending": pending, "epoch": trainer.current_epoch}
        self.logger.save()

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        state = checkpoint.get("metrics")
        if state is None or trainer.state.fn != "fit":
            return
        self.logger.restore(state["step"])
        if state["pending"]:
            self.logger.log_metrics(state["pending"] | {"epoch": state["epoch"]}, state["step"])
