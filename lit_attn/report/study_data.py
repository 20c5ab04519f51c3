"""What did the runs of a study measure? Reads the run folders of a study into one row per run.

Scores are those of the step at which the monitored score was best. An attention metric of a run is the mean over its sites.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from lit_attn.report.errors import ReportError
from lit_attn.report.metrics import CHANCE, attention_name, chance_of, score_names
from lit_attn.report.runs import Run, read_run
from lit_attn.report.tables import best_step, score_row
from lit_attn.report.text import natural_key
from lit_attn.study.folder import StudyInfo, read_study, run_folder
from lit_attn.study.grid import Cell
from lit_attn.study.journal import Cost, costs


@dataclass(frozen=True)
class StudyRun:
    """One run of the grid; `run` is None where there is nothing to read, and `damage` says why if that is a fault."""

    cell: Cell
    run: Run | None
    damage: str | None
    cost: Cost
    scores: dict[str, float]
    """At the best step."""
    attention: dict[str, float]
    """Means over sites at the best step, or at the last where nothing was measured there."""

    @property
    def done(self) -> bool:
        return self.run is not None and self.run.info.status == "done" and self.score is not None

    @property
    def score(self) -> float | None:
        """The monitored score."""
        monitor = None if self.run is None else self.run.info.monitor
        value = self.scores.get(monitor or "")
        return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Study:
    """A study folder, read."""

    folder: Path
    info: StudyInfo
    runs: tuple[StudyRun, ...]

    def of(self, recipe: str) -> list[StudyRun]:
        """The finished runs of a recipe."""
        return [run for run in self.runs if run.cell.recipe == recipe and run.done]

    @property
    def recipes(self) -> list[str]:
        """Those with a finished run."""
        return [recipe for recipe in self.info.recipes if self.of(recipe)]

    def monitor(self, recipe: str) -> str:
        run = self.of(recipe)[0].run
        assert run is not None
        assert run.info.monitor is not None
        return run.info.monitor

    def higher_is_better(self, recipe: str) -> bool:
        run = self.of(recipe)[0].run
        assert run is not None
        return run.info.mode != "min"


def load_study(folder: Path) -> Study:
    """All runs of a study, finished or not."""
    info = read_study(folder)
    if info is None:
        raise ReportError(
            f"{folder}: no study lives there; it has no study.json. Name a folder that `lit-attn study` wrote."
        )
    spent = costs(folder)
    return Study(folder, info, tuple(_read(folder, cell, spent.get(cell.name, Cost())) for cell in info.cells))


def _read(folder: Path, cell: Cell, cost: Cost) -> StudyRun:
    place = run_folder(folder, cell)
    if not (place / "metrics.csv").exists():
        return StudyRun(cell, None, None, cost, {}, {})
    try:
        run = read_run(place)
    except ReportError as error:
        return StudyRun(cell, None, str(error), cost, {}, {})
    return StudyRun(cell, run, None, cost, score_row(run).best, attention_means(run))


def attention_means(run: Run) -> dict[str, float]:
    """Every attention metric of validation, as the mean over sites. Steps of one site count through the site."""
    step = best_step(run)
    found = {name: parts for name in run.metrics if (parts := attention_name(name)) and parts.stage == "val"}
    sites = {parts.site for parts in found.values()}
    values: dict[str, list[float]] = {}
    for name, parts in found.items():
        if parts.site.rpartition(".")[0] in sites:
            continue
        value = run.metrics[name].at(step) if step is not None else None
        value = run.metrics[name].last if value is None else value
        if math.isfinite(value):
            values.setdefault(parts.metric, []).append(value)
    return {metric: fmean(own) for metric, own in sorted(values.items(), key=lambda item: natural_key(item[0]))}


def score_columns(runs: Sequence[StudyRun]) -> list[str]:
    """The scores of all runs, monitored ones first."""
    read = [run.run for run in runs if run.run is not None]
    return score_names((name for run in runs for name in run.scores), (run.info.monitor for run in read))


def attention_columns(runs: Sequence[StudyRun]) -> list[str]:
    return sorted({metric for run in runs for metric in run.attention}, key=natural_key)


def interpretability(runs: Sequence[StudyRun]) -> list[str]:
    """Attention metrics that say whether attention is where it should be: those with a level of chance."""
    known = attention_columns(runs)
    return [metric for metric in known if not metric.endswith(CHANCE) and chance_of(metric) in known]


def by_alignment(runs: Sequence[StudyRun]) -> dict[str, list[StudyRun]]:
    """In the order of the study, seeds ascending."""
    found: dict[str, list[StudyRun]] = {}
    for run in sorted(runs, key=lambda run: run.cell.seed):
        found.setdefault(run.cell.alignment, []).append(run)
    return found
