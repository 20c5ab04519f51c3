"""Do the commands do what the help says, and is every mistake a short message with the right code?"""

import json
import os
import pickle
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from lit_attn.cli.main import main
from lit_attn.nn.alignment import ALIGNMENTS
from tests.cli.conftest import SMALL, rows

ONE_EPOCH = [*SMALL, "--trainer.max_epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a finished run `a`."""
    import subprocess

    from tests.cli.conftest import COMMAND, environment

    folder = tmp_path_factory.mktemp("trained")
    command = [*COMMAND, "fit", "tiny/scan", *ONE_EPOCH, "--run", "a"]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    return folder


def test_a_run_folder_holds_all_of_it(trained):
    run = trained / "checkpoints" / "a"
    names = {path.name for path in run.iterdir()}
    assert {"run.json", "config.yaml", "last.ckpt", "best.ckpt", "metrics.csv", "attention", "gallery"} <= names
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["alignment"], info["equivalence"], info["seed"]) == ("done", "dot", "dot", 0)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["init_args"]["alignment"] == "dot"
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")]
    checkpoint = torch.load(run / "last.ckpt", weights_only=True)
    assert all(isinstance(v, str | int | float | bool | type(None)) for v in checkpoint["hyper_parameters"].values())
    sample = json.loads(next((run / "gallery").glob("*.json")).read_text())
    with np.load(next((run / "gallery").glob("*.npz")), allow_pickle=False) as maps:
        weights = maps[sample["maps"][0]["key"]]
    assert weights.shape == (1, len(sample["words"]), len(sample["boxes"]))
    np.testing.assert_allclose(weights.astype(float).sum(-1), 1, atol=2e-2)


