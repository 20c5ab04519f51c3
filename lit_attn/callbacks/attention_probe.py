"""When is attention measured? In every validation and test: capture, probe, metric, log. No maths here.

Each record is reduced to sums as soon as it is heard and then dropped, so memory does not grow with the set. Scalars are
logged as `val/attention/<site>/<metric>`, the mean over heads; the values of every head go to
`attention/<stage>-<step>.csv` and to loggers that take tables and images.
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
from lit_attn.nn.tape import AttentionRecord, AttentionTape, sites_of
from lit_attn.probes.probe import Probe

LOG_NAMES = {"validate": "val", "test": "test"}


class HeadValue(NamedTuple):
    """One cell of the layer-by-head table."""

    site: str
    head: int
    metric: str
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
        self._metrics: dict[tuple[str, int], dict[str, Metric]] = {}
        self._listening = ExitStack()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Builds the metrics of all sites at once: every process must hold the same ones, even if it hears nothing."""
        tape = AttentionTape(bare_net(pl_module), self.sites)
        chosen = [site for site in sites_of(bare_net(pl_module)) if tape.hears(site)]
        self._metrics = {(site.name, i): probe.metrics(site) for site in chosen for i, probe in enumerate(self.probes)}
        names = [(site, name) for (site, _), metrics in self._metrics.items() for name in metrics]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"Two probes measure {twice[0][1]!r} at {twice[0][0]!r}. Name each probe once.")

    def _all(self) -> Iterable[Metric]:
        return (metric for metrics in self._metrics.values() for metric in metrics.values())

    def _start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for metric in self._all():
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
        values = list(self.compute())
        for (site, metric), heads in _by_metric(values).items():
            known = [v.value for v in heads if v.rows]
            mean = sum(known) / len(known) if known else float("nan")
            value = torch.tensor(mean, dtype=torch.float64)
            pl_module.log(f"{stage}/attention/{site}/{metric}", value, rank_zero_only=True)
        if trainer.is_global_zero:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            write_heads(Path(trainer.default_root_dir) / "attention" / f"{stage}-{step:08d}.csv", values)
            for logger in trainer.loggers:
                if hasattr(logger, "log_heads"):
                    logger.log_heads(stage, values, step)

    def compute(self) -> Iterable[HeadValue]:
        """All values of all heads, over all processes."""
        for (site, _), metrics in self._metrics.items():
            for name, metric in metrics.items():
                value = metric.compute()
                with metric.sync_context():
                    count = cast(torch.Tensor, metric.count).clone()
                for head, (v, n) in enumerate(zip(value.reshape(-1).tolist(), count.tolist(), strict=True)):
                    yield HeadValue(site, head, name, v, int(n))

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


def _by_metric(values: Sequence[HeadValue]) -> dict[tuple[str, str], list[HeadValue]]:
    found: dict[tuple[str, str], list[HeadValue]] = {}
    for value in values:
        found.setdefault((value.site, value.metric), []).append(value)
    return found


def write_heads(path: Path, values: Sequence[HeadValue]) -> None:
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["site", "head", "metric", "value", "count"])
        writer.writerows((v.site, v.head, v.metric, repr(v.value), v.rows) for v in values)
