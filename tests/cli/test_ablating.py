"""Does `lit-attn ablate` mute every head once, and do all word probes run through the command?"""

import csv
import logging

import pytest

from lit_attn.cli.ablating import Muted, rank_agreements, without_unchanged
from lit_attn.probes.probe import HeadValue
from tests.cli.conftest import rows, run_inside
from tests.cli.test_ddp import parallel

pytestmark = pytest.mark.slow


def test_ablation_of_a_tiny_captioner(tmp_path):
    words = ["--data.val_scenes", "5", "--model.max_words", "9", "--run", "a"]
    done = run_inside(tmp_path, "ablate", "tiny/captioner", "--config", "probes/all", *words)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "a" / "attention"
    with (folder / "val-00000000-ablation.csv").open() as file:
        muted = [row for row in csv.DictReader(file) if row["score"] == "val/loss"]
    assert len(muted) == len({(row["site"], row["head"]) for row in muted})
    assert {row["site"] for row in muted} >= {"encoder.0.self", "decoder.1.self", "decoder.1.cross"}
    assert any(float(row["change"]) != 0 for row in muted)
    with (folder / "val-00000000.csv").open() as file:
        metrics = {row["metric"] for row in csv.DictReader(file)}
    for name in ("pos_noun", "pos_noun_chance", "dep_det", "dep_det_all", "phrase_grounding", "phrase_swapped", "phrase_p",
                 "object_words", "relation_words_start_micro", "spatial_landmark_both", "spatial_target_landmark",
                 "entropy", "naming_mass", "ablation_loss"):  # fmt: skip
        assert name in metrics, name
    scores = {row["score"] for row in rows(folder / "val-00000000-agreement.csv")}
    assert {"loss"} <= scores
    assert not {"rival_cider", "sentences"} & scores
    assert not {"ablation_rival_cider", "ablation_sentences"} & metrics
    assert "No head changes " in done.stderr
    with (folder / "val-00000000-findings.csv").open() as file:
        assert {row["finding"] for row in csv.DictReader(file)} >= {
            "noun frequency, attention",
            "object_words, relation_words",
        }
    with (folder / "val-00000000-tables.csv").open() as file:
        assert {row["table"] for row in csv.DictReader(file)} == {"map_pos", "objects"}
    report = run_inside(tmp_path, "report", "a")
    assert report.returncode == 0, report.stderr


def test_two_processes_share_every_validation(lit_attn, inside, tmp_path):
    """Five pictures over two processes: the same scores with every head muted, written once."""
    words = ["ablate", "tiny/captioner", "--config", "probes/all", "--data.val_scenes", "5", "--model.max_words", "9"]
    words += ["--data.eval_batch_size", "5", "--trainer.precision", "64-true"]
    one = inside(*words, "--run", "one")
    two = lit_attn(*words, *parallel(2), "--run", "two")
    assert (one.returncode, two.returncode) == (0, 0), two.stderr
    assert two.stderr.count("muted encoder.0.self head 0 (1 of 10)") == 1
    tables = [tmp_path / "checkpoints" / run / "attention" for run in ("one", "two")]
    assert {path.name for path in tables[0].iterdir()} == {path.name for path in tables[1].iterdir()}
    for name in ("val-00000000-ablation.csv", "val-00000000.csv", "val-00000000-agreement.csv"):
        first, second = (rows(table / name) for table in tables)
        assert len(first) == len(second) >= 60, name
        for a, b in zip(first, second, strict=True):
            for column in a:
                if column in ("baseline", "muted", "change", "value", "r", "p", "permutation_p"):
                    assert float(b[column]) == pytest.approx(float(a[column]), abs=1e-9, nan_ok=True), (name, a, b)
                else:
                    assert b[column] == a[column], (name, a, b)


def test_a_network_without_heads_is_refused_at_once(inside):
    done = inside("ablate", "tiny/scan", "--data.oracle", "false")
    assert done.returncode == 2
    assert "This network has no multi-head attention: there is no head to mute." in done.stderr
    assert "val/" not in done.stdout


def test_ranks_are_compared_within_a_stack():
    values = [HeadValue(f"d.{i}.self", 0, "m", float(i), 1) for i in range(5)]
    changes = [HeadValue(f"d.{i}.self", 0, "ablation_loss", -(float(i) ** 3), 1) for i in range(5)]
    (found,) = rank_agreements(values, changes)
    assert (found.metric, found.score, found.sites, found.n, found.r) == ("m", "loss", "d.*.self", 5, -1.0)


def test_scores_that_no_head_changes_are_left_out_and_named(caplog):
    caplog.set_level(logging.INFO)
    rows = [Muted("d.0.self", head, "val/loss", 1.0, 1.0 + head, float(head)) for head in range(3)]
    same = [
        Muted("d.0.self", head, f"val/{name}", 7.0, 7.0, 0.0) for head in range(3) for name in ("sentences", "rival")
    ]
    assert without_unchanged([*rows, *same]) == rows
    assert caplog.messages == ["No head changes val/rival, val/sentences: left out."]
    values = [HeadValue("d.0.self", head, "m", float(head), 1) for head in range(3)]
    even = [HeadValue("d.0.self", head, "ablation_loss", 0.5, 1) for head in range(3)]
    assert rank_agreements(values, even) == [], "ranks of equal changes are no ranks"
