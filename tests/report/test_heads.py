"""Per-head tables become grids with the right value in the right cell."""

from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.errors import ReportError
from lit_attn.report.heads import color_range, grid_row, head_grid, latest, on_scale, read_heads

HEADER = "site,head,metric,value,count\n"


def write(tmp_path: Path, name: str, rows: str) -> None:
    (tmp_path / name).write_text(HEADER + rows)


def test_grid_has_sites_in_natural_order_and_nan_where_nothing_was_measured(tmp_path: Path) -> None:
    rows = [
        "decoder.10.cross,0,entropy,10.0,7",
        "decoder.9.cross,2,entropy,9.2,5",
        "decoder.9.cross,0,entropy,nan,0",
        "match,1,entropy,0.5,3",
        "match,0,mass,0.9,3",
    ]
    write(tmp_path, "val-00000100.csv", "\n".join(rows) + "\n")
    (table,) = read_heads(tmp_path)
    grid = head_grid(table, "entropy")
    assert [(row.block, row.label) for row in grid.rows] == [
        ("decoder · cross", "layer 10"),
        ("decoder · cross", "layer 11"),
        ("", "match"),
    ]
    nan = np.nan
    np.testing.assert_array_equal(grid.values, [[nan, nan, 9.2], [10.0, nan, nan], [nan, 0.5, nan]])
    np.testing.assert_array_equal(grid.counts, [[0, 0, 5], [7, 0, 0], [0, 3, 0]])
    assert color_range([grid]) == (0.5, 10.0)
    assert table.metrics == ["entropy", "mass"]


def test_latest_is_the_last_step_of_each_stage(tmp_path: Path) -> None:
    for name in ("val-00000900.csv", "val-00001000.csv", "test-00000500.csv", "notes.csv"):
        write(tmp_path, name, "match,0,entropy,1,1\n")
    tables = latest(read_heads(tmp_path))
    assert [(table.stage, table.step) for table in tables] == [("test", 500), ("val", 1000)]


def test_rows_of_sites() -> None:
    assert (grid_row("encoder.0.self").block, grid_row("encoder.0.self").label) == ("encoder · self", "layer 1")
    assert grid_row("encoder.4").block == "encoder"
    assert grid_row("match").block == ""


def test_scale_of_one_point_and_of_nothing(tmp_path: Path) -> None:
    write(tmp_path, "val-1.csv", "match,0,entropy,2.0,1\nmatch,1,entropy,2.0,1\nmatch,0,bad,nan,1\n")
    (table,) = read_heads(tmp_path)
    grid, empty = head_grid(table, "entropy"), head_grid(table, "bad")
    assert (color_range([grid]), on_scale(2.0, 2.0, 2.0)) == ((2.0, 2.0), 0.5)
    assert color_range([empty]) == (0.0, 1.0)
    assert on_scale(3.0, 1.0, 5.0) == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("site,head\n", r"val-1\.csv, line 1: columns are \['site', 'head'\]"),
        (HEADER + "match,x,entropy,1,1\n", r"val-1\.csv, line 2: .*'x'"),
        (HEADER + "match,0,entropy,1,1\nmatch,1,entropy,one,1\n", r"val-1\.csv, line 3: .*'one'"),
        (HEADER + "match,0,entropy\n", r"val-1\.csv, line 2: 3 cells, expected 5"),
        (HEADER + "match,-1,entropy,1,1\n", r"line 2: head is -1; heads count from 0"),
    ],
)
def test_malformed_tables_name_the_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "val-1.csv").write_text(content)
    with pytest.raises(ReportError, match=message):
        read_heads(tmp_path)
