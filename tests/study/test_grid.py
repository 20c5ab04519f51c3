"""Is the grid what was asked for, and is a mistake in it named?"""

import json
import os
from pathlib import Path

import pytest
import yaml

from lit_attn.cli.main import main
from lit_attn.cli.recipes import find_recipe
from lit_attn.errors import UserError
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.run.claim import claim, left_without_checkpoint
from lit_attn.study import folder as place
from lit_attn.study.grid import (
    ALIGNMENT_NAMES,
    cells,
    check_extra,
    find_recipes,
    parse_alignments,
    parse_seeds,
    settings_as_flags,
)
from lit_attn.study.journal import costs, note
from lit_attn.study.local import Job
from lit_attn.study.slurm import script, submit
from lit_attn.study.sweep import sweep


def test_names_of_alignments_are_those_of_the_network():
    assert tuple(ALIGNMENTS) == ALIGNMENT_NAMES
    assert parse_alignments("all") == ALIGNMENT_NAMES
    assert parse_alignments("dot, my.own.Alignment,dot") == ("dot", "my.own.Alignment")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: parse_alignments("dott"), "Did you mean 'dot'"),
        (lambda: parse_alignments("dot,"), "Unknown alignment ''"),
        (lambda: parse_seeds("0,one"), "'one' is no seed"),
        (lambda: parse_seeds("-1"), "'-1' is no seed"),
        (lambda: parse_seeds("4-2"), "'4-2' is no seed"),
        (lambda: find_recipes(["tiny/scann"], find_recipe), "Did you mean 'tiny/scan'"),
        (lambda: check_extra(["--run", "x"]), "--run is decided by the study"),
        (lambda: check_extra(["--model.alignment=dot"]), "--model.alignment is decided"),
        (lambda: settings_as_flags(["trainer.max_epochs"]), "expected KEY=VALUE"),
    ],
)
def test_mistakes_are_named(call, said):
    with pytest.raises(UserError, match=said):
        call()


def test_grid_has_every_cell_once_with_seeds_outermost():
    found = cells(["a", "b"], ["dot", "cosine"], parse_seeds("0,3-4"))
    assert len({cell.name for cell in found}) == len(found) == 12
    assert [cell.seed for cell in found] == [0] * 4 + [3] * 4 + [4] * 4
    with pytest.raises(UserError, match="both be called 'a-m_X-s0'"):
        cells(["a"], ["m_X", "m-X"], [0])


def test_recipes_of_one_file_name_get_longer_labels(tmp_path):
    (tmp_path / "scan.yaml").write_text("{}")
    labels = [
        recipe.label for recipe in find_recipes(["tiny/scan", "tiny/mac", str(tmp_path / "scan.yaml")], find_recipe)
    ]
    assert labels[0] == "tiny_scan"
    assert labels[1] == "mac"
    assert labels[2].endswith("_scan")


def described(seeds=(0,), alignments=("dot",), extra=()):
    return place.described("s", find_recipes(["tiny/scan"], find_recipe), alignments, seeds, extra)


def test_a_study_grows_but_does_not_change(tmp_path):
    old = described()
    grown = place.merged(old, described((1,), ("cosine",)), tmp_path)
    assert grown.seeds == (0, 1)
    assert grown.alignments == ("dot", "cosine")
    with pytest.raises(UserError, match="the study has none, the command says --trainer.max_epochs=1"):
        place.merged(old, described(extra=("--trainer.max_epochs=1",)), tmp_path)
    changed = place.StudyInfo(**{**old.__dict__, "digests": {"scan": "0"}})
    with pytest.raises(UserError, match="recipe tiny/scan: its text has changed"):
        place.merged(changed, old, tmp_path)


def test_study_file_comes_back_and_damage_is_named(tmp_path):
    info = described((0, 2), ("dot", "cosine"), ("--x=1",))
    place.write_study(tmp_path, info)
    assert place.read_study(tmp_path) == info
    (tmp_path / "study.json").write_text('{"name"')
    with pytest.raises(UserError, match="study.json is damaged"):
        place.read_study(tmp_path)


def test_a_second_study_is_refused_and_a_dead_one_waited_for(tmp_path):
    held = place.lock(tmp_path, lambda _: None)
    (tmp_path / "study.lock").write_text(f"{os.getppid()}@{place.socket.gethostname()}")
    with pytest.raises(UserError, match="Another study is at work"):
        place.lock(tmp_path, lambda _: None)
    (tmp_path / "study.lock").write_text(f"999999999@{place.socket.gethostname()}")
    said = []
    with pytest.raises(UserError, match="still at work"):
        place.lock(tmp_path, said.append, longest=0.3)
    assert said == ["Runs of an earlier study are still ending; waiting for them."]
    os.close(held)
    os.close(place.lock(tmp_path, said.append, longest=0.3))


def test_state_of_runs(tmp_path):
    (cell,) = described().cells
    assert place.state_of(tmp_path, cell) == "open"
    run = tmp_path / "scan-dot-s0"
    run.mkdir()
    (run / "last.ckpt").touch()
    assert place.state_of(tmp_path, cell) == "begun"
    (run / "run.json").write_text("{")
    assert place.state_of(tmp_path, cell) == "begun", "a damaged file is no finished run"
    (run / "run.json").write_text(json.dumps({"name": "x", "verb": "fit", "status": "done"}))
    assert place.state_of(tmp_path, cell) == "done"


