"""Do one, two and three processes measure the same, and does training in two of them work and resume?"""

import pytest
import torch

from tests.cli.conftest import rows

pytestmark = pytest.mark.slow


def parallel(count: int) -> list[str]:
    if count == 1:
        return []
    return ["--trainer.devices", str(count), "--trainer.strategy", "ddp"]


def measured(lit_attn, tmp_path, recipe: str, count: int, *more: str):
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
    (heads,) = (folder / "attention").glob("*.csv")
    return {n: float(v) for n, v in scores.items()}, {(r["site"], r["head"], r["metric"]): r for r in rows(heads)}


@pytest.mark.parametrize(
    ("recipe", "site", "score"), [("scan", "match", "rsum"), ("captioner", "decoder.1.cross", "bleu1")]
)
def test_validation_over_1_2_and_3_processes_agrees(lit_attn, tmp_path, recipe, site, score):
    """Thirteen pictures: no number of processes divides them."""
    scores, heads = measured(lit_attn, tmp_path, f"tiny/{recipe}", 1)
    assert scores[f"val/attention/{site}/grounding_mass"] > 0
    assert scores[f"val/{score}"] > 0
    for count in (2, 3):
        other_scores, other_heads = measured(lit_attn, tmp_path, f"tiny/{recipe}", count)
        assert scores.keys() == other_scores.keys()
        for name in scores:
            assert other_scores[name] == pytest.approx(scores[name], abs=1e-9), name
        assert heads.keys() == other_heads.keys()
        for key in heads:
            assert other_heads[key]["count"] == heads[key]["count"], key
            assert float(other_heads[key]["value"]) == pytest.approx(float(heads[key]["value"]), abs=1e-9), key


def test_more_processes_than_pictures_do_not_deadlock(lit_attn, tmp_path):
    words = ["--data.val_scenes", "2", "--data.oracle", "false"]
    scores, heads = measured(lit_attn, tmp_path, "tiny/scan", 1, *words)
    other_scores, other_heads = measured(lit_attn, tmp_path, "tiny/scan", 3, *words)
    assert other_scores == pytest.approx(scores, abs=1e-9)
    assert {k: r["count"] for k, r in heads.items()} == {k: r["count"] for k, r in other_heads.items()}


def test_two_processes_train_alike_and_resume(lit_attn, tmp_path):
    fit = ["fit", "tiny/scan", "--data.oracle", "false", *parallel(2)]
    done = lit_attn(*fit, "--run", "whole")
    assert done.returncode == 0, done.stderr
    done = lit_attn(*fit, "--run", "parts", "--trainer.max_epochs", "1")
    assert done.returncode == 0, done.stderr
    done = lit_attn(*fit, "--run", "parts", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    whole, parts = (
        torch.load(tmp_path / "checkpoints" / n / "last.ckpt", weights_only=True) for n in ("whole", "parts")
    )
    assert whole["global_step"] == parts["global_step"] == 2 * (200 // 2 // 16)
    assert len(whole["rng"]) == 2
    for name, tensor in whole["state_dict"].items():
        torch.testing.assert_close(tensor, parts["state_dict"][name], rtol=0, atol=0)
