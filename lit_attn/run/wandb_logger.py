"""How does W&B hear of a run without ever harming it?

Scalars, configuration, one heat map and one table per validation. Offline without credentials or network. The run's id
lives in the checkpoint and in the run folder, so a resume continues the same W&B run. Whatever goes wrong in W&B is
reported once, and training goes on: `metrics.csv` has everything.
"""

import logging
import os
from collections.abc import Callable, Sequence
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

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
    def log_heads(self, stage: str, values: Sequence[Any], step: int) -> None:
        """One heat map (sites and heads by metrics) and one table."""
        self._guard(lambda: self._log_heads(stage, values, step))

    def _log_heads(self, stage: str, values: Sequence[Any], step: int) -> None:
        import wandb

        table = wandb.Table(columns=["site", "head", "metric", "value", "count"], data=[list(v) for v in values])
        image = wandb.Image(_heat_map(values), caption=f"{stage} at step {step}")
        self.experiment.log(
            {f"{stage}/attention/heads": table, f"{stage}/attention/map": image, "trainer/global_step": step}
        )


def _settings() -> Any:
    import wandb

    return wandb.Settings(init_timeout=60, console="off")


def _heat_map(values: Sequence[Any]) -> np.ndarray:
    """A picture as an array: one panel per metric, rows are sites, columns heads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = list(dict.fromkeys(v.metric for v in values))
    sites = list(dict.fromkeys(v.site for v in values))
    heads = 1 + max(v.head for v in values)
    figure = Figure(figsize=(2.2 * len(metrics) + 1, 1.2 + 0.4 * len(sites)), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        grid = np.full((len(sites), heads), np.nan)
        for v in values:
            if v.metric == metric:
                grid[sites.index(v.site), v.head] = v.value
        axes.imshow(grid, cmap="cividis", aspect="auto")
        for (row, column), value in np.ndenumerate(grid):
            if np.isfinite(value):
                axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=7, color="white",
                          bbox={"boxstyle": "round", "fc": "black", "alpha": 0.5, "lw": 0})  # fmt: skip
        axes.set_title(metric.replace("_", " "), fontsize=8)
        axes.set_xticks(range(heads))
        axes.set_yticks(range(len(sites)), sites if axes is figure.axes[0] else [""] * len(sites), fontsize=7)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


class KeepWandbId(L.Callback):
    """Carries the id of the W&B run in checkpoints, for folders that were moved without their other files."""

    def __init__(self, logger: SafeWandbLogger) -> None:
        self.logger = logger

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        known = self.logger.folder / ID_FILE
        checkpoint["wandb_id"] = known.read_text().strip() if known.exists() else None
