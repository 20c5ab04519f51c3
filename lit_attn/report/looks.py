"""Which colour and dash does a run have, in every figure and table of a report?

Up to six runs have a colour each. With more, runs of one recipe and alignment share their look, so that a study of
alignments over seeds shows one colour per alignment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lit_attn.report.drawing import DASHES, HUES, Dash
from lit_attn.report.runs import Run


@dataclass(frozen=True)
class Look:
    """How a run, or a group of runs, is drawn, and what the legend calls it."""

    label: str
    color: str
    dash: Dash


def run_looks(runs: Sequence[Run]) -> list[Look]:
    """The look of each run, in their order. The seventh group has the first colour again, with another dash."""
    labels = [run.name for run in runs] if len(runs) <= len(HUES) else _group_labels(runs)
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return [_look(label, places[label]) for label in labels]


def _group_labels(runs: Sequence[Run]) -> list[str]:
    several = len({run.info.recipe for run in runs}) > 1
    labels = []
    for run in runs:
        parts = [run.info.recipe if several or run.info.alignment is None else None, run.info.alignment]
        labels.append(", ".join(part for part in parts if part is not None) or run.name)
    return labels


def _look(label: str, place: int) -> Look:
    return Look(label, HUES[place % len(HUES)], DASHES[place // len(HUES) % len(DASHES)])