def test_a_run_that_an_agent_named_is_found(tmp_path):
    (cell,) = described().cells
    other = tmp_path / "scan-dot-s0-20260101-000000"
    other.mkdir()
    facts = {"name": "x", "verb": "fit", "status": "done", "recipe": "scan", "alignment": "dot", "seed": 0}
    (other / "run.json").write_text(json.dumps(facts))
    assert place.run_folder(tmp_path, cell) == other


def test_journal_adds_up_attempts_and_passes_over_half_a_line(tmp_path):
    note(tmp_path, "started", "a")
    note(tmp_path, "ended", "a", wall=2.0, cpu=1.5, code=143)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"event": "en\n')
    note(tmp_path, "ended", "a", wall=3.0, cpu=2.5, code=0)
    found = costs(tmp_path)["a"]
    assert (found.attempts, found.wall, found.cpu) == (2, 5.0, 4.0)


def test_one_writer_per_run_folder(tmp_path):
    held = claim(tmp_path)
    with pytest.raises(UserError, match="Another process is writing the run"):
        claim(tmp_path, longest=0.2)
    os.close(held)
    os.close(claim(tmp_path, longest=0.2))


def test_only_a_run_without_any_checkpoint_starts_anew(tmp_path):
    assert not left_without_checkpoint(tmp_path)
    (tmp_path / "config.yaml").touch()
    (tmp_path / "attribution").mkdir()
    assert left_without_checkpoint(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert not left_without_checkpoint(tmp_path), "a file of the user's"
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "best.ckpt").touch()
    assert not left_without_checkpoint(tmp_path)


def test_dry_run_shows_commands_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["study", "tiny/scan", "tiny/mac", "--alignments", "dot", "--seeds", "7", "--set", "trainer.max_epochs=1"]
    assert main([*words, "--dry-run", "--", "--data.batch_size", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("open   lit-attn fit ")
    assert "--seed_everything 7 --trainer.max_epochs=1 --data.batch_size 4" in lines[0]
    assert not list(tmp_path.iterdir())


def test_bad_use_is_code_two(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for words, said in (
        (["tiny/scan", "--root", "file"], "Cannot write to the study folder"),
        (["tiny/scan", "--name", "../x"], "cannot be a folder name"),
        (["tiny/scan", "--jobs", "0"], "no positive whole number"),
        ([], "RECIPE"),
    ):
        assert main(["study", *words]) == 2
        assert said in capsys.readouterr().err


def test_nothing_finished_is_said_and_not_fatal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["study", "tiny/scan", "--alignments", "dot", "--seeds", "0", "--collect"]) == 1
    out = capsys.readouterr().out
    assert "No run has finished" in out
    assert "not finished: scan-dot-s0: not started" in out


def test_slurm_array_runs_every_command_once(tmp_path, monkeypatch):
    """A fake sbatch runs the tasks of the array one after the other, as SLURM would."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "sbatch").write_text(
        "#!/bin/bash\nlast=$(grep -oP '(?<=--array=0-)\\d+' \"$2\")\n"
        'for i in $(seq 0 $last); do SLURM_ARRAY_TASK_ID=$i bash "$2"; done\necho 4711\n'
    )
    (binaries / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    folder = tmp_path / "a study"
    (folder / "logs").mkdir(parents=True)
    jobs = [Job(f"r{i}", ["recipes", word], folder / "logs" / f"r{i}.log") for i, word in enumerate(("ls", "wrong"))]
    assert "2 runs as job 4711" in submit(folder, jobs, "--time=1:00:00 --mem=8G", 3, 1)
    text = (folder / "slurm.sh").read_text()
    assert "#SBATCH --array=0-1%1\n" in text
    assert "#SBATCH --mem=8G\n" in text
    assert "export OMP_NUM_THREADS=3\n" in text
    assert "tiny/scan" in (folder / "logs" / "r0.log").read_text()
    assert "Usage: lit-attn recipes" in (folder / "logs" / "r1.log").read_text()
    assert script(folder, jobs, "", 1, None).count("exec ") == 2
    (binaries / "sbatch").write_text("#!/bin/bash\necho invalid partition >&2; exit 1\n")
    with pytest.raises(UserError, match="invalid partition"):
        submit(folder, jobs, "", 1, None)


def test_sweep_file_holds_the_grid(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["study", "tiny/scan", "--alignments", "dot,cosine", "--seeds", "0,1", "--launcher", "sweep", "--name", "s"]
    assert main(words) == 0
    written = yaml.safe_load((tmp_path / "checkpoints" / "s" / "sweep-scan.yaml").read_text())
    assert written["method"] == "grid"
    assert written["parameters"]["model.alignment"]["values"] == ["dot", "cosine"]
    assert written["parameters"]["seed_everything"]["values"] == [0, 1]
    assert written["command"][-1] == "${args}"
    assert written["command"][1:3] == ["lit-attn", "fit"]
    info = described((0,), ("dot",), ("--wandb=true",))
    found = sweep(tmp_path, info, find_recipes(["tiny/scan"], find_recipe)[0], info.extra)
    assert found["command"].count("--wandb=true") == 1