@pytest.mark.slow
def test_every_verb_and_a_second_run_of_the_same_name(inside, trained, tmp_path):
    (tmp_path / "checkpoints").symlink_to(trained / "checkpoints")
    best = str(trained / "checkpoints" / "a" / "best.ckpt")
    again = inside(
        "fit", "tiny/scan", *ONE_EPOCH, "--run", "a", "--model.alignment", "general_query", "--from_weights", best
    )
    assert again.returncode == 0, again.stderr
    assert "created 1 (net.matcher.alignment.proj.weight), dropped 0" in again.stderr
    assert (trained / "checkpoints" / "a-2" / "last.ckpt").exists()
    validate = inside("validate", "tiny/scan", *SMALL, "--ckpt_path", "best", "--run", "a")
    assert validate.returncode == 0, validate.stderr
    assert "grounding_mass" in validate.stdout
    assert "val/rsum" in validate.stdout
    test = inside("test", "tiny/scan", *SMALL, "--ckpt_path", best, "--run", "tested", "--model.folds", "11")
    assert test.returncode == 0, test.stderr
    assert "test/fold11/rsum" in test.stdout, "settings of evaluation may change"
    assert "test/rsum" in test.stdout
    predict = inside("predict", "tiny/scan", *SMALL, "--ckpt_path", best, "--run", "predicted")
    assert predict.returncode == 0, predict.stderr
    lines = (trained / "checkpoints" / "predicted" / "predictions.jsonl").read_text().splitlines()
    assert len(lines) == 11 + 55
    first = json.loads(lines[0])
    similarities = [found["similarity"] for found in first["captions"]]
    assert similarities == sorted(similarities, reverse=True)
    report = inside("report", "checkpoints/a")
    assert report.returncode == 0, report.stderr
    assert "<html" in (trained / "checkpoints" / "a" / "report" / "index.html").read_text()[:300]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.alignment", "genral_query"], "Unknown alignment 'genral_query'. Did you mean 'general_query'?"),
        (["--model.alignmnt", "dot"], "Did you mean 'alignment'?"),
        (["--model.lr", "quick"], "lr"),
        (["--config", "scan_scene"], "Did you mean 'scan_scenes'?"),
        (["--ckpt_path", "nowhere.ckpt"], "There is no checkpoint"),
        (["--ckpt_path", "last", "--run", "none"], "There is no last checkpoint of none"),
        (["--ckpt_path", "text.ckpt"], "text.ckpt is not a"),
        (["--ckpt_path", "code.ckpt"], "is not loaded: running them could do anything"),
        (["--ckpt_path", "half.ckpt"], "half.ckpt is not a complete checkpoint"),
        (["--root", "file/inside"], "Cannot write to the run folder"),
        (["--run", "../away"], "cannot be a folder name"),
        (["--data.batch_size", "1000"], "Lower the batch size"),
        (["--from_weights", "text.safetensors"], "is not a complete safetensors file"),
        (["--model.direction", "image_to_text", "--model.paper_layout_bug", "true"], "paper_layout_bug exists for"),
    ],
)
def test_mistakes_are_short_and_leave_nothing(inside, trained, tmp_path, words, message):
    (tmp_path / "text.ckpt").write_text("hello")
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "file").write_text("")
    whole = (trained / "checkpoints" / "a" / "last.ckpt").read_bytes()
    (tmp_path / "half.ckpt").write_bytes(whole[: len(whole) // 2])
    torch.save({"state_dict": {}, "evil": Evil()}, tmp_path / "code.ckpt")
    done = inside("fit", "tiny/scan", *SMALL, *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 6, done.stderr
    assert not (tmp_path / "owned").exists()
    assert not list(tmp_path.rglob("last.ckpt"))


@pytest.mark.slow
def test_a_monitor_that_nobody_logs_is_named(inside):
    done = inside("fit", "tiny/scan", *SMALL, "--monitor", "val/rsumm")
    assert done.returncode == 2
    assert "monitor 'val/rsumm' was not logged. Did you mean 'val/rsum'?" in done.stderr


class Evil:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def test_a_pickle_that_runs_code_would_run_it_if_it_were_loaded(tmp_path, monkeypatch):
    """The danger is real: the refusal above is what stands between it and the user."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Evil()))  # noqa: S301
    assert (tmp_path / "owned").exists()


@pytest.mark.slow
def test_evaluating_under_other_settings_names_the_flag(inside, trained):
    best = str(trained / "checkpoints" / "a" / "best.ckpt")
    done = inside("validate", "tiny/scan", *SMALL, "--ckpt_path", best, "--model.alignment", "cosine")
    assert done.returncode == 2
    assert "--model.alignment: trained with 'dot', the command says 'cosine'" in done.stderr
    assert "Add --model.alignment dot" in done.stderr


@pytest.mark.slow
def test_another_vocabulary_is_refused(inside, trained, tmp_path):
    best = str(trained / "checkpoints" / "a" / "best.ckpt")
    captions = [f"a red cup stands on table number {c} ." for c in range(35)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}_caps.txt").write_text("\n".join(captions))
        np.save(tmp_path / f"{split}_ims.npy", np.random.rand(7, 23, 48).astype(np.float32))
    config = yaml.safe_load((trained / "checkpoints" / "a" / "config.yaml").read_text())
    config["data"] = {
        "class_path": "lit_attn.data.precomp.PrecompMatching",
        "init_args": {"root": str(tmp_path), "num_workers": 0, "min_count": 1, "eval_batch_size": 3, "batch_size": 3},
    }
    config["trainer"]["callbacks"] = []
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(config))
    done = inside("validate", "other.yaml", "--ckpt_path", best)
    assert done.returncode == 2, done.stderr
    assert "vocabulary" in done.stderr
    done = inside("fit", "other.yaml", "--from_weights", best, "--run", "b")
    assert done.returncode == 2, done.stderr
    assert "another vocabulary" in done.stderr


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint(trained, tmp_path):
    import subprocess
    import sys

    from tests.cli.conftest import environment

    code = """
import errno, torch
from lit_attn.run import checkpoint_io
whole = torch.save
def save(checkpoint, file):
    if checkpoint["global_step"] > 5:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")
    whole(checkpoint, file)
checkpoint_io.torch.save = save
from lit_attn.cli.main import entry
entry()
"""
    command = [sys.executable, "-c", code, "fit", "tiny/scan", *ONE_EPOCH, "--run", "full"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    folder = tmp_path / "checkpoints" / "full"
    assert done.returncode == 2, done.stderr
    assert "the disk is full. The one before it is untouched" in done.stderr
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 5
    assert sorted(p.name for p in folder.glob("*ckpt*")) == ["last.ckpt"]
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("alignment", list(ALIGNMENTS))
def test_every_alignment_trains_by_one_flag(inside, tmp_path, alignment):
    done = inside("fit", "tiny/scan", *ONE_EPOCH, "--model.alignment", alignment, "--run", "r")
    assert done.returncode == 0, done.stderr
    found = [row for row in rows(tmp_path / "checkpoints" / "r" / "metrics.csv") if row["val/rsum"]]
    assert float(found[0]["val/attention/match/padding_mass"]) == 0


@pytest.mark.slow
def test_a_users_own_alignment_is_named_by_its_import_path(lit_attn, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from lit_attn.nn.alignment import Alignment\n\n"
        "class Halved(Alignment):\n    def transform(self, query, key):\n        return query, key, 0.5\n"
    )
    done = lit_attn("fit", "tiny/scan", *ONE_EPOCH, "--model.alignment", "mine.Halved", "--run", "r")
    assert done.returncode == 0, done.stderr
    run = tmp_path / "checkpoints" / "r"
    assert json.loads((run / "run.json").read_text())["equivalence"] == "mine.Halved"
    done = lit_attn(
        "fit", "tiny/scan", *ONE_EPOCH, "--model.alignment", "mine.Halved", "--run", "r", "--ckpt_path", "last"
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "checkpoints" / "r-2").exists(), "a resume goes on in its own folder"


def test_recipes_are_listed_shown_and_copied(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["recipes", "ls"]) == 0
    assert "tiny/scan" in capsys.readouterr().out
    assert main(["recipes", "show", "scan_flickr30k"]) == 0
    assert "lr_step: 15" in capsys.readouterr().out
    assert main(["recipes", "copy", "scan_scenes"]) == 0
    assert (tmp_path / "scan_scenes.yaml").exists()
    assert main(["recipes", "copy", "scan_scenes"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["recipes", "show", "scan_flicker30k"]) == 2
    assert "Did you mean 'scan_flickr30k'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fitt"], "Unknown verb 'fitt'. Did you mean 'fit'?"),
        (["report"], "Usage: lit-attn report"),
        (["report", "no/such/run"], "no/such/run|such"),
        (["report", "--wrong"], "Unknown option '--wrong'"),
        (["recipes", "dance"], "Usage: lit-attn recipes"),
        (["doctor", "now"], "Usage: lit-attn doctor"),
    ],
)
def test_wrong_words_are_answered(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in message.split("|")), error


def test_doctor_says_what_is_there(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "ok       torch" in text


def test_doctor_knows_every_extra_and_what_it_is_for(monkeypatch):
    from lit_attn.cli import doctor

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        (extra, re.split(r"[\[<>=!~ ]", package)[0])
        for extra, packages in project["optional-dependencies"].items()
        if extra not in ("all", "dev")
        for package in packages
    }
    told = {(extra, package) for extra, _, package, _ in doctor.EXTRAS}
    assert told == declared
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    text = doctor.examine()
    for extra, _, package, use in doctor.EXTRAS:
        assert f'missing  {package}: no {use}; pip install "lit_attn[{extra}]"' in text
    (official,) = [line for line in text.splitlines() if "missing  en-core-web-sm:" in line]
    assert official.endswith("with the same weights; python -m spacy download en_core_web_sm")
    assert "no the" not in text


def test_failures_of_ours_are_code_1_with_a_way_to_the_traceback(monkeypatch, capsys):
    monkeypatch.setattr("lit_attn.cli.main._doctor", lambda argv: 1 / 0)
    assert main(["doctor"]) == 1
    assert "ZeroDivisionError" in (error := capsys.readouterr().err)
    assert "--debug" in error
    assert "Traceback" not in error
    assert main(["doctor", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
