"""How well did each run do, and how much of a difference is noise?

One row per run: every score at the step where the monitored score was best (the step whose weights were kept) and
at the end. Then mean and sample standard deviation over seeds. Only finished runs enter a mean, each seed once;
what is left out is named.
"""

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lit_attn.report.metrics import score_names
from lit_attn.report.runs import Run
from lit_attn.report.text import escape_markdown, format_number

_FACTS = ("recipe", "alignment", "equivalence", "seed", "parameters", "verb", "status")


@dataclass(frozen=True)
class ScoreRow:
    """The scores of one run. `best` is empty if the run names no monitored score with a direction."""

    run: Run
    best_step: int | None
    last_step: int | None
    best: dict[str, float]
    last: dict[str, float]


@dataclass(frozen=True)
class Spread:
    """Mean over seeds; `std` is the sample standard deviation (n - 1), None for a single seed."""

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True)
class SpreadRow:
    """All finished runs of one recipe and alignment."""

    recipe: str
    alignment: str | None
    equivalence: str | None
    verb: str | None
    seeds: tuple[int, ...]
    left_out: tuple[str, ...]
    """Names of the runs that belong here but do not count: unfinished, or an older run of the same seed."""
    best: dict[str, Spread]
    last: dict[str, Spread]


@dataclass(frozen=True)
class ScoreTable:
    """Everything `scores.csv` and `scores.md` hold."""

    names: tuple[str, ...]
    rows: tuple[ScoreRow, ...]
    spreads: tuple[SpreadRow, ...]


def score_table(runs: Sequence[Run]) -> ScoreTable:
    """The table of all runs."""
    names = score_names((name for run in runs for name in run.metrics), (run.info.monitor for run in runs))
    rows = tuple(score_row(run) for run in runs)
    return ScoreTable(tuple(names), rows, tuple(spread_rows(rows)))


def best_step(run: Run) -> int | None:
    """The first step at which the monitored score was best, nan aside."""
    series = run.metrics.get(run.info.monitor or "")
    if series is None or run.info.mode is None:
        return None
    sign = 1.0 if run.info.mode == "max" else -1.0
    points = [(sign * value, -step) for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True)]
    valid = [point for point in points if not math.isnan(point[0])]
    return -max(valid)[1] if valid else None


