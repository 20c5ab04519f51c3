"""Which tables does a study make? One row per run, alignments by tasks, breakdowns by kind, differences, correlations."""

import csv
import io
import itertools
import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from lit_attn.report.breakdowns import HEADINGS, NOTES, breakdown_tables
from lit_attn.report.comparisons import compare, finite, models_of, rank_means, sentence
from lit_attn.report.cross_table import Column, CrossTable, to_markdown
from lit_attn.report.heads import HeadGrid, head_grid, latest
from lit_attn.report.published import published_columns
from lit_attn.report.retrieval import TITLES, Ranks, read_ranks
from lit_attn.report.statistics import Correlation, correlation
from lit_attn.report.study_data import Study, StudyRun, attention_columns, by_alignment, interpretability, score_columns
from lit_attn.report.tables import Spread, best_step, spread
from lit_attn.report.text import escape_markdown, format_number


def runs_csv(study: Study) -> str:
    """`study.csv`: one row per run of the grid, finished or not."""
    scores, attention = score_columns(study.runs), attention_columns(study.runs)
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    facts = ["recipe", "alignment", "equivalence", "seed", "status", "run", "parameters", "monitor", "score", "attempts",
             "wall_seconds", "cpu_seconds"]  # fmt: skip
    writer.writerow([*facts, *scores, *(f"attention {metric}" for metric in attention)])
    for row in study.runs:
        info = None if row.run is None else row.run.info
        status = "damaged" if row.damage else "not started" if info is None else info.status
        known = (None,) * 3 if info is None else (info.equivalence, info.parameters, info.monitor)
        writer.writerow(
            [row.cell.recipe, row.cell.alignment, known[0], row.cell.seed, status, row.cell.name, known[1], known[2],
             row.score, row.cost.attempts, round(row.cost.wall, 2), round(row.cost.cpu, 2),
             *(row.scores.get(name) for name in scores), *(row.attention.get(name) for name in attention)]
        )  # fmt: skip
    return output.getvalue()


def spreads(runs: Sequence[StudyRun], values: Sequence[dict[str, float]], name: str) -> dict[str, Spread]:
    """Mean and deviation over seeds of one value, by alignment."""
    by_run = {id(run): value.get(name) for run, value in zip(runs, values, strict=True)}
    found = {}
    for alignment, own in by_alignment(runs).items():
        known = [value for run in own if (value := by_run[id(run)]) is not None and math.isfinite(value)]
        if known:
            found[alignment] = spread(known)
    return found


def same_marks(runs: Sequence[StudyRun], letters: "itertools.count[int]") -> tuple[dict[str, str], list[str]]:
    """A letter for every class of several alignments that are one model, and what the letters mean."""
    marks: dict[str, str] = {}
    said: list[str] = []
    for model in models_of(runs):
        if len(model.alignments) > 1:
            letter = chr(ord("a") + next(letters))
            marks |= dict.fromkeys(model.alignments, letter)
            said.append(
                f"({letter}) {', '.join(model.alignments)}: mathematically the same model there; they differ by noise."
            )
    return marks, said


def task_table(study: Study) -> tuple[CrossTable, list[str]]:
    """Alignments by tasks, each with its monitored score, published values where the data are the same, and mean ranks."""
    columns, notes, letters = [], [], itertools.count()
    better: list[dict[str, float]] = []
    for recipe in study.recipes:
        runs, monitor = study.of(recipe), study.monitor(recipe)
        marks, said = same_marks(runs, letters)
        cells = spreads(runs, [run.scores for run in runs], monitor)
        higher = study.higher_is_better(recipe)
        title = f"{recipe} {monitor}"
        columns.append(Column(title, cells, higher, marks, max(cell.count for cell in cells.values())))
        columns += published_columns(runs)
        notes += [f"{recipe}: {text}" for text in said]
        better.append({name: cell.mean if higher else -cell.mean for name, cell in cells.items()})
    if len(better) > 1:
        ranks = {name: Spread(rank, None, 1) for name, rank in rank_means(better).items()}
        if ranks:
            columns.append(Column("mean rank", ranks, False))
    rows = [a for a in study.info.alignments if any(a in column.cells for column in columns)]
    return CrossTable("alignment", tuple(rows), tuple(columns)), notes


