"""When is attention measured? In every validation and test: capture, probe, metric, log. No maths here.

Each record is reduced to sums as soon as it is heard and then dropped, so memory does not grow with the set. Scalars are
logged as `val/attention/<site>/<metric>`, the mean over heads; the values of every head go to
`attention/<stage>-<step>.csv` and to loggers that take tables and images. What is told apart by reasoning step and kind of
question goes to `attention/<stage>-<step>-steps.csv`, correlations over heads or words to `-findings.csv`, maps and
lists by words to `-tables.csv`; a site that speaks several times in a pass also has scalars of its
steps, `val/attention/<site>.<step>/<metric>`. A metric that nothing was counted for is not logged.
"""

import csv
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import torch
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.files import written_whole
from lit_attn.probes.board import Board
from lit_attn.probes.probe import HeadValue, Probe, StepValue

LOG_NAMES = {"validate": "val", "test": "test"}


class Found(NamedTuple):
    """The tables of one validation."""

    heads: Sequence[HeadValue]
    steps: Sequence[StepValue]
    findings: Sequence[NamedTuple]
    cells: Sequence[NamedTuple]


def joined(found: Sequence[Found]) -> Found:
    """The rows of several; what two of them measured is there once."""
    heads = {(v.site, v.head, v.metric): v for one in found for v in one.heads}
    steps = {(v.site, v.head, v.metric, v.step, v.kind): v for one in found for v in one.steps}
    findings, cells = (list(dict.fromkeys(row for one in found for row in one[part])) for part in (2, 3))
    return Found(list(heads.values()), list(steps.values()), findings, cells)


class AttentionProbe(L.Callback):
    """Asks probes about the attention of `pl_module.net`.

    Args:
        probes: The questions.
        sites: Patterns of site names to listen to.
    """

    def __init__(self, probes: list[Probe], sites: str | list[str] = "*") -> None:
        if not probes:
            raise UserError("AttentionProbe needs at least one probe.")
        self.probes = probes
        self.sites = sites
        self._board: Board | None = None
        self._found = Found([], [], [], [])
        self._listening = ExitStack()

    @property
    def board(self) -> Board:
        assert self._board is not None
        return self._board

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Builds the metrics of all sites at once: every process must hold the same ones, even if it hears nothing."""
        self._board = Board(bare_net(pl_module), self.probes, self.sites)

    def _start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.board.restart(pl_module.device)

    def _listen(self, pl_module: L.LightningModule, batch: Any) -> None:
        if len(batch):
            self._listening.enter_context(self.board.listening(batch))

    def _finish(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Logs scalars; the tables of all such callbacks are one, which the last of them writes."""
        if trainer.sanity_checking:
            return
        stage, board = stage_name(trainer), self.board
        values, by_step = board.values(), board.steps()
        for (site, metric), mean in board.scalars(values, by_step).items():
            value = torch.tensor(mean, dtype=torch.float64)
            pl_module.log(f"{stage}/attention/{site}/{metric}", value, rank_zero_only=True)
        self._found = Found(values, by_step, board.findings(values), board.cells())
        probing = [callback for callback in trainer.callbacks if isinstance(callback, AttentionProbe)]  # type: ignore[attr-defined]
        if trainer.is_global_zero and self is probing[-1]:
            write_found(trainer, stage, joined([callback._found for callback in probing]))

    def _named(self) -> Iterable[tuple[str, str, Metric]]:
        return self.board.named()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._listening.__exit__(type(exception), exception, None)

    # Lightning names each hook once per stage.
    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._start(trainer, pl_module)

    def on_test_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._start(trainer, pl_module)

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any
    ) -> None:
        self._listen(pl_module, batch)

    def on_test_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        self._listen(pl_module, batch)

    def on_validation_batch_end(self, *rest: Any) -> None:
        self._listening.close()

    def on_test_batch_end(self, *rest: Any) -> None:
        self._listening.close()

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._finish(trainer, pl_module)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._finish(trainer, pl_module)


def bare_net(pl_module: L.LightningModule) -> torch.nn.Module:
    """The network itself: a compiled one would hide its sites."""
    net = pl_module.net
    assert isinstance(net, torch.nn.Module)
    return getattr(net, "_orig_mod", net)


def stage_name(trainer: L.Trainer) -> str:
    """`val` or `test`, as metric names begin."""
    assert trainer.state.stage is not None
    return LOG_NAMES[trainer.state.stage.value]


def write_found(trainer: L.Trainer, stage: str, found: Found) -> None:
    """Into the run folder, and to loggers that take tables."""
    step = trainer.fit_loop.epoch_loop._batches_that_stepped
    stem = Path(trainer.default_root_dir) / "attention" / f"{stage}-{step:08d}"
    write_heads(stem.with_suffix(".csv"), found.heads)
    if found.steps:
        write_steps(Path(f"{stem}-steps.csv"), found.steps)
    tables = {"findings": found.findings, "tables": found.cells}
    for name, rows in tables.items():
        if rows:
            write_rows(Path(f"{stem}-{name}.csv"), rows)
    for logger in trainer.loggers:
        if found.heads and hasattr(logger, "log_heads"):
            logger.log_heads(stage, found.heads, found.steps, step)
        if hasattr(logger, "log_rows"):
            logger.log_rows(stage, tables, step)


def write_heads(path: Path, values: Sequence[HeadValue]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["site", "head", "metric", "value", "count"])
        writer.writerows((v.site, v.head, v.metric, repr(v.value), v.rows) for v in values)


def write_steps(path: Path, values: Sequence[StepValue]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["site", "head", "metric", "step", "kind", "value", "count"])
        writer.writerows((v.site, v.head, v.metric, v.step, v.kind, repr(v.value), v.rows) for v in values)


def write_rows(path: Path, rows: Sequence[NamedTuple]) -> None:
    """A table whose columns are the fields of its rows."""
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
