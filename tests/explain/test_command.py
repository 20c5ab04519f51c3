"""Does `lit-attn explain` say which inputs mattered, for the shipped models, without training?"""

import csv
import json

import numpy as np
import pytest
import yaml

from lit_attn.cli.main import main
from lit_attn.cli.recipes import find_recipe


def explain(*words: str) -> int:
    return main(["explain", *words])


@pytest.mark.parametrize(
    ("model", "streams"),
    [
        ("captioner_scenes", {"regions", "words"}),
        ("mac_scenes", {"cells", "words"}),
        ("m4c_scenes", {"objects", "ocr", "question"}),
    ],
)
def test_shipped_models_are_explained_without_training(model, streams, tmp_path, capsys):
    methods = ["rollout", "flow", "gae", "heterogenous_pos"]
    assert explain(model, "--methods", ",".join(methods), "--samples", "2", "--out", str(tmp_path)) == 0
    listed = json.loads((tmp_path / "maps.json").read_text())["maps"]
    assert {entry["stream"] for entry in listed} == streams
    assert list(dict.fromkeys(entry["method"] for entry in listed)) == methods
    with np.load(tmp_path / "maps.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {entry["array"] for entry in listed}
        for entry in listed:
            items = entry["items"]
            size = len(items.get("words") or items.get("boxes") or [0] * items.get("rows", 0) * items.get("columns", 0))
            assert arrays[entry["array"]].shape == (size,)
    with (tmp_path / "faithfulness.csv").open() as file:
        rows = list(csv.DictReader(file))
    measures = {row["measure"] for row in rows}
    assert measures == {"mass", "pointing", "average_precision", "positive_auc", "negative_auc", "blank_out_spearman"}
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 2
    printed = capsys.readouterr().out
    assert "| rollout |" in printed
    assert "*chance*" in printed


def test_the_word_can_be_chosen_and_written_captions_explained(tmp_path):
    options = ("--methods", "gae", "--samples", "1", "--no-pictures", "--no-faithfulness", "--out", str(tmp_path))
    assert explain("captioner_scenes", "--words", "1", *options) == 0
    listed = json.loads((tmp_path / "maps.json").read_text())["maps"]
    assert {(entry["place"], entry["explained"]) for entry in listed} == {("word 1", listed[0]["text"].split()[1])}
    assert explain("captioner_scenes", "--caption", "written", *options) == 0
    listed = json.loads((tmp_path / "maps.json").read_text())["maps"]
    words = list(dict.fromkeys((entry["place"], entry["explained"]) for entry in listed))
    assert [word for _, word in words] == listed[0]["text"].split()
    assert not (tmp_path / "pictures").exists()


def test_one_answer_is_explained_against_another(tmp_path):
    options = ("--samples", "2", "--no-pictures", "--no-faithfulness", "--out", str(tmp_path))
    assert explain("mac_scenes", "--target", "yes", "--versus", "no", "--methods", "raw", *options) == 0
    listed = json.loads((tmp_path / "maps.json").read_text())["maps"]
    assert {entry["explained"] for entry in listed} == {"yes − no"}
    assert {entry["method"] for entry in listed} == {"raw", "logical"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["captioner_scenes", "--methods", "rolout"], "no method 'rolout'. Did you mean 'rollout'"),
        (["captioner_scene"], "no model 'captioner_scene'. Did you mean 'captioner_scenes'"),
        (["mac_scenes", "--target", "999"], "target class 999 is out of range"),
        (["mac_scenes", "--target", "yess"], "no class 'yess'. Did you mean 'yes'"),
        (["mac_scenes", "--target", "no", "--versus", "no"], "--versus 'no' is the class that is explained itself"),
        (["scan_scenes"], "scan_scenes cannot be explained: SCAN compares words and regions once"),
        (["classifier_scenes"], "has no attention"),
        (["mac_scenes", "--start", "99999"], "--start 99999 is outside of the data"),
        (["m4c_scenes", "--step", "9"], "--step 9: an answer of this model has steps 0 to 3"),
        (["mac_scenes", "captioner_scenes"], "Several models are compared with --truth"),
        (["mac_scenes", "--methods", "t_attr"], "LRP has no rule for LSTM"),
    ],
)
def test_mistakes_are_named(words, message, tmp_path, capsys):
    assert explain(*words, "--samples", "1", "--out", str(tmp_path)) == 2
    assert message in capsys.readouterr().err


def test_the_truth_table_has_methods_by_settings_and_chance(tmp_path, capsys):
    methods = "raw,gae,blank_out,random"
    assert (
        explain("mac_scenes", "m4c_scenes", "--truth", "--samples", "3", "--methods", methods, "--out", str(tmp_path))
        == 0
    )
    with (tmp_path / "truth.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == set(methods.split(","))
    mac, m4c = (yaml.safe_load(find_recipe(f"{name}_scenes").read_text()) for name in ("mac", "m4c"))
    assert {row["setting"] for row in rows} == {
        f"mac dot, {mac['trainer']['max_epochs']} epochs, taught where to look",
        f"m4c scaled_dot, {m4c['trainer']['max_epochs']} epochs",
    }
    assert all(0 <= float(row["mean"]) <= 1 and 0 < float(row["chance"]) < 1 for row in rows)
    text = (tmp_path / "truth.md").read_text()
    assert text.count("| *chance* |") == 6, "three measures of two tasks"
    assert "## average precision, m4c" in text
    assert (tmp_path / "truth.png").stat().st_size > 1000


def test_help_says_which_methods_work_for_which_models(capsys):
    assert explain("--methods", "help") == 0
    assert "SCAN, DAMSM, AttnGAN   none" in capsys.readouterr().out
