"""Can a user paint their own sentences, with DAMSM trained before, and is what goes wrong named?"""

import json

import pytest
import torch

pytestmark = pytest.mark.slow


def test_damsm_then_attngan_then_own_sentences(inside, tmp_path):
    done = inside("fit", "tiny/damsm", "--run", "damsm", "--trainer.max_epochs", "1")
    assert done.returncode == 0, done.stderr
    damsm = str(tmp_path / "checkpoints" / "damsm" / "last.ckpt")
    done = inside("fit", "tiny/attngan", "--run", "a", "--trainer.max_epochs", "1", "--model.damsm", damsm)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "a"
    assert (folder / "paintings" / "val.png").is_file()
    trained, taken = (torch.load(file, weights_only=True)["state_dict"] for file in (damsm, folder / "last.ckpt"))
    assert torch.equal(trained["net.text.embed.weight"], taken["text.embed.weight"])
    (tmp_path / "mine.txt").write_text("a red sofa\na blue zebra in the kitchen\n")
    words = ["predict", "tiny/attngan", "--ckpt_path", str(folder / "last.ckpt"), "--run", "p"]
    done = inside(*words, "--data.sentences", str(tmp_path / "mine.txt"))
    assert done.returncode == 0, done.stderr
    assert "zebra" in done.stderr
    rows = [
        json.loads(line) for line in (tmp_path / "checkpoints" / "p" / "predictions.jsonl").read_text().splitlines()
    ]
    assert [row["caption"] for row in rows] == ["a red sofa", "a blue in the kitchen"]
    for number in (1, 2):
        assert (tmp_path / "checkpoints" / "p" / "paintings" / f"sentence-{number}-image.png").is_file()
        assert (tmp_path / "checkpoints" / "p" / "paintings" / f"sentence-{number}.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "tiny/attngan", "--model.damsm", "none.ckpt"], "none.ckpt"),
        (["fit", "tiny/attngan", "--model.sides", "[16,48]"], "does not double from 16 to 48"),
        (["fit", "tiny/attngan", "--model.sides", "[32,64]"], "set data.side and the last of model.sides alike"),
        (["validate", "tiny/attngan", "--model.judge", "scene"], "Did you mean 'scenes'"),
        (["predict", "tiny/attngan", "--data.sentences", "zebra crossing"], "line 1"),
        (["fit", "attngan_cub", "--data.root", "nowhere"], "is not a folder"),
    ],
)
def test_what_a_user_gets_wrong_is_named(inside, words, message):
    done = inside(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
