"""Do the published weights, once converted, write what the original code wrote?"""

import argparse
import json
import pickle

import pytest
import torch

from lit_attn.checkpoint import read_weights
from lit_attn.cli.convert import convert_ort
from lit_attn.data.regions import Regions, write_npz
from lit_attn.errors import UserError
from tests.reference.published import golden_file, published_net

PYTHON2 = "checkpoint_python2"
INFOS = "infos_relation_transformer_bu-best.pkl"


def words() -> list[str]:
    vocabulary = json.loads(golden_file(f"{PYTHON2}/expected.json").read_text())["vocab"]
    return [vocabulary[str(i)] for i in range(1, len(vocabulary) + 1)]


@pytest.mark.parametrize("folder", [PYTHON2, "checkpoint_python3"])
def test_weights_words_and_sizes_come_over(folder):
    found = convert_ort(golden_file(f"{folder}/model-best.pth"), golden_file(f"{folder}/{INFOS}"), "off")
    assert list(found.words) == words()
    expected = published_net("main", dtype=torch.float32).state_dict()
    assert {name.removeprefix("net.") for name in found.tensors} == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found.tensors[f"net.{name}"], tensor), name
    sizes = {"dim": 32, "hidden": 64, "num_heads": 8, "encoder_layers": 2, "vocab_size": 23, "max_words": 16}
    assert found.hyperparameters.items() >= sizes.items()


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "beam"), [(PYTHON2, 5), ("checkpoint_python3", 2)])
def test_converted_weights_write_the_original_captions(inside, golden, tmp_path, folder, beam):
    arrays = golden("ort/decoding.npz")
    for i in range(9):
        real = arrays["att_masks"][i].bool()
        features, boxes = (arrays[name][i][real].numpy() for name in ("att_feats", "boxes"))
        write_npz(Regions(f"{i}", features, boxes, 1.0, 1.0), tmp_path / "regions" / f"{i}.npz")
    file, infos = golden_file(f"{folder}/model-best.pth"), golden_file(f"{folder}/{INFOS}")
    done = inside(
        "convert", "ort", str(file), "--infos", str(infos), "--legacy-extra-skip", "off", "--out", "x.safetensors"
    )
    assert done.returncode == 0, done.stderr
    assert "22 words" in done.stdout
    assert read_weights(tmp_path / "x.safetensors").words == tuple(words())
    done = inside(
        "predict", "--from_weights", "x.safetensors", "--data", "RegionFolder",
        "--data.root", "regions", "--model.beam", str(beam), "--run", "p",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "checkpoints" / "p" / "predictions.jsonl").read_text().splitlines()
    found = {line["picture"]: line for line in map(json.loads, lines)}
    for i, ids in enumerate(arrays[f"main_beam{beam}_len16_seq"][:, 0].tolist()):
        expected = " ".join(words()[word - 1] for word in ids if word)
        assert found[str(i)]["caption"] == expected
        assert found[str(i)]["score"] == pytest.approx(arrays[f"main_beam{beam}_len16_score"][i, 0].item(), abs=2e-3)


def test_the_extra_skip_must_be_said():
    file, infos = golden_file(f"{PYTHON2}/model-best.pth"), golden_file(f"{PYTHON2}/{INFOS}")
    with pytest.raises(UserError, match="--legacy-extra-skip on or off.*silently worse.*says off"):
        convert_ort(file, infos, None)
    older = golden_file(f"{PYTHON2}/infos_without_skip_option-best.pkl")
    with pytest.raises(UserError, match="says nothing about it"):
        convert_ort(file, older, None)
    assert convert_ort(file, older, "on").hyperparameters["legacy_extra_skip"] is True


def test_a_choice_against_the_recorded_one_is_warned_of(caplog):
    convert_ort(golden_file(f"{PYTHON2}/model-best.pth"), golden_file(f"{PYTHON2}/{INFOS}"), "on")
    assert "trained with the extra skip off" in caplog.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["orb", "x.pth"], "Unknown family 'orb'. Did you mean 'ort'?"),
        (["ort"], "required: file"),
        (["ort", "none.pth", "--infos", "none.pkl"], "There is no file none.pth"),
        (["ort", "text.pth", "--infos", "none.pkl"], "is no file of plain tensors"),
        (["ort", "table.pth", "--infos", "none.pkl"], "holds no table of tensors"),
        (["ort", "other.pth", "--infos", "none.pkl"], "is not one of an object-relation transformer"),
        (["ort", "text.pth"], "not one infos_….pkl beside"),
    ],
)
def test_mistakes_are_named(inside, tmp_path, words, message):
    (tmp_path / "text.pth").write_text("hello")
    torch.save([1, 2], tmp_path / "table.pth")
    torch.save({"fc.weight": torch.zeros(1)}, tmp_path / "other.pth")
    done = inside("convert", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


def test_vocabulary_and_weights_must_belong_together(tmp_path):
    infos = {"opt": argparse.Namespace(seq_length=16), "vocab": {"1": "cat"}}
    (tmp_path / "infos_x.pkl").write_bytes(pickle.dumps(infos))
    with pytest.raises(UserError, match="23 ids and .* 2 with END: they do not belong together"):
        convert_ort(golden_file(f"{PYTHON2}/model-best.pth"), tmp_path / "infos_x.pkl", "on")
    (tmp_path / "infos_x.pkl").write_bytes(pickle.dumps({"vocab": {"1": "cat"}}))
    with pytest.raises(UserError, match="needs `opt` and `vocab`"):
        convert_ort(golden_file(f"{PYTHON2}/model-best.pth"), tmp_path / "infos_x.pkl", "on")
