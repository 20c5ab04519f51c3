"""Which scalars did a run log, and at which step?

Reads `metrics.csv`. A cell that is empty was not logged at that step. After a resume some steps stand in the file
twice; the later row is what the surviving weights produced, so it wins.
"""

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lit_attn.report.errors import ReportError
from lit_attn.report.text import natural_key, plain

SCORE_STAGES = ("val", "test")
CHANCE = "_chance"

_CHANCES = {
    "grounding_mass": "grounding_chance",
    "naming_mass": "naming_chance",
    "pointing_accuracy": "pointing_chance",
    "cause_mass": "cause_mass_chance",
    "cause_pointing": "cause_pointing_chance",
}

_WORD_PROBES = (
    "pos_", "dep_", "phrase_grounding", "phrase_swapped", "phrase_ocr", "object_words", "relation_words", "spatial_",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """One metric over training: strictly increasing steps and their values, which may be nan."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def last(self) -> float:
        return float(self.values[-1])

    def at(self, step: int) -> float | None:
        """The value at this very step, or None if the metric was not logged there."""
        index = int(np.searchsorted(self.steps, step))
        found = index < len(self.steps) and self.steps[index] == step
        return float(self.values[index]) if found else None


@dataclass(frozen=True)
class AttentionName:
    """`val/attention/decoder.3.cross/entropy`, taken apart."""

    stage: str
    site: str
    metric: str


def read_metrics(path: Path, *, still_growing: bool = False) -> dict[str, Series]:
    """All metrics in the file by name, in the order of its columns; those never logged are left out.

    Set `still_growing` while the run is writing: then a last line without its line end is half a line and is skipped.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error
    if still_growing and not content.endswith("\n"):
        content = content[: content.rfind("\n") + 1]
    rows = csv.reader(io.StringIO(content, newline=""))
    header = next(rows, None)
    if not header:
        return {}
    if "step" not in header:
        raise ReportError(f"{path}, line 1: no column 'step' among {header[:6]}. Is this the metrics.csv of a run?")
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ReportError(f"{path}, line 1: the column {twice!r} appears twice; rename or remove one.")
    return _collect(path, header, rows, lambda: rows.line_num)


def _collect(path: Path, header: list[str], rows: Iterable[list[str]], line: Callable[[], int]) -> dict[str, Series]:
    step_column = header.index("step")
    columns = [(index, name) for index, name in enumerate(header) if name not in ("step", "epoch")]
    points: dict[str, dict[int, float]] = {name: {} for _, name in columns}
    for cells in rows:
        if not cells:
            continue
        if len(cells) != len(header):
            raise ReportError(f"{path}, line {line()}: {len(cells)} cells, but the header names {len(header)} columns.")
        step = _number(path, line(), "step", cells[step_column])
        if step != int(step):
            raise ReportError(f"{path}, line {line()}: step {cells[step_column]!r} is not a whole number.")
        for index, name in columns:
            if cells[index].strip():
                points[name][int(step)] = _number(path, line(), name, cells[index])
    return {plain(name): _series(found) for name, found in points.items() if found}


def _number(path: Path, line: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise ReportError(f"{path}, line {line}: {name} is {cell!r}, expected a number.") from error
    if name == "step" and not np.isfinite(value):
        raise ReportError(f"{path}, line {line}: step is {cell!r}, expected a whole number.")
    return value


def _series(points: dict[int, float]) -> Series:
    steps = sorted(points)
    return Series(np.array(steps, dtype=np.int64), np.array([points[step] for step in steps], dtype=np.float64))


def attention_name(name: str) -> AttentionName | None:
    """The parts of an attention metric's name, or None for every other metric."""
    parts = name.split("/", 3)
    return AttentionName(parts[0], parts[2], parts[3]) if len(parts) == 4 and parts[1] == "attention" else None


def is_score(name: str) -> bool:
    """Whether the metric says how good the model's answers are: measured on held-out data, and not about attention."""
    stage, _, rest = name.partition("/")
    return stage in SCORE_STAGES and bool(rest) and not rest.startswith("attention/")


def score_names(logged: Iterable[str], monitors: Iterable[str | None]) -> list[str]:
    """The scores among the names, each once: monitored ones first, the others in natural order."""
    scores = sorted({name for name in logged if is_score(name)}, key=natural_key)
    first = [name for name in dict.fromkeys(monitors) if name in scores]
    return [name for name in first if name] + [name for name in scores if name not in first]


def chance_of(metric: str) -> str | None:
    """The metric that says what a blind guess would reach: `noun_grounding_chance` for `noun_grounding_mass`."""
    for ending, chance in _CHANCES.items():
        if metric.endswith(ending):
            return metric.removesuffix(ending) + chance
    if metric.startswith(_WORD_PROBES) and not metric.endswith(CHANCE):
        return metric + CHANCE
    return None
