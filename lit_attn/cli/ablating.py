"""Which heads matter? Validation with one head muted at a time, beside what the probes say about every head.

`lit-attn ablate RECIPE --config probes/all --from_weights FILE` validates once as it is, then once per head of every
multi-head site with that head muted. It writes `attention/<stage>-<step>-ablation.csv` (score as it is, muted, change), adds the
changes to the table of heads, so that the report draws them beside the probes, and correlates ranks: does a head that a probe
calls special matter more? Over several processes each validation is shared, and the first one writes.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from lit_attn.callbacks.attention_files import Found, joined, write_heads, write_rows
from lit_attn.callbacks.attention_probe import AttentionProbe, bare_net
from lit_attn.cli import training
from lit_attn.errors import UserError
from lit_attn.nn.attention import MultiHeadAttention
from lit_attn.nn.tape import Site, muted
from lit_attn.ops.correlation import spearman
from lit_attn.probes.probe import HeadValue, stack_of

log = logging.getLogger("lit_attn")
PREFIX = "ablation_"


class Muted(NamedTuple):
    """What a score becomes without one head."""

    site: str
    head: int
    score: str
    baseline: float
    muted: float
    change: float


class Agreement(NamedTuple):
    """Spearman's correlation, over the heads of one stack, of a probe with the change of a score."""

    metric: str
    score: str
    sites: str
    n: int
    r: float
    p: float
    permutation_p: float


def run(argv: list[str]) -> int:
    return training.run("validate", argv, Ablating)


class Ablating(training.Training):
    """A validation, and one more per head."""

    def _run_subcommand(self, subcommand: str) -> None:
        sites = _heads_of(self)
        super()._run_subcommand(subcommand)
        if self.code:
            return
        baseline = self._scores()
        listening = [c for c in self.trainer.callbacks if isinstance(c, AttentionProbe) and not c.own]  # type: ignore[attr-defined]
        values = list(joined([Found.of(callback.board) for callback in listening]).heads)
        self.trainer.callbacks, self.trainer.loggers = [], []  # type: ignore[attr-defined]
        found = []
        for place, (site, head) in enumerate(sites):
            with muted(site.name, head):
                self.trainer.validate(self.model, datamodule=self.datamodule, verbose=False)
            scores = self._scores()
            found += [
                Muted(site.name, head, name, value, scores[name], scores[name] - value)
                for name, value in baseline.items()
                if name in scores
            ]
            if self.trainer.is_global_zero:
                log.info("muted %s head %d (%d of %d)", site.name, head, place + 1, len(sites))
        if self.trainer.is_global_zero:
            self._write(values, without_unchanged(found))

    def _scores(self) -> dict[str, float]:
        """What the task scored, without attention."""
        scores = self.trainer.callback_metrics.items()
        return {name: float(value) for name, value in scores if "/attention/" not in name}

    def _write(self, values: list[HeadValue], found: list[Muted]) -> None:
        folder = Path(self.folder) / "attention"
        changes = [HeadValue(m.site, m.head, PREFIX + m.score.rpartition("/")[2], m.change, 1) for m in found]
        stem = "val-00000000"
        write_rows(folder / f"{stem}-ablation.csv", found)
        write_heads(folder / f"{stem}.csv", [*values, *changes])
        agreements = rank_agreements(values, changes)
        if agreements:
            write_rows(folder / f"{stem}-agreement.csv", agreements)


def _heads_of(cli: training.Training) -> list[tuple[Site, int]]:
    sites = [module.site for module in bare_net(cli.model).modules() if isinstance(module, MultiHeadAttention)]
    if not sites:
        raise UserError("This network has no multi-head attention: there is no head to mute.")
    return [(site, head) for site in sites for head in range(site.num_heads)]


def without_unchanged(found: list[Muted]) -> list[Muted]:
    """Without scores that no head changes, such as counts and scores of a rival: they say nothing about heads."""
    changed = {one.score for one in found if one.muted != one.baseline}
    left_out = sorted({one.score for one in found} - changed)
    if left_out:
        log.info("No head changes %s: left out.", ", ".join(left_out))
    return [one for one in found if one.score in changed]


def rank_agreements(values: list[HeadValue], changes: list[HeadValue]) -> list[Agreement]:
    """Every probe with every change, over the heads of each stack of sites that has both and whose changes differ."""
    found = []
    effects = {(v.site, v.head, v.metric): v.value for v in changes}
    for metric in dict.fromkeys(v.metric for v in values if not v.metric.endswith("_chance")):
        own = [v for v in values if v.metric == metric]
        for stack in dict.fromkeys(stack_of(v.site) for v in own):
            for score in dict.fromkeys(v.metric for v in changes):
                pairs = [
                    (v.value, effects[v.site, v.head, score])
                    for v in own
                    if stack_of(v.site) == stack and (v.site, v.head, score) in effects
                ]
                x, y = [a for a, _ in pairs], [b for _, b in pairs]
                if len(set(y)) > 1:
                    found.append(Agreement(metric, score.removeprefix(PREFIX), stack, *spearman(x, y)))
    return found
