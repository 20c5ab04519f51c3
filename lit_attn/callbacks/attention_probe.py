"""When is attention measured? In every validation and test: capture, probe, metric, log. No maths here.

Each record is reduced to sums as soon as it is heard and then dropped, so memory does not grow with the set. Scalars are
logged as `val/attention/<site>/<metric>`, the mean over heads; the values of every head go to
`attention/<stage>-<step>.csv` and to loggers that take tables and images. What is told apart by reasoning step and kind of
question goes to `attention/<stage>-<step>-steps.csv`, correlations over heads or words to `-findings.csv`, maps and
lists by words to `-tables.csv`; a site that speaks several times in a pass also has scalars of its
steps, `val/attention/<site>.<step>/<metric>`. A metric that nothing was counted for is not logged.

Probes hear what the step itself reads, such as gold captions; with `texts: own` they hear the model read again what it wrote in
the step, annotated by the data set, and all names begin with `val_own` in place of `val`.
"""

import logging
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
from torchmetrics import Metric

from lit_attn.callbacks.attention_files import Found, joined
from lit_attn.callbacks.rereading import written_batch
from lit_attn.callbacks.scalars import log_scalars
from lit_attn.errors import UserError
from lit_attn.probes.board import Board
from lit_attn.probes.probe import Probe
from lit_attn.types import CaptionBatch

log = logging.getLogger(__name__)

OWN = "_own"
LOG_NAMES = {"validate": "val", "test": "test"}


class AttentionProbe(L.Callback):
    """Asks probes about the attention of `pl_module.net`.

    Args:
        probes: The questions.
        sites: Patterns of site names to listen to.
        texts: `gold` hears the step; `own` hears the model read again what it wrote, which a captioner alone does.
    """

    def __init__(
        self, probes: list[Probe], sites: str | list[str] = "*", texts: Literal["gold", "own"] = "gold"
    ) -> None:
        if not probes:
            raise UserError("AttentionProbe needs at least one probe.")
        self.probes = probes
        self.sites = sites
        self.own = texts == "own"
        self._written = self._unclear = 0
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
        for other in self._alike(trainer):
            if other is not self and other._board is not None:
                refuse_two_ways(self._board, other._board)
        data: Any = getattr(trainer, "datamodule", None)
        if self.own and stage != "predict" and hasattr(pl_module, "caption") and hasattr(data, "annotated"):
            data.annotated("val", {})  # nothing, so that a parser that is absent is named before anything is trained

    def _alike(self, trainer: L.Trainer) -> list["AttentionProbe"]:
        """The callbacks that probe the same texts."""
        others: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
        return [one for one in others if isinstance(one, AttentionProbe) and one.own == self.own]

    def _start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.board.restart(pl_module.device)
        self._written = self._unclear = 0

    def _listen(self, pl_module: L.LightningModule, batch: Any) -> None:
        if len(batch) and not self.own:
            self._listening.enter_context(self.board.listening(batch))

    def _heard(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any) -> None:
        self._listening.close()
        if self.own and len(batch):
            self._reread(trainer, pl_module, outputs, batch)

    def _reread(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any) -> None:
        """One pass over what the step wrote."""
        if not (isinstance(outputs, dict) and "texts" in outputs and isinstance(batch, CaptionBatch)):
            raise UserError(
                f"{type(pl_module).__name__} writes no captions. Leave `texts: own` out: its texts are gold."
            )
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        texts = outputs["texts"]
        found = data.annotated(stage_name(trainer), dict(zip(batch.image_id.tolist(), texts, strict=True)))
        again = written_batch(batch, texts, found, data.vocabulary)
        self._written += len(texts)
        self._unclear += len(texts) - len(again)
        if len(again):
            with self.board.listening(again):
                pl_module(again)

    def _finish(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Logs scalars; the tables of all such callbacks are one, which the last of them writes."""
        if trainer.sanity_checking:
            return
        stage, board = stage_name(trainer) + OWN * self.own, self.board
        self._tell(trainer, pl_module)
        self._found = Found.of(board)
        means = board.scalars(self._found.heads, self._found.steps)
        log_scalars(trainer, {f"{stage}/attention/{site}/{metric}": mean for (site, metric), mean in means.items()})
        alike = self._alike(trainer)
        if trainer.is_global_zero and self is alike[-1]:
            log_found(trainer, stage, joined([callback._found for callback in alike]))

    def _tell(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """How many texts probes did not hear, over all processes."""
        if not self.own:
            return
        counts = torch.tensor([self._unclear, self._written], device=pl_module.device)
        unclear, written = trainer.strategy.reduce(counts, reduce_op="sum").tolist()
        if unclear and trainer.is_global_zero:
            log.info(
                "%d of %d texts that were written could not be annotated and are left out: empty, or not understood.",
                unclear,
                written,
            )

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

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._heard(trainer, pl_module, outputs, batch)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._heard(trainer, pl_module, outputs, batch)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._finish(trainer, pl_module)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._finish(trainer, pl_module)


def refuse_two_ways(one: Board, other: Board) -> None:
    """Two callbacks may ask the same twice, but not by the same name in two ways."""
    known = other.measured()
    for (site, metric), probe in one.measured().items():
        twin = known.get((site, metric), probe)
        if (type(twin), vars(twin)) != (type(probe), vars(probe)):
            raise UserError(
                f"Two callbacks measure {metric!r} at {site!r} in different ways: {told(twin)} and {told(probe)}. "
                "Their numbers would stand under one name. Use one of them at a time, each in a run of its own."
            )


def told(probe: Probe) -> str:
    """`PartOfSpeech(align='input')`."""
    return f"{type(probe).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(probe).items())})"


def bare_net(pl_module: L.LightningModule) -> torch.nn.Module:
    """The network itself: a compiled one would hide its sites."""
    net = pl_module.net
    assert isinstance(net, torch.nn.Module)
    return getattr(net, "_orig_mod", net)


def stage_name(trainer: L.Trainer) -> str:
    """`val` or `test`, as metric names begin."""
    assert trainer.state.stage is not None
    return LOG_NAMES[trainer.state.stage.value]


def log_found(trainer: L.Trainer, stage: str, found: Found) -> None:
    """Into the run folder, and to loggers that take tables."""
    step = trainer.fit_loop.epoch_loop._batches_that_stepped
    found.write(Path(trainer.default_root_dir) / "attention", stage, step)
    for logger in trainer.loggers:
        if found.heads and hasattr(logger, "log_heads"):
            logger.log_heads(stage, found.heads, found.steps, step)
        if hasattr(logger, "log_rows"):
            logger.log_rows(stage, {"attention/findings": found.findings, "attention/tables": found.cells}, step)
