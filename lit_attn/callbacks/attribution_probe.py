"""When are explanations measured? Every few epochs, on a fixed sample: methods against the known cause or blank-out.

The sample is the first of the data set, shared among processes so that each is explained once, apart from the batches of
validation: how these are cut or limited changes nothing. Means over explained outputs are logged as
`val/attribution/<method>/<measure>`, the level of chance beside them as `val/attribution/chance/<measure>`; all values by stream
go to `attribution/<stage>-<step>.csv`, and to loggers that take tables as `val/attribution/values`. See
`attribution.faithfulness` for the measures.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch

from lit_attn.attribution.by_inputs import blank_out
from lit_attn.attribution.capture import differentiable
from lit_attn.attribution.explain import METHODS, explain_subject, known_methods
from lit_attn.attribution.faithfulness import CAUSE, CHANCE, Value, against_cause, correlated
from lit_attn.attribution.plans import plan_of
from lit_attn.attribution.subject import Subject
from lit_attn.callbacks.attention_files import write_rows
from lit_attn.callbacks.attention_probe import bare_net, stage_name
from lit_attn.callbacks.explained import subjects
from lit_attn.errors import UserError
from lit_attn.metrics.keyed_sums import KeyedSums
from lit_attn.nn.tape import silence

AT_ONCE = 16
"""Samples in one batch."""


class Finding(NamedTuple):
    """A mean over explained outputs."""

    method: str
    stream: str
    """`cause` stands for all streams that may hold it."""
    measure: str
    value: float
    outputs: int
    """So many were counted."""


class AttributionProbe(L.Callback):
    """Explains a fixed sample by several methods and scores them.

    Args:
        methods: Names of `lit-attn explain --methods help`.
        samples: So many first samples of the data set: pictures, questions or sentences.
        every_n_epochs: Of training; `validate` and `test` measure always.
        with_blank_out: Correlate with blank-out, too, which costs a pass per item; null: only where no cause is known.
    """

    def __init__(
        self,
        methods: Sequence[str] = ("rollout", "flow", "gae", "heterogenous_pos"),
        samples: int = 32,
        every_n_epochs: int = 1,
        with_blank_out: bool | None = None,
    ) -> None:
        for name, value in (("samples", samples), ("every_n_epochs", every_n_epochs)):
            if value < 1:
                raise UserError(f"AttributionProbe: {name} must be at least 1, got {value}.")
        self.methods = known_methods(methods, inputs=True)
        if not self.methods:
            raise UserError(f"AttributionProbe needs at least one method: {', '.join(METHODS)}.")
        self.samples, self.every_n_epochs, self.with_blank_out = samples, every_n_epochs, with_blank_out
        self._sums = KeyedSums()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """A network that has no plan is refused before anything runs."""
        plan_of(bare_net(pl_module))
        if getattr(trainer, "datamodule", None) is None:
            raise UserError("AttributionProbe takes its sample from a data module; pass datamodule=… to the trainer.")

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        fitting = trainer.state.fn == "fit"
        if trainer.sanity_checking or (fitting and (trainer.current_epoch + 1) % self.every_n_epochs):
            return
        self._measure(trainer, pl_module)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._measure(trainer, pl_module)

    def _measure(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._sums.reset()
        stage = stage_name(trainer)
        with silence(), differentiable():
            for subject in self._subjects(trainer, pl_module, stage):
                self._add(self._values(subject))
        summed = self._sums.compute()
        found = [
            Finding(method, stream, measure, total / count if count else float("nan"), int(count))
            for (method, stream, measure), (total, count) in zip(
                summed.keys.tolist(), summed.sums.tolist(), strict=True
            )
        ]
        for name, value in scalars(found).items():
            told = torch.tensor(value, dtype=torch.float64)
            pl_module.log(f"{stage}/attribution/{name}", told, rank_zero_only=True)
        if trainer.is_global_zero and found:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            write_rows(Path(trainer.default_root_dir) / "attribution" / f"{stage}-{step:08d}.csv", found)
            for logger in trainer.loggers:
                if hasattr(logger, "log_rows"):
                    logger.log_rows(stage, {"attribution/values": found}, step)

    def _subjects(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> Iterator[Subject]:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        net = bare_net(pl_module)
        like = next(net.parameters())
        dataset = data.dataset(stage)
        mine = range(min(self.samples, len(dataset)))[trainer.global_rank :: trainer.world_size]
        for start in range(0, len(mine), AT_ONCE):
            batch = data.collate([dataset[i] for i in mine[start : start + AT_ONCE]])
            yield from subjects(net, batch.map(lambda t: t.to(like if t.is_floating_point() else like.device)))

    def _values(self, subject: Subject) -> list[Value]:
        scores = explain_subject(subject, self.methods)
        found = against_cause(subject, scores)
        if self.with_blank_out or (self.with_blank_out is None and not subject.causes):
            found += correlated(subject, scores, scores.get("blank_out") or blank_out(subject))
        notes = [(method, name, value) for method, own in scores.items() for name, value in own.notes.items()]
        return found + [Value(method, CAUSE, name, value) for method, name, value in notes]

    def _add(self, values: Sequence[Value]) -> None:
        """NaN says nothing about a sample, so that it does not count."""
        known: set[tuple[str, str, str]] = set()
        for method, stream, measure, own in values:
            if measure.endswith(CHANCE):  # the same for all methods
                method, measure = "chance", measure.removesuffix(CHANCE)
                if (method, stream, measure) in known:
                    continue
                known.add((method, stream, measure))
            said = own.detach().double().cpu().numpy()
            said = said[np.isfinite(said)]
            names = [[method], [stream], [measure]]
            self._sums.update(names, np.zeros((1, 3), np.int64), np.array([[said.sum(), len(said)]]))


def scalars(found: Sequence[Finding]) -> dict[str, float]:
    """`<method>/<measure>`; the stream is named where a measure has one of its own. What nothing was counted for is left out."""
    return {
        f"{one.method}/{one.measure}" + ("" if one.stream == CAUSE else f"_{one.stream}"): one.value
        for one in found
        if one.outputs
    }
