"""Does `lit-attn report --demo` show the shipped models on one page, without training and without a flag?"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from lit_attn.checkpoint import MANIFEST
from lit_attn.cli.demo import overlays, shown_models
from lit_attn.cli.recipes import recipe_names
from tests.cli.conftest import run_inside

SHIPPED = Path(__file__).parents[2] / "checkpoints"


def ship(folder: Path, *names: str) -> None:
    """A working folder that holds only some of the shipped weights."""
    entries = yaml.safe_load((SHIPPED / MANIFEST).read_text())
    folder.mkdir()
    for name in names:
        shutil.copyfile(SHIPPED / name, folder / name)
    (folder / MANIFEST).write_text(yaml.safe_dump({name: entries[name] for name in names}))


def test_all_shipped_models_are_shown_but_those_that_only_judge(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = yaml.safe_load((SHIPPED / MANIFEST).read_text())
    judges = {"classifier_scenes.safetensors", "damsm_scenes.safetensors"}
    assert {path.name for path in shown_models()} == entries.keys() - judges
    asked = {overlay for _, task in shown_models().values() for overlay in overlays(task)}
    assert asked <= set(recipe_names())
    assert "probes/attribution" not in overlays("Matching")


@pytest.mark.slow
def test_the_page_holds_attention_and_attribution_of_the_models(tmp_path):
    ship(tmp_path / "checkpoints", "mac_scenes.safetensors", "scan_scenes.safetensors", "classifier_scenes.safetensors")
    stale = tmp_path / "checkpoints" / "demo" / "mac_scenes"
    (stale / "gallery").mkdir(parents=True)
    (stale / "run.json").write_text("{}")
    (stale / "gallery" / "old.json").write_text("{}")
    done = run_inside(tmp_path, "report", "--demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "report: checkpoints/demo/report/index.html\n"
    page = (tmp_path / "checkpoints" / "demo" / "report" / "index.html").read_text(encoding="utf-8")
    assert "mac_scenes" in page
    assert "scan_scenes" in page
    assert "classifier_scenes" not in page
    info = json.loads((stale / "run.json").read_text())
    assert (info["verb"], info["status"], info["name"]) == ("validate", "done", "mac_scenes")
    assert not (stale / "gallery" / "old.json").exists()
    explained = sorted(path.stem for path in (stale / "gallery" / "attribution").glob("*.npz"))
    kept = {path.stem for path in (stale / "gallery").glob("*.json")}
    assert len(explained) == 8
    assert set(explained) <= kept
    with np.load(stale / "gallery" / "attribution" / f"{explained[0]}.npz") as arrays:
        assert "gae.answer.cells" in arrays
    assert '"gae"' in page


def test_mistakes_are_named(tmp_path):
    done = run_inside(tmp_path, "report", "--demo", "mine")
    assert done.returncode == 2
    assert "--demo shows the shipped models; it takes no run, such as checkpoints/mine" in done.stderr
