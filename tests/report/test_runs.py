"""Run folders are read, and what cannot be read is named with a way out."""

from pathlib import Path

import pytest

from lit_attn.report.errors import ReportError
from lit_attn.report.runs import differing_settings, flatten, read_run, read_runs


def bare(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("")
    return folder


def test_full_folder(run: Path) -> None:
    found = read_run(run)
    assert (found.name, found.info.alignment, found.info.monitor) == ("scan-general-0", "general_query", "val/rsum")
    assert found.fact("val/ceiling_rsum") == 571.2
    assert found.settings["model.alignment"] == "general_query"
    assert (len(found.heads), len(found.gallery)) == (10, 5)
    assert found.metrics["val/rsum"].steps.tolist() == list(range(100, 1001, 100))


def test_folder_with_an_empty_metrics_file_only(tmp_path: Path) -> None:
    found = read_run(bare(tmp_path / "young"))
    assert (found.name, found.info.recipe, found.metrics, found.config) == ("young", None, {}, None)


def test_missing_folder_lists_its_nearest_neighbours(tmp_path: Path) -> None:
    for name in ("scan-0", "scan-1", "scan-2", "scan-3", "scan-4", "mac"):
        bare(tmp_path / name)
    (tmp_path / "notes").mkdir()
    with pytest.raises(ReportError, match=r"scan-9: no such run folder\. Run folders beside it: scan-0, .*scan-4\.$"):
        read_run(tmp_path / "scan-9")
    with pytest.raises(ReportError, match="There are no run folders in"):
        read_run(tmp_path / "notes" / "x")


def test_folder_with_nothing_to_report(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ReportError, match=r"nothing to report; it has no metrics\.csv, no attention and no gallery"):
        read_run(tmp_path)


def test_no_folder() -> None:
    with pytest.raises(ReportError, match="No run folder was named"):
        read_runs([])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"run\.json, line 1: not valid JSON"),
        ("[]", r"run\.json: holds a list, expected a JSON object"),
        ('{"seed": "one"}', r"run\.json, key 'seed': 'one', expected a whole number or null"),
        ('{"name": 3}', r"run\.json, key 'name': 3, expected text"),
        ('{"mode": "up"}', r"run\.json, key 'mode': 'up', expected 'max', 'min' or null"),
        ('{"facts": {"x": null}}', r"run\.json, key 'facts\.x': None"),
    ],
)
def test_malformed_run_json(tmp_path: Path, content: str, message: str) -> None:
    bare(tmp_path / "a").joinpath("run.json").write_text(content)
    with pytest.raises(ReportError, match=message):
        read_run(tmp_path / "a")


def test_malformed_config_names_the_line_and_never_runs_code(tmp_path: Path) -> None:
    config = bare(tmp_path / "a") / "config.yaml"
    config.write_text("a: 1\nb: [\n")
    with pytest.raises(ReportError, match=r"config\.yaml, line \d: not valid YAML"):
        read_run(tmp_path / "a")
    config.write_text("a: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(ReportError, match=r"config\.yaml, line 1"):
        read_run(tmp_path / "a")


def test_same_folder_once_and_same_name_made_distinct(tmp_path: Path) -> None:
    first, second = bare(tmp_path / "x" / "run"), bare(tmp_path / "y" / "run")
    found = read_runs([second, first, tmp_path / "x" / ".." / "x" / "run"])
    assert [run.name for run in found] == ["run (y/run)", "run (x/run)"]


def test_settings_that_differ(tmp_path: Path) -> None:
    for name, text in (("a", "seed: 1\nm: {w: 2, k: [1, 2]}\n"), ("b", "seed: 2\nm: {w: 2, k: [1, 3]}\nn: 1\n")):
        bare(tmp_path / name).joinpath("config.yaml").write_text(text)
    runs = read_runs([tmp_path / "a", tmp_path / "b", bare(tmp_path / "c")])
    assert differing_settings(runs) == {"seed": [1, 2, None], "m.k.1": [2, 3, None], "n": [None, 1, None]}
    assert flatten({"a": {}, "b": []}) == {"a": {}, "b": []}
