"""What is a score measured against?

A run may know, as a fact or as a logged number, the best value that is possible (`val/ceiling_rsum` for `val/rsum`),
what the grammar's own second caption scores (`val/rival_cider` for `val/cider`) or what the most frequent answer of each
kind of question scores (`val/majority_accuracy`). A model may pass the last two: they are no ceiling and are never called
one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lit_attn.report.runs import Run

_LABELS = {"ceiling_": "ceiling", "rival_": "grammar's own caption", "majority_": "most frequent answer"}


@dataclass(frozen=True)
class Yardstick:
    """A height to compare a score with, and what it is called."""

    label: str
    value: float

    def share(self, score: float) -> str:
        """The score in per cent of this height, in words; a height that any model should pass stands for itself."""
        if self.label == _LABELS["majority_"]:
            return f"the {self.label} scores {self.value:.4g}"
        return f"{100 * score / self.value:.1f} % of the {self.label} ({self.value:.4g})"


def yardsticks_of(run: Run, metric: str) -> list[Yardstick]:
    """All that the run knows for a metric and that can be compared with: greater than 0."""
    found = []
    for name, label in _names(metric).items():
        value = run.fact(name)
        if value is None and name in run.metrics:
            value = run.metrics[name].last
        if isinstance(value, int | float) and value > 0:
            found.append(Yardstick(label, float(value)))
    return found


def are_yardsticks(names: Iterable[str]) -> set[str]:
    """The names that are only heights to compare another one of them with."""
    logged = set(names)
    return {yardstick for name in logged for yardstick in _names(name) if yardstick in logged}


def _names(metric: str) -> dict[str, str]:
    stage, _, rest = metric.partition("/")
    return {f"{stage}/{prefix}{rest}": label for prefix, label in _LABELS.items()}
