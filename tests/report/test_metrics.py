"""metrics.csv is read as it was logged."""

from pathlib import Path

import pytest

from lit_attn.report.errors import ReportError
from lit_attn.report.metrics import attention_name, chance_of, is_score, read_metrics, score_names


def read(tmp_path: Path, text: str, *, still_growing: bool = False) -> dict[str, tuple[list[int], list[float]]]:
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    series = read_metrics(path, still_growing=still_growing)
    return {name: (found.steps.tolist(), found.values.tolist()) for name, found in series.items()}


def test_empty_cells_are_not_points(tmp_path: Path) -> None:
    found = read(tmp_path, "epoch,step,train/loss,val/rsum\n0,1,2.5,\n0,2,,100\n1,3,1.5,200\n")
    assert found == {"train/loss": ([1, 3], [2.5, 1.5]), "val/rsum": ([2, 3], [100.0, 200.0])}


def test_after_a_resume_the_later_row_wins(tmp_path: Path) -> None:
    found = read(tmp_path, "epoch,step,loss\n0,1,5\n0,2,4\n0,3,9\n0,2,3\n0,3,2\n")
    assert found == {"loss": ([1, 2, 3], [5.0, 3.0, 2.0])}


def test_steps_are_sorted(tmp_path: Path) -> None:
    assert read(tmp_path, "epoch,step,loss\n0,1,5\n0,3,2\n0,2,3\n") == {"loss": ([1, 2, 3], [5.0, 3.0, 2.0])}


def test_empty_file_and_columns_never_logged(tmp_path: Path) -> None:
    assert read(tmp_path, "") == {}
    assert read(tmp_path, "epoch,step,loss\n0,1,\n") == {}


def test_half_a_line_of_a_growing_file_is_skipped(tmp_path: Path) -> None:
    assert read(tmp_path, "epoch,step,loss\n0,1,5\n0,2,0.12", still_growing=True) == {"loss": ([1], [5.0])}
    assert read(tmp_path, "epoch,step,loss\n0,1,5\n0,2,0.12") == {"loss": ([1, 2], [5.0, 0.12])}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch,step,loss\n0,1,2\n0,2,abc\n", r"metrics\.csv, line 3: loss is 'abc', expected a number"),
        ("epoch,step,loss\n0,1\n", r"metrics\.csv, line 2: 2 cells, but the header names 3"),
        ("epoch,step,loss\n0,,1\n", r"line 2: step is ''"),
        ("epoch,step,loss\n0,1.5,1\n", r"line 2: step '1\.5' is not a whole number"),
        ("epoch,step,loss\n0,nan,1\n", r"line 2: step is 'nan'"),
        ("a,b\n1,2\n", r"line 1: no column 'step'"),
        ("step,loss,loss\n1,2,3\n", r"line 1: the column 'loss' appears twice"),
    ],
)
def test_malformed_files_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ReportError, match=message):
        read(tmp_path, text)


def test_names() -> None:
    parts = attention_name("val/attention/decoder.3.cross/entropy")
    assert parts is not None
    assert (parts.stage, parts.site, parts.metric) == ("val", "decoder.3.cross", "entropy")
    assert attention_name("val/rsum") is None
    assert [is_score(name) for name in ("val/rsum", "test/i2t/r1", "train/loss", "lr", "val/attention/a/b")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert chance_of("grounding_mass") == "grounding_chance"
    assert chance_of("grounding_chance") is None
    assert chance_of("noun_pointing_accuracy") == "noun_pointing_chance"
    assert chance_of("grounding_entropy") is None


def test_monitored_scores_come_first() -> None:
    logged = ["val/i2t/r10", "val/i2t/r5", "val/rsum", "lr"]
    assert score_names(logged, ["val/rsum", None]) == ["val/rsum", "val/i2t/r5", "val/i2t/r10"]