def kind_tables(study: Study) -> dict[str, CrossTable]:
    """Breakdowns of the monitored score, as `val/accuracy_count` is one of `val/accuracy`, by recipe."""
    found = {}
    for recipe in study.recipes:
        runs, monitor = study.of(recipe), study.monitor(recipe)
        names = sorted({name for run in runs for name in run.scores if name.startswith(f"{monitor}_")})
        if names:
            found[recipe] = _table(
                study, runs, [run.scores for run in runs], names, higher=study.higher_is_better(recipe)
            )
    return found


def retrieval_tables(study: Study) -> dict[str, dict[str, CrossTable]]:
    """Rsum by what pictures show and by nouns, at the best step, by recipe and name; only of recipes that retrieve."""
    found = {}
    for recipe in study.recipes:
        groups = {alignment: ranks_of_runs(own) for alignment, own in by_alignment(study.of(recipe)).items()}
        tables = breakdown_tables({alignment: ranks for alignment, ranks in groups.items() if ranks})
        if tables:
            found[recipe] = tables
    return found


def ranks_of_runs(runs: Sequence[StudyRun]) -> list[Ranks]:
    found = [read_ranks(run.run.folder, best_step(run.run)) for run in runs if run.run is not None]
    return [ranks for ranks in found if ranks]


def attention_tables(study: Study) -> dict[str, CrossTable]:
    """Attention metrics, means over sites, by recipe. More is better only where there is a level of chance."""
    found = {}
    for recipe in study.recipes:
        runs = study.of(recipe)
        names = attention_columns(runs)
        if names:
            good = set(interpretability(runs))
            table = _table(study, runs, [run.attention for run in runs], names, higher=None)
            columns = tuple(
                Column(c.title, c.cells, True if c.title in good else None, None, c.seeds) for c in table.columns
            )
            found[recipe] = CrossTable("alignment", table.rows, columns)
    return found


def _table(
    study: Study,
    runs: Sequence[StudyRun],
    values: Sequence[dict[str, float]],
    names: Sequence[str],
    *,
    higher: bool | None,
) -> CrossTable:
    most = max(len(own) for own in by_alignment(runs).values())
    columns = tuple(Column(name, spreads(runs, values, name), higher, None, most) for name in names)
    rows = tuple(a for a in study.info.alignments if a in by_alignment(runs))
    return CrossTable("alignment", rows, columns)


