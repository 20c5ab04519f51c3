"""Does the verb-number task train, resume to the bit, swap its alignment, predict, and name mistakes?"""

import json

import pytest
import torch

from lit_attn.tasks.agreement import Agreement
from tests.cli.conftest import rows

TINY = ["tiny/agreement", "--data.train_sentences", "24"]


def test_stopped_and_resumed_it_is_the_same_and_its_weights_serve(inside, tmp_path, monkeypatch):
    fit = ["fit", *TINY, "--model.alignment", "general_key", "--checkpoint_every", "1"]
    done = inside(*fit, "--run", "whole")
    assert done.returncode == 0, done.stderr
    step = Agreement.training_step

    def failing(task, batch, batch_idx):
        if task.global_step == 4:
            raise OSError("the power went")
        return step(task, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(Agreement, "training_step", failing)
        assert inside(*fit, "--run", "parts").returncode == 1
    done = inside(*fit, "--run", "parts", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    whole, parts = (
        torch.load(tmp_path / "checkpoints" / n / "last.ckpt", weights_only=True) for n in ("whole", "parts")
    )
    assert whole["global_step"] == parts["global_step"] == 6
    for name, tensor in whole["state_dict"].items():
        assert torch.equal(tensor, parts["state_dict"][name]), name
    folder = tmp_path / "checkpoints" / "whole"
    scores = rows(folder / "metrics.csv")[-1]
    assert 0 <= float(scores["val/accuracy"]) <= 1
    assert any(name.startswith("val/accuracy_attractors_") for name in scores)
    last = str(folder / "last.ckpt")
    saved = torch.load(last, weights_only=True)
    assert saved["answers"] == ["singular", "plural"]
    done = inside(
        "predict", *TINY, "--model.alignment", "general_key", "--ckpt_path", last, "--run", "p", "--data.sentences",
        "the key near the zebras",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, (tmp_path / "checkpoints" / "p" / "predictions.jsonl").read_text().splitlines())
    assert row["sentence"] == "the key near the zebras"
    assert row["answer"] in ("singular", "plural")
    assert 0.5 <= row["probability"] <= 1
    done = inside("fit", *TINY, "--trainer.max_epochs", "1", "--from_weights", last, "--model.alignment", "cosine")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", *TINY, "--model.warmup", "1.5"], "warmup is a share of the run"),
        (["predict", *TINY, "--data.sentences", " "], "Line 1 of data.sentences is empty"),
        (["predict", *TINY, "--data.sentences", "the " * 70], "72 tokens, its first and last included"),
        (["fit", "agreement_linzen", "--data.root", "nowhere"], "holds none of Linzen's files"),
    ],
)
def test_mistakes_are_named(inside, words, message):
    done = inside(*words)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
