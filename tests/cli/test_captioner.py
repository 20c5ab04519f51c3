"""Does a captioner train, go on after a kill, and caption through the command?"""

import json
import shutil

import numpy as np
import pytest
import torch

from lit_attn.checkpoint import read_weights, write_weights
from lit_attn.data.regions import Regions, write_npz
from tests.cli.conftest import rows, run_inside
from tests.cli.test_resume import killed_and_resumed

pytestmark = pytest.mark.slow
SMALL = ["--data.train_scenes", "20", "--data.val_scenes", "5", "--data.test_scenes", "5", "--model.max_words", "9"]
SELF_CRITICAL = ["fit", "tiny/captioner", *SMALL, "--model.objective", "self_critical", "--model.lr", "0.01"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which `lit-attn fit tiny/captioner` was run."""
    folder = tmp_path_factory.mktemp("trained")
    done = run_inside(folder, "fit", "tiny/captioner", *SMALL, "--run", "a")
    assert done.returncode == 0, done.stderr
    return folder


def test_what_a_run_leaves(trained):
    run = trained / "checkpoints" / "a"
    last = rows(run / "metrics.csv")[-1]
    for name in ("val/cider", "val/bleu4", "val/rouge_l", "val/loss", "val/rival_cider"):
        assert float(last[name]) >= 0, name
    assert float(last["val/attention/decoder.1.cross/grounding_mass"]) > 0
    assert json.loads((run / "run.json").read_text())["facts"]["val/rival_cider"] > 0
    sample = json.loads(next((run / "gallery").glob("*.json")).read_text())
    assert "written" in sample["facts"]
    with np.load(next((run / "gallery").glob("*.npz")), allow_pickle=False) as maps:
        cross, own = maps["decoder.0.cross.0"], maps["decoder.0.self.0"]
        assert maps["encoder.0.self.0"].shape == (2, len(sample["boxes"]), len(sample["boxes"]))
    words = len(sample["words"])
    assert cross.shape == (2, words, len(sample["boxes"]))
    assert own.shape == (2, words, words)
    assert np.isnan(cross[:, 0]).all(), "nothing predicts START"
    np.testing.assert_allclose(cross[:, 1:].astype(float).sum(-1), 1, atol=2e-2)
    np.testing.assert_allclose(own[:, 1, 0].astype(float), 1, atol=1e-6, err_msg="the first word has read START only")


def test_settings_of_evaluation_may_change_and_those_of_the_network_not(inside, trained, tmp_path):
    (tmp_path / "checkpoints").symlink_to(trained / "checkpoints")
    best = str(trained / "checkpoints" / "a" / "best.ckpt")
    words = ["validate", "tiny/captioner", *SMALL, "--ckpt_path", best, "--run", "raw"]
    done = inside(*words, "--model.capture", "raw_residual", "--model.validation_beam", "3")
    assert done.returncode == 0, done.stderr
    (table,) = (trained / "checkpoints" / "raw" / "attention").glob("*.csv")
    sites = {row["site"] for row in rows(table)}
    assert {"decoder.1.cross", "raw.decoder.1.cross", "raw.encoder.0.self"} <= sites
    wrong = inside(*words, "--model.geometry", "raw")
    assert wrong.returncode == 2
    assert "--model.geometry: trained with 'trigonometric'" in wrong.stderr


def test_self_critical_training_from_weights(inside, trained):
    best = str(trained / "checkpoints" / "a" / "best.ckpt")
    done = inside(*SELF_CRITICAL, "--from_weights", best, "--run", "b", "--trainer.max_epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "created 0, dropped 0" in done.stderr


def test_a_killed_self_critical_run_goes_on_to_the_bit(lit_attn, tmp_path):
    """Random texts, greedy baseline, document frequencies: all come back."""
    killed_and_resumed(lit_attn, tmp_path, [*SELF_CRITICAL, "--checkpoint_every", "2"])


@pytest.fixture(scope="module")
def weights(trained, tmp_path_factory):
    """The trained captioner as a safetensors file."""
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    write_weights(read_weights(trained / "checkpoints" / "a" / "best.ckpt"), file)
    return file


def write_regions(folder, name: str, count: int, dim: int = 48, **more) -> None:
    rng = np.random.default_rng(count)
    boxes = np.sort(rng.random((count, 2, 2), dtype=np.float32), 1).reshape(count, 4) * 300
    write_npz(
        Regions(name, rng.random((count, dim), dtype=np.float32), boxes, 300, 200, **more), folder / f"{name}.npz"
    )


def test_weights_alone_caption_a_folder_of_regions(inside, weights, tmp_path):
    """No recipe, no vocabulary: both stand in the file. Pictures without boxes, with many, with strange ones."""
    regions = tmp_path / "regions"
    write_regions(regions, "none", 0)
    write_regions(regions, "one", 1, object_names=("cat",), objects=np.array([3]))
    write_regions(regions, "many", 101)
    strange = np.array([[-50, -20, 900, 800], [10, 10, 10, 10], [299, 0, 300, 200]], np.float32)
    write_npz(Regions("strange", np.ones((3, 48), np.float32), strange, 300, 200), regions / "strange.npz")
    words = ["--from_weights", str(weights), "--data", "RegionFolder"]
    done = inside("predict", *words, "--data.root", "regions", "--run", "mine")
    assert done.returncode == 0, done.stderr
    run = tmp_path / "checkpoints" / "mine"
    found = {line["picture"]: line for line in map(json.loads, (run / "predictions.jsonl").read_text().splitlines())}
    assert found.keys() == {"none", "one", "many", "strange"}
    assert sorted(path.stem for path in (run / "pictures").iterdir()) == sorted(found)


def test_bad_weights_and_regions_are_named(inside, weights, tmp_path):
    data = ["--data", "RegionFolder", "--data.root", "regions"]
    write_regions(tmp_path / "regions", "other", 5, dim=7)
    done = inside("predict", "--from_weights", str(weights), *data)
    assert done.returncode == 2
    assert "do not fit this model" in done.stderr
    shutil.rmtree(tmp_path / "regions")
    write_regions(tmp_path / "regions", "fine", 5)
    other = tmp_path / "words.json"
    other.write_text(json.dumps({"ix_to_word": {"1": "cat"}}))
    done = inside("predict", "--from_weights", str(weights), *data, "--data.vocabulary", str(other))
    assert done.returncode == 2
    assert "vocabulary" in done.stderr
    done = inside("validate", "--from_weights", str(weights), *data)
    assert done.returncode == 2
    assert "without captions" in done.stderr
    torch.save({"a": torch.zeros(1)}, tmp_path / "foreign.ckpt")
    done = inside("predict", "--from_weights", "foreign.ckpt", *data)
    assert done.returncode == 2