def differences_csv(study: Study) -> str:
    """Every pair of models of every recipe with all tests."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(
        ["recipe", "score", "first", "second", "difference", "hedges_g", "pooled_p", "pooled_p_holm", "permutation_p",
         "bootstrap_low", "bootstrap_high", "seeds", "noise_std", "noise_freedom"]
    )  # fmt: skip
    for recipe in study.recipes:
        found = compare(study.of(recipe), higher_is_better=study.higher_is_better(recipe))
        for d in found.differences:
            writer.writerow(
                [recipe, study.monitor(recipe), d.first.label, d.second.label, d.mean, finite(d.effect), finite(d.pooled_p),
                 finite(d.corrected_p), d.permutation_p, *d.interval, d.seeds, finite(found.noise.std), found.noise.freedom]
            )  # fmt: skip
    return output.getvalue()


def score_against_attention(study: Study) -> dict[tuple[str, str], tuple[dict[str, tuple[float, float]], Correlation]]:
    """Task score against each interpretability metric over distinct models: points by model, and their correlation."""
    found = {}
    for recipe in study.recipes:
        runs = study.of(recipe)
        for metric in interpretability(runs):
            points = {}
            for model in models_of(runs):
                own = [r for r in runs if r.cell.alignment in model.alignments and metric in r.attention]
                if own:
                    points[model.label] = (fmean(r.attention[metric] for r in own), fmean(r.score or 0.0 for r in own))
            x, y = ([point[i] for point in points.values()] for i in (0, 1))
            found[recipe, metric] = (points, correlation(x, y))
    return found


def head_means(runs: Sequence[StudyRun], metric: str) -> HeadGrid | None:
    """The mean over seeds of one per-head metric at the last validation; None where grids differ or nothing is there."""
    grids = []
    for run in runs:
        assert run.run is not None
        tables = [table for table in latest(run.run.heads) if table.stage == "val"]
        grids += [grid for table in tables if (grid := head_grid(table, metric)).rows]
    if not grids or any(g.rows != grids[0].rows or g.values.shape != grids[0].values.shape for g in grids):
        return None
    values = np.mean([grid.values for grid in grids], axis=0)
    return HeadGrid(metric, grids[0].rows, values, np.sum([grid.counts for grid in grids], axis=0))


def head_metrics_of(runs: Sequence[StudyRun]) -> list[str]:
    return sorted({metric for run in runs if run.run for table in run.run.heads for metric in table.metrics})


def correlations_csv(study: Study) -> str:
    """Two kinds of rows: over models (score against attention), and over heads (two metrics of one alignment's heads)."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(["recipe", "over", "alignment", "first", "second", "r", "p", "n"])
    for (recipe, metric), (_, found) in score_against_attention(study).items():
        writer.writerow(
            [recipe, "models", "", study.monitor(recipe), metric, finite(found.r), finite(found.p), found.n]
        )
    for recipe in study.recipes:
        for alignment, runs in by_alignment(study.of(recipe)).items():
            grids = {m: grid for m in head_metrics_of(runs) if (grid := head_means(runs, m)) is not None}
            for one, other in itertools.combinations(grids, 2):
                found = _over_heads(grids[one], grids[other])
                if found.n >= 3 and not math.isnan(found.r):
                    writer.writerow([recipe, "heads", alignment, one, other, found.r, found.p, found.n])
    return output.getvalue()


def _over_heads(one: HeadGrid, other: HeadGrid) -> Correlation:
    """Over the heads that both metrics were measured at."""
    place = {row.site: i for i, row in enumerate(other.rows)}
    pairs = [
        (float(one.values[i, h]), float(other.values[place[row.site], h]))
        for i, row in enumerate(one.rows)
        if row.site in place
        for h in range(min(one.values.shape[1], other.values.shape[1]))
    ]
    return correlation([pair[0] for pair in pairs], [pair[1] for pair in pairs])


def table_markdown(study: Study) -> str:
    """`table.md`: the cross-task table, breakdowns, attention, what differs beyond noise, and what is missing."""
    table, notes = task_table(study)
    finished = sum(run.done for run in study.runs)
    parts = [
        f"# Study {escape_markdown(study.info.name)}",
        f"{finished} of {len(study.runs)} runs finished. Mean ± sample standard deviation over seeds, at the step where the "
        "monitored score was best; that step is chosen on the same data, so all scores are a little too good.",
        to_markdown(table).rstrip(),
        "\n".join(f"- {escape_markdown(note)}" for note in notes),
        "## What differs beyond noise",
    ]
    for recipe in study.recipes:
        found = compare(study.of(recipe), higher_is_better=study.higher_is_better(recipe))
        parts.append(escape_markdown(sentence(found, f"{recipe} {study.monitor(recipe)}")))
    against = score_against_attention(study)
    if against:
        parts.append("## Task score against interpretability, over models")
        lines = ["| recipe | attention | r | p | n |", "| --- | --- | ---: | ---: | ---: |"]
        lines += [
            f"| {escape_markdown(r)} | {escape_markdown(m)} | {format_number(c.r)} | {format_number(c.p)} | {c.n} |"
            for (r, m), (_, c) in against.items()
        ]
        parts += ["\n".join(lines), _correlation_note(list(against.values()))]
    for title, tables in (("By kind", kind_tables(study)), ("Attention, mean over sites", attention_tables(study))):
        for recipe, own in tables.items():
            parts += [f"## {title}: {escape_markdown(recipe)}", to_markdown(own).rstrip()]
    for recipe, tables in retrieval_tables(study).items():
        for name, own in tables.items():
            kind, _, way = name.rpartition("-")
            title = f"{HEADINGS[kind]}, {TITLES[way]}, Rsum: {recipe}"
            parts += [f"## {escape_markdown(title)}", NOTES[kind], to_markdown(own).rstrip()]
    damaged = [f"- {run.cell.name}: {escape_markdown(run.damage)}" for run in study.runs if run.damage]
    open_runs = [run.cell.name for run in study.runs if not run.done and not run.damage]
    if damaged:
        parts += ["## Damaged", "\n".join(damaged)]
    if open_runs:
        parts += ["## Not finished", escape_markdown(", ".join(open_runs))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _correlation_note(found: Sequence[tuple[dict[str, tuple[float, float]], Correlation]]) -> str:
    fewest = min(c.n for _, c in found)
    return (
        f"Pearson's r over distinct models (equal ones are one point), p by all orders of the points and not corrected for the "
        f"{len(found)} rows. n is as small as {fewest}; r of so few points says little."
    )