def score_row(run: Run) -> ScoreRow:
    """One run's scores at its best step and at its end."""
    names = score_names(run.metrics, [run.info.monitor])
    step = best_step(run)
    at_best = {name: run.metrics[name].at(step) for name in names} if step is not None else {}
    return ScoreRow(
        run=run,
        best_step=step,
        last_step=max((int(run.metrics[name].steps[-1]) for name in names), default=None),
        best={name: value for name, value in at_best.items() if value is not None},
        last={name: run.metrics[name].last for name in names},
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation of at least one value."""
    std = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), std, len(values))


def spread_rows(rows: Iterable[ScoreRow]) -> list[SpreadRow]:
    """One row per recipe, alignment and verb that at least one finished, seeded run belongs to."""
    groups: dict[tuple[str, str | None, str | None], list[ScoreRow]] = {}
    for row in rows:
        info = row.run.info
        if info.recipe is not None and info.seed is not None:
            groups.setdefault((info.recipe, info.alignment, info.verb), []).append(row)
    found = [_spread_row(*key, group) for key, group in groups.items()]
    return [row for row in found if row.seeds]


def _spread_row(recipe: str, alignment: str | None, verb: str | None, group: list[ScoreRow]) -> SpreadRow:
    by_seed: dict[int, ScoreRow] = {}
    for row in sorted(group, key=lambda row: row.run.info.started or ""):
        if row.run.info.status == "done" and row.run.info.seed is not None:
            by_seed[row.run.info.seed] = row
    counted = [by_seed[seed] for seed in sorted(by_seed)]
    kept = {id(row) for row in counted}
    classes = {row.run.info.equivalence for row in counted}
    return SpreadRow(
        recipe=recipe,
        alignment=alignment,
        equivalence=classes.pop() if len(classes) == 1 else None,
        verb=verb,
        seeds=tuple(sorted(by_seed)),
        left_out=tuple(row.run.name for row in group if id(row) not in kept),
        best=_spreads([row.best for row in counted]),
        last=_spreads([row.last for row in counted]),
    )


def _spreads(scores: Sequence[dict[str, float]]) -> dict[str, Spread]:
    names = dict.fromkeys(name for found in scores for name in found)
    return {name: spread([found[name] for found in scores if name in found]) for name in names}


def same_models(rows: Sequence[ScoreRow]) -> dict[tuple[str | None, str], list[str]]:
    """Alignments that are one and the same model, by recipe and equivalence class; only classes with two or more."""
    found: dict[tuple[str | None, str], list[str]] = {}
    for row in rows:
        info = row.run.info
        if info.equivalence is not None and info.alignment is not None:
            names = found.setdefault((info.recipe, info.equivalence), [])
            if info.alignment not in names:
                names.append(info.alignment)
    return {key: names for key, names in found.items() if len(names) > 1}


def format_spread(value: Spread, seeds: int) -> str:
    """`512.3 ± 4.1`, with the number of seeds if some of them lack this score."""
    text = format_number(value.mean)
    if value.std is not None:
        decimals = len(text.partition(".")[2])
        rounded = f"{value.std:.{decimals}f}" if decimals and "e" not in text else format_number(value.std)
        text += f" ± {rounded}"
    return text if value.count == seeds else f"{text} (n = {value.count})"


def to_csv(table: ScoreTable) -> str:
    """Full precision. `row` is `run`, or `mean` and `std` over the seeds counted in `seeds`."""
    columns = ["row", "run", *_FACTS, "seeds", "best_step", "last_step"]
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*columns, *(f"{name} {which}" for name in table.names for which in ("best", "last"))])
    for row in table.rows:
        facts = [getattr(row.run.info, fact) for fact in _FACTS]
        scores = [found.get(name) for name in table.names for found in (row.best, row.last)]
        writer.writerow(["run", row.run.name, *facts, None, row.best_step, row.last_step, *scores])
    for group in table.spreads:
        facts = [group.recipe, group.alignment, group.equivalence, None, None, group.verb, "done"]
        found = [where.get(name) for name in table.names for where in (group.best, group.last)]
        means = [None if value is None else value.mean for value in found]
        stds = [None if value is None else value.std for value in found]
        for kind, scores in (("mean", means), ("std", stds)):
            writer.writerow([kind, None, *facts, len(group.seeds), None, None, *scores])
    return output.getvalue()


def to_markdown(table: ScoreTable) -> str:
    """The same for reading: rounded, one table of runs and, with several seeds, one of means."""
    heads = [
        "run",
        "alignment",
        "seed",
        "status",
        *(f"{name} {which}" for name in table.names for which in ("best", "last")),
    ]
    rows = []
    for row in table.rows:
        info = row.run.info
        scores = [found.get(name, math.nan) for name in table.names for found in (row.best, row.last)]
        rows.append(
            [
                info.name,
                *(_or_dash(item) for item in (info.alignment, info.seed, info.status)),
                *map(format_number, scores),
            ]
        )
    parts = [_markdown(heads, rows, numbers_from=4)]
    if any(len(group.seeds) > 1 for group in table.spreads):
        heads = [
            "recipe",
            "alignment",
            "seeds",
            *(f"{name} {which}" for name in table.names for which in ("best", "last")),
        ]
        rows = []
        for group in table.spreads:
            found = [where.get(name) for name in table.names for where in (group.best, group.last)]
            cells = ["–" if value is None else format_spread(value, len(group.seeds)) for value in found]
            rows.append([group.recipe, _or_dash(group.alignment), str(len(group.seeds)), *cells])
        parts += ["Mean ± sample standard deviation over seeds.", _markdown(heads, rows, numbers_from=2)]
    for (_, equivalence), names in same_models(table.rows).items():
        parts.append(escape_markdown(f"The same model ({equivalence}): {', '.join(names)}."))
    return "\n\n".join(parts) + "\n"


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int) -> str:
    rule = ["---" if index < numbers_from else "---:" for index in range(len(heads))]
    lines = [
        [escape_markdown(cell) for cell in heads],
        rule,
        *([escape_markdown(cell) for cell in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
