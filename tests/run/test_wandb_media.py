"""Does W&B get the tables, figures and pages of a report, and nothing beyond its limits?"""

import csv
import logging

import pytest
from PIL import Image

from lit_attn.run import wandb_media
from lit_attn.run.wandb_media import read_table, report_media

wandb = pytest.importorskip("wandb")


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_tables_figures_and_pages_of_a_study(tmp_path):
    write_csv(tmp_path / "study.csv", [["run", "score"], ["a", "1.5"], ["b", ""]])
    write_csv(tmp_path / "tables" / "table.csv", [["x"], ["nan"]])
    write_csv(tmp_path / "empty.csv", [["x"]])
    write_csv(tmp_path / "a-run" / "metrics.csv", [["x"], ["1"]])
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (3, 5)).save(tmp_path / "figures" / "table.png")
    for name in ("scan", "mac"):
        (tmp_path / "report" / name).mkdir(parents=True)
        (tmp_path / "report" / name / "index.html").write_text(f"<p>{name}</p>")
    found = report_media(tmp_path, "study")
    kinds = {name: type(value).__name__ for name, value in found.items()}
    assert kinds == {"study/study": "Table", "study/tables/table": "Table", "study/figures/table": "Image",
                     "study/report/mac/index": "Html", "study/report/scan/index": "Html"}  # fmt: skip
    assert found["study/study"].data == [["a", 1.5], ["b", None]]
    assert found["study/report/scan/index"].html == "<p>scan</p>", "nothing is put into the page"


def test_long_and_wide_tables_are_cut_and_that_is_said(tmp_path, caplog):
    most = wandb_media.MOST_ROWS
    assert most <= wandb.Table.MAX_ROWS
    write_csv(tmp_path / "long.csv", [["place"], *([str(i)] for i in range(most + 7))])
    write_csv(tmp_path / "wide.csv", [[f"c{i}" for i in range(203)], ["1"] * 203])
    with caplog.at_level(logging.WARNING):
        columns, rows = read_table(tmp_path / "long.csv")
        assert (len(rows), rows[-1]) == (most, [float(most - 1)])
        columns, rows = read_table(tmp_path / "wide.csv")
    assert len(columns) == len(rows[0]) == 200
    assert "long.csv has 10007 rows and 1 columns; W&B gets the first 10000 and 200" in caplog.text
    assert "wide.csv has 1 rows and 203 columns" in caplog.text


def test_a_page_that_is_too_large_is_left_out_and_named(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(wandb_media, "LARGEST_PAGE", 10)
    (tmp_path / "index.html").write_text("x" * 11)
    assert report_media(tmp_path, "report") == {}
    assert "index.html is larger than" in caplog.text
