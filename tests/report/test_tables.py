"""Scores in the tables are those in the files; spread is over seeds, finished runs only."""

import csv
import io
import json
import statistics
from pathlib import Path

import pytest

from lit_attn.report.runs import Run, read_runs
from lit_attn.report.tables import format_spread, same_models, score_row, score_table, spread, to_csv, to_markdown

HEADER = "epoch,step,train/loss,val/rsum,val/loss\n"


def make(folder: Path, rows: str, **info: object) -> Path:
    folder.mkdir(parents=True)
    known = {"name": folder.name, "recipe": "scan", "alignment": "dot", "seed": 0, "verb": "fit", "status": "done"}
    (folder / "run.json").write_text(json.dumps(known | {"monitor": "val/rsum", "mode": "max"} | info))
    (folder / "metrics.csv").write_text(HEADER + rows)
    return folder


def read(*folders: Path) -> tuple[Run, ...]:
    return read_runs(folders)


def test_best_is_the_step_of_the_monitored_score_for_all_scores(tmp_path: Path) -> None:
    (run,) = read(make(tmp_path / "a", "0,10,3,100,0.5\n1,20,2,300,0.9\n2,30,1,200,0.1\n"))
    row = score_row(run)
    assert (row.best_step, row.last_step) == (20, 30)
    assert row.best == {"val/rsum": 300.0, "val/loss": 0.9}
    assert row.last == {"val/rsum": 200.0, "val/loss": 0.1}


def test_lower_is_better_ties_take_the_first_and_nan_never_wins(tmp_path: Path) -> None:
    rows = "0,10,,nan,0.5\n1,20,,2,0.4\n2,30,,2,0.3\n3,40,,5,0.2\n"
    (run,) = read(make(tmp_path / "a", rows, mode="min"))
    assert score_row(run).best == {"val/rsum": 2.0, "val/loss": 0.4}
    assert score_row(run).best_step == 20


def test_without_a_direction_there_is_no_best(tmp_path: Path) -> None:
    runs = read(make(tmp_path / "a", "0,10,,1,2\n", mode=None), make(tmp_path / "b", "0,10,,1,2\n", monitor="val/gone"))
    assert [score_row(run).best for run in runs] == [{}, {}]


def test_spread_over_seeds_is_the_sample_standard_deviation(tmp_path: Path) -> None:
    peaks = [410.25, 433.5, 421.0]
    folders = [make(tmp_path / f"s{seed}", f"0,1,,{peak},1\n1,2,,7,2\n", seed=seed) for seed, peak in enumerate(peaks)]
    other = make(tmp_path / "other", "0,1,,99,1\n", alignment="cosine")
    table = score_table(read(*folders, other))
    group, single = table.spreads
    assert group.seeds == (0, 1, 2)
    assert group.best["val/rsum"].mean == pytest.approx(statistics.fmean(peaks))
    assert group.best["val/rsum"].std == pytest.approx(statistics.stdev(peaks))
    assert group.last["val/rsum"].std == 0.0
    assert (single.alignment, single.best["val/rsum"].std) == ("cosine", None)
    assert format_spread(group.best["val/rsum"], 3) == "421.6 ± 11.6"


def test_unfinished_and_repeated_runs_do_not_count_and_are_named(tmp_path: Path) -> None:
    runs = read(
        make(tmp_path / "old", "0,1,,1,1\n", seed=0, started="2026-01-01"),
        make(tmp_path / "new", "0,1,,3,1\n", seed=0, started="2026-02-01"),
        make(tmp_path / "one", "0,1,,5,1\n", seed=1),
        make(tmp_path / "died", "0,1,,900,1\n", seed=2, status="failed"),
        make(tmp_path / "tested", "0,1,,800,1\n", seed=3, verb="test"),
    )
    group = score_table(runs).spreads[0]
    assert group.seeds == (0, 1)
    assert group.best["val/rsum"] == spread([3.0, 5.0])
    assert group.left_out == ("old", "died")


def test_csv_has_full_precision(tmp_path: Path) -> None:
    folders = [make(tmp_path / f"s{seed}", f"0,1,,{1 / 3 + seed!r},\n", seed=seed) for seed in (0, 1)]
    rows = list(csv.DictReader(io.StringIO(to_csv(score_table(read(*folders))))))
    assert [row["row"] for row in rows] == ["run", "run", "mean", "std"]
    assert [float(row["val/rsum best"]) for row in rows] == [
        1 / 3,
        4 / 3,
        statistics.fmean([1 / 3, 4 / 3]),
        statistics.stdev([1 / 3, 4 / 3]),
    ]
    assert (rows[0]["run"], rows[0]["best_step"], rows[2]["seeds"]) == ("s0", "1", "2")


def test_markdown(tmp_path: Path) -> None:
    folders = [make(tmp_path / f"s{seed}", f"0,1,,{100 + seed},\n", seed=seed, name=f"a|b{seed}") for seed in (0, 1)]
    lines = to_markdown(score_table(read(*folders))).splitlines()
    assert lines[0] == "| run | alignment | seed | status | val/rsum best | val/rsum last |"
    assert lines[2] == "| a\\|b0 | dot | 0 | done | 100 | 100 |"
    assert lines[9] == "| scan | dot | 2 | 100.5 ± 0.7 | 100.5 ± 0.7 |"


def test_equivalent_alignments_are_found_within_a_recipe(tmp_path: Path) -> None:
    runs = read(
        make(tmp_path / "a", "", alignment="dot", equivalence="dot"),
        make(tmp_path / "b", "", alignment="scaled_dot", equivalence="dot"),
        make(tmp_path / "c", "", alignment="scaled_dot", equivalence="dot", recipe="other"),
        make(tmp_path / "d", "", alignment="activated", equivalence=None),
    )
    assert same_models(score_table(runs).rows) == {("scan", "dot"): ["dot", "scaled_dot"]}
