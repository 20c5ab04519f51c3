"""What does a run say of itself? Keeps `run.json` up to date, and puts the configuration into every checkpoint."""

import time
from pathlib import Path
from typing import Any

import lightning as L

from lit_attn.run.checkpoints import TERMINATED
from lit_attn.run.folder import RunInfo, now

YARDSTICKS = ("/ceiling_", "/rival_", "/majority_")
"""In the names of scores that need no model."""


class RunRecord(L.Callback):
    """Status, size and equivalence class of the model, and facts such as scores that need no model."""

    def __init__(self, folder: Path, info: RunInfo, config: str) -> None:
        self.folder = folder
        self.info = info
        self.config = config
        self._since = time.monotonic()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.info.parameters = sum(p.numel() for p in pl_module.parameters())
        net = getattr(pl_module, "net", None)
        if net is not None and hasattr(net, "describe"):
            self.info.equivalence = net.describe().equivalence
        self._write(trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["config"] = self.config
        checkpoint["task"] = f"{type(pl_module).__module__}.{type(pl_module).__qualname__}"

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for name, value in trainer.callback_metrics.items():
            if any(mark in name for mark in YARDSTICKS):
                self.info.facts[name] = float(value)
        if self.info.status == "running":
            self.info.status = "done"
        self.info.finished = now()
        self._write(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        terminated = isinstance(exception, SystemExit) and exception.code == TERMINATED
        interrupted = isinstance(exception, KeyboardInterrupt)
        self.info.status = "terminated" if terminated or interrupted else "failed"
        self.info.finished = now()
        self._write(trainer)

    def _write(self, trainer: L.Trainer) -> None:
        if trainer.is_global_zero:
            self.info.write(self.folder)
