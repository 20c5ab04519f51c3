"""How does W&B hear of a run without ever harming it?

Scalars, configuration, heat maps and tables of attention per validation. Offline without credentials or network. The run's id
lives in the checkpoint and in the run folder, so a resume continues the same W&B run. Whatever goes wrong in W&B is
reported once, and training goes on: `metrics.csv` has everything.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from lit_attn.run.heat_panels import draw_panels, head_panels, step_panels
from lit_attn.run.wandb_media import report_media

log = logging.getLogger(__name__)

PROJECT = "lit_attn"
ID_FILE = "wandb_id"


def has_credentials() -> bool:
    """Whether W&B could log in: a key in the environment, or one stored by `wandb login`."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        hosts = netrc().hosts
    except (OSError, NetrcParseError):
        return False
    return any("wandb" in host for host in hosts)


class SafeWandbLogger(WandbLogger):
    """WandbLogger that continues by id, goes offline by itself, and never raises."""

    def __init__(self, folder: Path, name: str, config: dict[str, Any]) -> None:
        mode = os.environ.get("WANDB_MODE")
        offline = mode == "offline" if mode else not has_credentials()
        known = folder / ID_FILE
        run_id = known.read_text().strip() if known.exists() else None
        super().__init__(
            name=name, save_dir=str(folder), project=os.environ.get("WANDB_PROJECT", PROJECT), id=run_id, offline=offline,
            resume="allow", config=config, settings=_settings(),
        )  # fmt: skip
        self.folder = folder
        self._broken = False

    @rank_zero_only
    def start(self) -> None:
        """Open the run; if W&B cannot be reached, offline."""
        if self._guard(lambda: self.experiment) is None and not self._offline:
            log.warning("W&B cannot be reached; this run is logged offline. Send it later with `wandb sync`.")
            self._broken, self._offline = False, True
            self._wandb_init["mode"] = "offline"
            self._guard(lambda: self.experiment)
        if not self._broken:
            (self.folder / ID_FILE).write_text(self.experiment.id)

    def _guard(self, action: Callable[[], Any]) -> Any:
        if self._broken:
            return None
        try:
            return action()
        except Exception as error:  # W&B may fail in any way; training must not
            self._broken = True
            log.warning("W&B failed (%s); training goes on without it, metrics.csv has everything.", error)
            return None

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self._guard(lambda: super(SafeWandbLogger, self).log_metrics(metrics, step))

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """The whole configuration was given at the start."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self._guard(lambda: super(SafeWandbLogger, self).finalize(status))

    @property
    def broken(self) -> bool:
        """Whether W&B has failed for good."""
        return self._broken

    @rank_zero_only
    def close(self, exit_code: int) -> None:
        self._guard(lambda: self.experiment.finish(exit_code=exit_code))

    @rank_zero_only
    def log_heads(self, stage: str, values: Sequence[Any], by_step: Sequence[Any], step: int) -> None:
        """A heat map and a table of sites and heads; where steps are told apart, of steps and kinds of question, too."""
        self._guard(lambda: self._log_heads(stage, values, by_step, step))

    @rank_zero_only
    def log_rows(self, stage: str, tables: Mapping[str, Sequence[Any]], step: int) -> None:
        """Tables by name, such as `attention/findings`; their columns are the fields of their rows."""
        self._guard(lambda: self._log_rows(stage, tables, step))

    @rank_zero_only
    def log_report(self, write: Callable[[], Path]) -> None:
        """Tables, figures and page of a report; `write` writes it and gives its folder."""
        self._guard(lambda: self.experiment.log(report_media(write(), "report")))

    def _log_rows(self, stage: str, tables: Mapping[str, Sequence[Any]], step: int) -> None:
        import wandb

        found = {
            f"{stage}/{name}": wandb.Table(columns=list(rows[0]._fields), data=[list(row) for row in rows])
            for name, rows in tables.items()
            if rows
        }
        if found:
            self.experiment.log({"trainer/global_step": step} | found)

    def _log_heads(self, stage: str, values: Sequence[Any], by_step: Sequence[Any], step: int) -> None:
        import wandb

        found = {"heads": (values, head_panels(values), "map")}
        if by_step:
            found["steps"] = (by_step, step_panels(by_step), "steps_map")
        logged: dict[str, Any] = {"trainer/global_step": step}
        for name, (cells, panels, picture) in found.items():
            columns = [*cells[0]._fields[:-1], "count"]
            logged[f"{stage}/attention/{name}"] = wandb.Table(columns=columns, data=[list(cell) for cell in cells])
            logged[f"{stage}/attention/{picture}"] = wandb.Image(draw_panels(panels), caption=f"{stage} at step {step}")
        self.experiment.log(logged)


def _settings() -> Any:
    import wandb

    return wandb.Settings(init_timeout=60, console="off")


class KeepWandbId(L.Callback):
    """Carries the id of the W&B run in checkpoints, for folders that were moved without their other files."""

    def __init__(self, logger: SafeWandbLogger) -> None:
        self.logger = logger

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        known = self.logger.folder / ID_FILE
        checkpoint["wandb_id"] = known.read_text().strip() if known.exists() else None
