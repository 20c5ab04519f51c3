"""Does W&B get what it should, offline, twice under one id, and does a broken W&B harm nobody?"""

import json

import pytest
import torch

from tests import warm
from tests.cli.conftest import SMALL, environment, rows

pytestmark = pytest.mark.slow


BLOCK, HEADER, FULL, LAST = 32768, 7, 1, 4


def records(content: bytes):
    """The records of a .wandb file: a LevelDB log behind a header of seven bytes."""
    position, parts = HEADER, b""
    while position + HEADER <= len(content):
        left = BLOCK - position % BLOCK
        if left < HEADER:
            position += left
            continue
        size, kind = int.from_bytes(content[position + 4 : position + 6], "little"), content[position + 6]
        parts += content[position + HEADER : position + HEADER + size]
        position += HEADER + size
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def history(folder):
    """Everything an offline run logged, read back from its files: scalars by row, media keys, configuration."""
    from wandb.proto import wandb_internal_pb2

    logged, config, ids = [], {}, set()
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for data in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "history":
                logged.append(
                    {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
                )
            elif kind == "run":
                ids.add(record.run.run_id)
                config |= {u.key: json.loads(u.value_json) for u in record.run.config.update}
    return logged, config, ids


def test_offline_run_holds_scalars_heat_map_table_and_configuration(lit_attn, tmp_path):
    fit = ["fit", "tiny/scan", *SMALL, "--wandb", "--run", "w", "--model.alignment", "general_key"]
    done = lit_attn(*fit, "--trainer.max_epochs", "1")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "w"
    logged, config, ids = history(folder)
    assert config["alignment"] == "general_key"
    found = [row for row in rows(folder / "metrics.csv") if row["val/rsum"]]
    for name in ("val/rsum", "val/attention/match/entropy", "val/attention/match/grounding_mass"):
        values = [row[name] for row in logged if name in row]
        assert values == [pytest.approx(float(row[name])) for row in found], name
    losses = {row["trainer/global_step"]: row["train/loss"] for row in logged if "train/loss" in row}
    wanted = {int(r["step"]): float(r["train/loss"]) for r in rows(folder / "metrics.csv") if r["train/loss"]}
    assert losses == pytest.approx(wanted)
    everything = {key: value for row in logged for key, value in row.items()}
    assert everything["val/attention/heads/_type"] == "table-file"
    assert everything["val/attention/heads/nrows"] == 11
    assert everything["val/attention/map/_type"] == "image-file"
    (offline,) = folder.glob("wandb/offline-run-*")
    table = json.loads((offline / "files" / everything["val/attention/heads/path"]).read_text())
    (heads,) = (folder / "attention").glob("*.csv")
    values = {row["metric"]: float(row["value"]) for row in rows(heads)}
    assert {row[2]: row[3] for row in table["data"]} == pytest.approx(values)
    assert (offline / "files" / everything["val/attention/map/path"]).stat().st_size > 1000

    assert everything["report/index/_type"] == "html-file"
    page = offline / "files" / everything["report/index/path"]
    assert page.read_bytes() == (folder / "report" / "index.html").read_bytes(), "unchanged: its policy allows no other"
    scores = json.loads((offline / "files" / everything["report/scores/path"]).read_text())
    assert scores["data"][0][scores["columns"].index("val/rsum best")] == pytest.approx(float(found[-1]["val/rsum"]))

    done = lit_attn(*fit, "--resume", "auto")
    assert done.returncode == 0, done.stderr
    _, _, later = history(folder)
    assert later == ids
    assert len(ids) == 1
    assert torch.load(folder / "last.ckpt", weights_only=True)["wandb_id"] in ids


def test_an_offline_run_holds_the_table_by_step_and_kind(lit_attn, tmp_path):
    words = ["--data.train_scenes", "8", "--data.val_scenes", "3", "--trainer.max_epochs", "1", "--wandb", "--run", "w"]
    done = lit_attn("fit", "tiny/mac", *words)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "w"
    everything = {key: value for row in history(folder)[0] for key, value in row.items()}
    (offline,) = folder.glob("wandb/offline-run-*")
    table = json.loads((offline / "files" / everything["val/attention/steps/path"]).read_text())
    (steps,) = (folder / "attention").glob("*-steps.csv")
    wanted = {tuple(row.values())[:5]: float(row["value"]) for row in rows(steps)}
    found = {tuple(map(str, row[:5])): row[5] for row in table["data"]}
    assert table["columns"] == ["site", "head", "metric", "step", "kind", "value", "count"]
    assert found == pytest.approx(wanted)
    assert (offline / "files" / everything["val/attention/steps_map/path"]).stat().st_size > 1000


def test_an_offline_run_holds_the_scores_of_attribution(lit_attn, tmp_path):
    """Scalars and tables of both epochs, as the run folder has them."""
    words = ["--config", "probes/attribution_scores", "--data.train_sentences", "24", "--wandb", "--run", "w"]
    done = lit_attn("fit", "tiny/agreement", *words)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "w"
    logged = history(folder)[0]
    kept = [row for row in rows(folder / "metrics.csv") if row["val/accuracy"]]
    names = {name for name in kept[0] if name.startswith("val/attribution/")}
    methods = {"rollout", "flow", "gae", "heterogenous_pos", "chance"}
    assert {name.split("/")[2] for name in names} == methods
    assert {f"val/attribution/{method}/mass" for method in methods} <= names
    for name in names:
        told = [row[name] for row in logged if name in row]
        assert told == pytest.approx([float(row[name]) for row in kept]), name
        assert len(told) == 2, name

    tables = [row for row in logged if "val/attribution/values/path" in row]
    files = sorted((folder / "attribution").glob("val-*.csv"))
    (offline,) = folder.glob("wandb/offline-run-*")
    assert len(tables) == len(files) == 2
    for row, file in zip(tables, files, strict=True):
        assert row["trainer/global_step"] == int(file.stem.removeprefix("val-"))
        table = json.loads((offline / "files" / row["val/attribution/values/path"]).read_text())
        assert table["columns"] == ["method", "stream", "measure", "value", "outputs"]
        wanted = {tuple(own.values())[:3]: (float(own["value"]), int(own["outputs"])) for own in rows(file)}
        assert len(wanted) >= len(names)
        assert {tuple(cells[:3]) for cells in table["data"]} == wanted.keys()
        for *key, value, outputs in table["data"]:
            assert (value, outputs) == pytest.approx(wanted[tuple(key)]), key


BROKEN = """
import wandb
def init(*args, **kwargs):
    raise RuntimeError("the service is on fire")
wandb.init = init
from lit_attn.cli.main import entry
entry()
"""


def test_training_goes_on_when_wandb_is_broken(tmp_path):
    words = ["fit", "tiny/scan", *SMALL, "--wandb", "--run", "w", "--trainer.max_epochs", "1"]
    done = warm.run(words, cwd=tmp_path, env=environment(), code=BROKEN)
    assert done.returncode == 0, done.stderr
    assert "W&B failed (the service is on fire)" in done.stderr
    assert any(row["val/rsum"] for row in rows(tmp_path / "checkpoints" / "w" / "metrics.csv"))


def test_an_unreachable_service_means_offline(lit_attn, tmp_path):
    words = ["fit", "tiny/scan", *SMALL, "--wandb", "--run", "w", "--trainer.max_epochs", "1"]
    more = {
        "WANDB_MODE": "",
        "WANDB_API_KEY": "0" * 40,
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        "WANDB_INIT_TIMEOUT": "5",
    }
    done = lit_attn(*words, **more)
    assert done.returncode == 0, done.stderr
    logged, _, _ = history(tmp_path / "checkpoints" / "w")
    assert any("val/rsum" in row for row in logged), done.stderr
