"""Does the page show what a run painted, as it is, within its budget, and nothing that is no picture?"""

from pathlib import Path

from PIL import Image

from lit_attn.report.page import write_report
from lit_attn.report.paintings import painted_sheets, painting_section
from lit_attn.report.runs import read_runs


def run(folder: Path, name: str, sheets: int = 2) -> Path:
    place = folder / name
    (place / "paintings" / "val").mkdir(parents=True)
    (place / "metrics.csv").write_text("step,epoch,val/fid\n3,0,9.5\n")
    Image.new("RGB", (40, 30), (9, 99, 9)).save(place / "paintings" / "val.png")
    for number in range(sheets):
        Image.new("RGB", (50, 20), (number, 0, 0)).save(place / "paintings" / "val" / f"val-{number}.png")
        Image.new("RGB", (5, 5)).save(place / "paintings" / "val" / f"val-{number}-image.png")
    return place


def test_overviews_come_first_then_single_sheets(tmp_path):
    runs = read_runs([run(tmp_path, "a"), run(tmp_path, "b", sheets=1)])
    sheets = painted_sheets(runs, 10**6)
    assert [(sheet.run, sheet.name) for sheet in sheets] == [
        (0, "val"), (1, "val"), (0, "val-0"), (0, "val-1"), (1, "val-0"),
    ]  # fmt: skip
    assert [sheet.size for sheet in sheets[:3]] == [(40, 30), (40, 30), (50, 20)]
    assert sheets[0].content == (tmp_path / "a" / "paintings" / "val.png").read_bytes()


def test_the_budget_holds(tmp_path):
    runs = read_runs([run(tmp_path, "a")])
    whole = painted_sheets(runs, 10**6)
    assert len(painted_sheets(runs, sum(4 * len(sheet.content) // 3 + 4 for sheet in whole[:2]))) == 2
    assert painted_sheets(runs, 3) == []
    assert painting_section(runs, []) is None


def test_the_page_shows_them_and_survives_files_that_are_no_pictures(tmp_path):
    folder = run(tmp_path, "a")
    (folder / "paintings" / "val" / "val-0.png").write_bytes(b"no picture")
    page = write_report([folder]).read_text()
    assert "What it paints" in page
    assert "val-1" in page
    assert "Pictures painted from captions: val-0" not in page
    other = tmp_path / "b"
    other.mkdir()
    (other / "metrics.csv").write_text("step,epoch,val/fid\n3,0,9.5\n")
    assert "What it paints" not in write_report([other]).read_text()
