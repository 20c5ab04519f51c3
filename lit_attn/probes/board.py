"""Who asks the probes? A board holds the metrics of all probes at all sites of a network, hears batches, and sums up.

    board = Board(net, [PartOfSpeech(), Dependencies()])
    with board.listening(batch):
        net(batch.tokens)
    board.values()     # site, head, metric, value, count

Each record is reduced to sums as soon as it is heard and then dropped, so memory does not grow with the set.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import nn
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.metrics.head_mean import HeadMean
from lit_attn.metrics.head_shares import HeadShares
from lit_attn.metrics.keyed_sums import KeyedSums
from lit_attn.metrics.pair_shares import PairShares
from lit_attn.metrics.step_mean import ALL, StepMean
from lit_attn.nn.tape import AttentionRecord, AttentionTape, sites_of
from lit_attn.probes.probe import Cell, Finding, HeadValue, Probe, StepValue

log = logging.getLogger(__name__)

CHANCE = "_chance"


class Board:
    """Probes at the sites of a network.

    Args:
        net: The network, uncompiled.
        probes: The questions.
        sites: Patterns of site names to listen to.
    """

    def __init__(self, net: nn.Module, probes: Sequence[Probe], sites: str | Sequence[str] = "*") -> None:
        self.net, self.probes, self.patterns = net, tuple(probes), sites
        tape = AttentionTape(net, sites)
        self.sites = [site for site in sites_of(net) if tape.hears(site)]
        self.metrics = {(s.name, i): probe.metrics(s) for s in self.sites for i, probe in enumerate(self.probes)}
        idle = [
            type(p).__name__ for i, p in enumerate(self.probes) if not any(self.metrics[s.name, i] for s in self.sites)
        ]
        if len(idle) == len(self.probes):
            known = "; ".join(dict.fromkeys(f"{s.query_stream} to {s.key_stream}" for s in self.sites))
            raise UserError(
                f"{' and '.join(idle)} cannot be asked of this network: no site has the attention it is about. "
                f"Here it goes from {known}."
            )
        if idle:
            log.info("Nothing here for %s: no site has the attention they are about.", ", ".join(idle))
        names = [(site, each) for site, name, metric in self.named() for each in names_of(name, metric)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"Two probes measure {twice[0][1]!r} at {twice[0][0]!r}. Name each probe once.")

    def named(self) -> Iterable[tuple[str, str, Metric]]:
        return ((site, name, m) for (site, _), metrics in self.metrics.items() for name, m in metrics.items())

    def measured(self) -> dict[tuple[str, str], Probe]:
        """Which probe measures what at which site."""
        return {
            (site, each): self.probes[i]
            for (site, i), metrics in self.metrics.items()
            for name, metric in metrics.items()
            for each in names_of(name, metric)
        }

    def restart(self, device: torch.device) -> None:
        """Forget everything."""
        for _, _, metric in self.named():
            if metric.device != device:
                metric.to(device)
            metric.reset()

    def listening(self, batch: object) -> AttentionTape:
        """Inside, the probes hear the network read this batch."""

        def hear(record: AttentionRecord) -> None:
            for i, probe in enumerate(self.probes):
                metrics = self.metrics[record.site.name, i]
                if metrics:
                    probe.update(metrics, record, batch)

        return AttentionTape(self.net, self.patterns, listener=hear)

    def values(self) -> list[HeadValue]:
        """All values of all heads, over all processes; of metrics by step, over all their steps and questions."""
        found: list[HeadValue] = []
        for site, name, metric in self.named():
            if isinstance(metric, HeadShares):
                part, whole, seen = synced(metric, "sums")[0]
                for g, each in enumerate(metric.names):
                    *shares, even = (part[g] / whole[g]).tolist()
                    counts = [int(n) for n in seen[g].tolist()]
                    found += [HeadValue(site, h, each, v, counts[h]) for h, v in enumerate(shares)]
                    found += [HeadValue(site, h, each + CHANCE, even, counts[-1]) for h in range(len(shares))]
                continue
            if isinstance(metric, KeyedSums | PairShares):
                continue
            if isinstance(metric, HeadMean):
                total, count = synced(metric, "total", "count")
                mean = total / count
            elif isinstance(metric, StepMean):
                total, count = (sums[:, 0].sum(0, keepdim=True) for sums in synced(metric, "total", "count"))
                mean = total / count
            else:
                mean, count = metric.compute().reshape(1, -1), synced(metric, "count")[0].unsqueeze(0)
            for each, means, counts in zip(names_of(name, metric), mean.tolist(), count.tolist(), strict=True):
                pairs = enumerate(zip(means, counts, strict=True))
                found += [HeadValue(site, head, each, v, int(n)) for head, (v, n) in pairs]
        return found

    def steps(self) -> list[StepValue]:
        """All values by step, kind of question and head, over all processes; cells without a row are left out."""
        found = []
        for site, name, metric in self.named():
            if not isinstance(metric, StepMean):
                continue
            total, count = synced(metric, "total", "count")
            for step, group, head in count.nonzero().tolist():
                n = float(count[step, group, head])
                value = float(total[step, group, head]) / n
                found.append(StepValue(site, head, name, step, metric.groups[group], value, int(n)))
        return found

    def findings(self, values: Sequence[HeadValue]) -> list[Finding]:
        """What all heads and sites say together. All processes must ask."""
        return [finding for probe, metrics in self._by_site() for finding in probe.findings(values, metrics)]

    def cells(self) -> list[Cell]:
        """Maps and lists by words, of sites and of stacks of them. All processes must ask."""
        by_site = self._by_site()
        found = [
            cell
            for site in self.sites
            for probe, metrics in by_site
            if site.name in metrics
            for cell in probe.cells(site, metrics[site.name])
        ]
        return found + [cell for probe, metrics in by_site for cell in probe.cells_of_stacks(metrics)]

    def _by_site(self) -> list[tuple[Probe, dict[str, dict[str, Metric]]]]:
        """The probes that are asked something, with their metrics at every site."""
        found = [
            (probe, {site.name: own for site in self.sites if (own := self.metrics[site.name, i])})
            for i, probe in enumerate(self.probes)
        ]
        return [(probe, metrics) for probe, metrics in found if metrics]

    def scalars(self, values: Sequence[HeadValue], steps: Sequence[StepValue]) -> dict[tuple[str, str], float]:
        """Means over heads, by site and metric; those of single steps stand at `<site>.<step>`. Quiet ones are left out."""
        quiet = {
            (site, f"{each}{end}")
            for site, _, metric in self.named()
            if isinstance(metric, HeadShares)
            for each in metric.quiet
            for end in ("", CHANCE)
        }
        repeated = {site.name for site in self.sites if site.calls > 1}
        told = [v for v in steps if v.kind == ALL and v.site in repeated]
        cells = [((v.site, v.metric), v) for v in values] + [((f"{v.site}.{v.step}", v.metric), v) for v in told]
        known: dict[tuple[str, str], list[float]] = {}
        for name, cell in cells:
            if cell.rows and name not in quiet:
                known.setdefault(name, []).append(cell.value)
        return {name: sum(heads) / len(heads) for name, heads in known.items()}


def names_of(name: str, metric: Metric) -> tuple[str, ...]:
    """What a metric measures; one that does not say is named by its probe."""
    return metric.names if isinstance(metric, HeadShares | HeadMean) else (name,)


def synced(metric: Metric, *states: str) -> list[torch.Tensor]:
    """States of a metric over all processes."""
    with metric.sync_context():
        return [cast(torch.Tensor, getattr(metric, state)).clone() for state in states]
