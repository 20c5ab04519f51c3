"""Do one, two and three processes measure the same, and does training in two of them work and resume?"""

import math

import pytest
import torch

from tests.cli.conftest import rows

pytestmark = pytest.mark.slow


def parallel(count: int) -> list[str]:
    if count == 1:
        return []
    return ["--trainer.devices", str(count), "--trainer.strategy", "ddp"]


def measured(tmp_path, recipe: str, count: int, lit_attn, *more: str):
    """Scores, and attention by site, head, metric and, where they are told apart, step and kind of question.

    `lit_attn` runs the command, here or in processes of its own.
    """
    name = f"p{count}"
    words = [
        "--run",
        name,
        "--trainer.precision",
        "64-true",
        "--model.alignment",
        "biased_query",
        *more,
        *parallel(count),
    ]
    done = lit_attn("validate", recipe, *words)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / name
    assert not list((tmp_path / "checkpoints").glob(f"{name}-*")), "one folder for all processes"
    (scores,) = rows(folder / "metrics.csv")
    cells = [row for path in (folder / "attention").glob("*.csv") for row in rows(path)]
    names = ("site", "head", "metric", "step", "kind")
    return {n: float(v) for n, v in scores.items()}, {tuple(cell.get(n) for n in names): cell for cell in cells}


@pytest.mark.parametrize(
    ("recipe", "attention", "score"),
    [
        ("scan", "match/grounding_mass", "rsum"),
        ("captioner", "decoder.1.cross/grounding_mass", "bleu1"),
        ("mac", "read/entropy", "loss"),
        ("m4c", "joint.1.self/entropy", "ceiling_accuracy"),
        ("agreement", "encoder.1.self/entropy", "loss"),
        ("attngan", "stage.2.words/word_mass", "fid"),
    ],
)
def test_validation_over_1_2_and_3_processes_agrees(lit_attn, inside, tmp_path, recipe, attention, score):
    """Thirteen pictures or questions: no number of processes divides them."""
    scores, heads = measured(tmp_path, f"tiny/{recipe}", 1, inside)
    assert scores[f"val/attention/{attention}"] > 0
    assert scores[f"val/{score}"] > 0
    for count in (2, 3) if recipe == "scan" else (3,):
        other_scores, other_heads = measured(tmp_path, f"tiny/{recipe}", count, lit_attn)
        assert scores.keys() == other_scores.keys()
        for name in scores:
            assert other_scores[name] == pytest.approx(scores[name], abs=1e-9), name
        if recipe == "scan":
            tables = [rows(tmp_path / "checkpoints" / f"p{n}" / "retrieval" / "val-00000000.csv") for n in (1, count)]
            assert tables[0] == tables[1]
            assert len(tables[0]) == 13 * 5
        assert heads.keys() == other_heads.keys()
        for key in heads:
            assert other_heads[key]["count"] == heads[key]["count"], key
            assert float(other_heads[key]["value"]) == pytest.approx(float(heads[key]["value"]), abs=1e-9), key


def test_explanations_over_1_2_and_3_processes_agree(lit_attn, inside, tmp_path):
    """Seven samples: no number of processes divides them, and each is explained once."""
    words = ["--config", "probes/attribution_scores", "--trainer.precision", "64-true"]
    found = {}
    for count, run in ((1, inside), (2, lit_attn), (3, lit_attn)):
        done = run(
            "validate", "tiny/agreement", *words, "--data.val_sentences", "7", "--run", f"p{count}", *parallel(count)
        )
        assert done.returncode == 0, done.stderr
        (table,) = (tmp_path / "checkpoints" / f"p{count}" / "attribution").glob("val-*.csv")
        found[count] = {(row["method"], row["measure"]): row for row in rows(table)}
    assert found[1]["gae", "mass"]["outputs"] == "7"
    for count in (2, 3):
        assert found[count].keys() == found[1].keys()
        for key, row in found[1].items():
            assert found[count][key]["outputs"] == row["outputs"], key
            assert float(found[count][key]["value"]) == pytest.approx(float(row["value"]), abs=1e-9), key


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("scan", ["--data.val_scenes", "2", "--data.oracle", "false"]),
        ("mac", ["--data.val_scenes", "2"]),
        ("m4c", ["--data.val_questions", "2"]),
    ],
)
def test_more_processes_than_samples_do_not_deadlock(lit_attn, inside, tmp_path, recipe, words):
    scores, heads = measured(tmp_path, f"tiny/{recipe}", 1, inside, *words)
    other_scores, other_heads = measured(tmp_path, f"tiny/{recipe}", 3, lit_attn, *words)
    assert other_scores == pytest.approx(scores, abs=1e-9)
    assert {k: r["count"] for k, r in heads.items()} == {k: r["count"] for k, r in other_heads.items()}


@pytest.mark.parametrize(
    ("recipe", "words", "steps"),
    [
        ("scan", ["--data.oracle", "false"], 2 * (200 // 2 // 16)),
        ("mac", ["--data.val_scenes", "5"], 2 * (40 // 2 // 4)),
        ("attngan", [], 2 * (24 // 2 // 4)),
    ],
)
def test_two_processes_train_alike_and_resume(lit_attn, tmp_path, recipe, words, steps):
    fit = ["fit", f"tiny/{recipe}", *words, *parallel(2)]
    done = lit_attn(*fit, "--run", "whole")
    assert done.returncode == 0, done.stderr
    done = lit_attn(*fit, "--run", "parts", "--trainer.max_epochs", "1")
    assert done.returncode == 0, done.stderr
    done = lit_attn(*fit, "--run", "parts", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    numbers = [
        float(value) for row in rows(tmp_path / "checkpoints/whole/metrics.csv") for value in row.values() if value
    ]
    assert numbers
    assert all(map(math.isfinite, numbers))
    whole, parts = (
        torch.load(tmp_path / "checkpoints" / n / "last.ckpt", weights_only=True) for n in ("whole", "parts")
    )
    assert whole["global_step"] == parts["global_step"] == steps
    assert len(whole["rng"]) == 2
    assert whole.get("progress") == parts.get("progress")
    for part in ("state_dict", "training_weights"):
        for name, tensor in whole.get(part, {}).items():
            torch.testing.assert_close(tensor, parts[part][name], rtol=0, atol=0)


def test_two_processes_train_a_reader(cold, tmp_path):
    """No parameter is left out, also where a picture has no word: DDP would stop. By Lightning's own launcher."""
    words = ["--trainer.max_epochs", "1", "--data.val_questions", "5", "--model.alignment", "biased_key"]
    done = cold("fit", "tiny/m4c", *words, *parallel(2), "--run", "two")
    assert done.returncode == 0, done.stderr
    assert torch.load(tmp_path / "checkpoints" / "two" / "last.ckpt", weights_only=True)["global_step"] == 40 // 2 // 8
