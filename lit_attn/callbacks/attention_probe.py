"""When is attention measured? In every validation and test: capture, probe, metric, log. No maths here.

Each record is reduced to sums as soon as it is heard and then dropped, so memory does not grow with the set. Scalars are
logged as `val/attention/<site>/<metric>`, the mean over heads; the values of every head go to
`attention/<stage>-<step>.csv` and to loggers that take tables and images. What is told apart by reasoning step and kind of
question goes to `attention/<stage>-<step>-steps.csv`; a site that speaks several times in a pass also has scalars of its
steps, `val/attention/<site>.<step>/<metric>`. A metric that nothing was counted for is not logged.
"""

import csv
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, cast

import lightning as L
import torch
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.files import written_whole
from lit_attn.metrics.step_mean import ALL, StepMean
from lit_attn.nn.tape import AttentionRecord, AttentionTape, Site, sites_of
from lit_attn.probes.probe import Probe

LOG_NAMES = {"validate": "val", "test": "test"}


class HeadValue(NamedTuple):
    """One cell of the layer-by-head table."""

    site: str
    head: int
    metric: str
    value: float
    rows: int


class StepValue(NamedTuple):
    """One cell of the table by reasoning step and kind of question."""

    site: str
    head: int
    metric: str
    step: int
    kind: str
    value: float
    rows: int


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
        self._sites: list[Site] = []
        self._metrics: dict[tuple[str, int], dict[str, Metric]] = {}
        self._listening = ExitStack()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Builds the metrics of all sites at once: every process must hold the same ones, even if it hears nothing."""
        tape = AttentionTape(bare_net(pl_module), self.sites)
        self._sites = [site for site in sites_of(bare_net(pl_module)) if tape.hears(site)]
        self._metrics = {(s.name, i): probe.metrics(s) for s in self._sites for i, probe in enumerate(self.probes)}
        names = [(site, name) for (site, _), metrics in self._metrics.items() for name in metrics]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"Two probes measure {twice[0][1]!r} at {twice[0][0]!r}. Name each probe once.")

    def _start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for _, _, metric in self._named():
            metric.to(pl_module.device)
            metric.reset()

    def _listen(self, pl_module: L.LightningModule, batch: Any) -> None:
        if not len(batch):
            return

        def hear(record: AttentionRecord) -> None:
            for i, probe in enumerate(self.probes):
                metrics = self._metrics[record.site.name, i]
                if metrics:
                    probe.update(metrics, record, batch)

        self._listening.enter_context(AttentionTape(bare_net(pl_module), self.sites, listener=hear))

    def _finish(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.sanity_checking:
            return
        stage = stage_name(trainer)
        values, by_step = list(self.compute()), list(self.compute_steps())
        for (site, metric), mean in self._scalars(values, by_step).items():
            value = torch.tensor(mean, dtype=torch.float64)
            pl_module.log(f"{stage}/attention/{site}/{metric}", value, rank_zero_only=True)
        if trainer.is_global_zero:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            folder = Path(trainer.default_root_dir) / "attention"
            write_heads(folder / f"{stage}-{step:08d}.csv", values)
            if by_step:
                write_steps(folder / f"{stage}-{step:08d}-steps.csv", by_step)
            for logger in trainer.loggers:
                if hasattr(logger, "log_heads"):
                    logger.log_heads(stage, values, by_step, step)

    def _scalars(self, values: Sequence[HeadValue], by_step: Sequence[StepValue]) -> dict[tuple[str, str], float]:
        """Means over heads, by site and metric; those of single steps stand at `<site>.<step>`."""
        repeated = {site.name for site in self._sites if site.calls > 1}
        steps = [v for v in by_step if v.kind == ALL and v.site in repeated]
        cells = [((v.site, v.metric), v) for v in values] + [((f"{v.site}.{v.step}", v.metric), v) for v in steps]
        known: dict[tuple[str, str], list[float]] = {}
        for name, cell in cells:
            if cell.rows:
                known.setdefault(name, []).append(cell.value)
        return {name: sum(heads) / len(heads) for name, heads in known.items()}

    def compute(self) -> Iterable[HeadValue]:
        """All values of all heads, over all processes; of metrics by step, over all their steps and questions."""
        for site, name, metric in self._named():
            if isinstance(metric, StepMean):
                total, count = (sums[:, 0].sum(0) for sums in _synced(metric, "total", "count"))
                mean = total / count
            else:
                mean, (count,) = metric.compute().reshape(-1), _synced(metric, "count")
            for head, (v, n) in enumerate(zip(mean.tolist(), count.tolist(), strict=True)):
                yield HeadValue(site, head, name, v, int(n))

    def compute_steps(self) -> Iterable[StepValue]:
        """All values by step, kind of question and head, over all processes; cells without a row are left out."""
        for site, name, metric in self._named():
            if not isinstance(metric, StepMean):
                continue
            total, count = _synced(metric, "total", "count")
            for step, group, head in count.nonzero().tolist():
                n = float(count[step, group, head])
                value = float(total[step, group, head]) / n
                yield StepValue(site, head, name, step, metric.groups[group], value, int(n))

    def _named(self) -> Iterable[tuple[str, str, Metric]]:
        return ((site, name, m) for (site, _), metrics in self._metrics.items() for name, m in metrics.items())

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


def _synced(metric: Metric, *states: str) -> list[torch.Tensor]:
    """States of a metric over all processes."""
    with metric.sync_context():
        return [cast(torch.Tensor, getattr(metric, state)).clone() for state in states]


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
