"""Does the truth table take the runs of a study, and keep tasks apart?"""

import pytest

from lit_attn.cli.studied_runs import runs_of
from lit_attn.drawing.truth_map import above_chance, draw_truth
from lit_attn.errors import UserError
from lit_attn.explain.truth_table import markdown, summarised
from lit_attn.run.folder import RunInfo
from lit_attn.study.folder import StudyInfo, write_study


def _made(folder):
    folder.mkdir()
    return folder


def study(folder, finished, recipes=("mac", "scan")):
    folder.mkdir(parents=True)
    write_study(folder, StudyInfo("s", dict.fromkeys(recipes, "x"), dict.fromkeys(recipes, "y"), ("dot",), (0, 1), ()))
    tasks = {"mac": "lit_attn.tasks.answering.Answering", "scan": "lit_attn.tasks.matching.Matching"}
    for name in finished:
        (folder / name).mkdir()
        (folder / name / "config.yaml").write_text(f"model: {{class_path: {tasks[name.split('-')[0]]}}}")
        RunInfo(name, "fit", status="done").write(folder / name)


def test_a_study_stands_for_its_finished_runs_that_can_be_explained(tmp_path, caplog):
    study(tmp_path / "all", ["mac-dot-s0", "scan-dot-s0", "scan-dot-s1"])
    assert runs_of(str(tmp_path / "all")) == [str(tmp_path / "all" / "mac-dot-s0")]
    assert "1 of 4 runs are finished and can be explained" in caplog.text
    RunInfo("mac-dot-s1", "fit").write(_made(tmp_path / "all" / "mac-dot-s1"))
    assert len(runs_of(str(tmp_path / "all"))) == 1, "one that is still training is left out"
    assert runs_of("all", [tmp_path]) == runs_of(str(tmp_path / "all")), "by name, too"
    assert runs_of("mac_scenes", [tmp_path]) == ["mac_scenes"]
    study(tmp_path / "none", ["scan-dot-s0"])
    with pytest.raises(UserError, match="no finished run of a model that can be explained"):
        runs_of(str(tmp_path / "none"))


def row(task, alignment, seed, method, measure, value):
    return {
        "run": "r", "task": task, "alignment": alignment, "seed": seed, "taught": False, "setting": f"{task} {alignment}",
        "method": method, "measure": measure, "value": value, "chance": 0.25, "samples": 7,
    }  # fmt: skip


def test_tables_and_pictures_keep_tasks_apart():
    rows = [
        row(task, alignment, seed, method, measure, 0.3 + 0.1 * seed)
        for task, alignments, methods in (("mac", ("dot", "cosine"), ("raw",)), ("m4c", ("dot",), ("raw", "t_attr")))
        for alignment in alignments
        for seed in (0, 1)
        for method in methods
        for measure in ("mass", "pointing", "average_precision")
    ]
    summary = summarised(rows)
    text = markdown(summary, 7)
    mac = text[text.index("## mass, mac") : text.index("## mass, m4c")]
    assert "| method | dot | cosine |" in mac
    assert "| raw | 0.350 ± 0.071 | 0.350 ± 0.071 |" in mac
    assert "t_attr" not in mac, "a method that a task does not have is no row of dashes"
    assert "| t_attr | 0.350 ± 0.071 |" in text[text.index("## mass, m4c") :]
    cells = [(r["task"], r["method"], r["alignment"], r["measure"], r["mean"], r["chance"]) for r in summary]
    one, two = (draw_truth([cell for cell in cells if cell[0] in tasks]) for tasks in (["mac"], ["mac", "m4c"]))
    assert two.height > one.height
    assert two.width == one.width, "the widest band decides"


def test_colour_says_how_far_above_chance():
    assert above_chance(0.25, 0.25) == 0
    assert above_chance(1.0, 0.25) == 1
    assert above_chance(0.0, 0.25) == -1
    assert above_chance(float("nan"), 0.25) == 0
