"""Does a real study survive being killed, give the same bits as `fit`, and leave its tables? With real processes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import COMMAND, SMALL, environment, rows
from tests.cli.test_wandb import records

pytestmark = pytest.mark.slow

STUDY = [
    "study",
    "tiny/scan",
    "--alignments",
    "dot,scaled_dot,nowhere.Own",
    "--seeds",
    "0",
    "--jobs",
    "2",
    "--name",
    "s",
]
FLAGS = ["--wandb", "--", *SMALL, "--checkpoint_every", "3"]


def groups(folder):
    """The groups of all offline runs below a folder, and the keys that were logged."""
    from wandb.proto import wandb_internal_pb2

    found, keys = set(), set()
    for file in sorted(folder.rglob("run-*.wandb")):
        for data in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                found.add((file.parent.parent.parent.name, record.run.run_group))
            elif record.WhichOneof("record_type") == "history":
                keys |= {"/".join(item.nested_key) or item.key for item in record.history.item}
    return found, keys


def test_a_killed_study_goes_on_and_its_runs_are_those_of_fit(lit_attn, tmp_path):
    folder = tmp_path / "checkpoints" / "s"
    with (tmp_path / "out").open("w") as out:
        study = subprocess.Popen([*COMMAND, *STUDY, *FLAGS], cwd=tmp_path, env=environment(), stdout=out, stderr=out)
    end = time.monotonic() + 120
    while not list(folder.glob("*/last.ckpt")):
        assert time.monotonic() < end, (tmp_path / "out").read_text()
        time.sleep(0.02)
    os.kill(study.pid, signal.SIGKILL)
    study.wait()
    done = lit_attn(*STUDY, *FLAGS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not finished: scan-nowhere.Own-s0: Cannot import the alignment" in done.stdout
    assert sorted(p.name for p in folder.glob("scan-*")) == [
        "scan-dot-s0",
        "scan-nowhere.Own-s0",
        "scan-scaled_dot-s0",
    ], "no second folders"
    table = rows(folder / "study.csv")
    assert [row["status"] for row in table] == ["done", "done", "not started"]
    assert {row["equivalence"] for row in table[:2]} == {"dot"}
    text = (folder / "table.md").read_text()
    assert "2 of 3 runs finished" in text
    assert "(a) dot, scaled\\_dot: mathematically the same model" in text
    assert (folder / "report" / "scan" / "index.html").stat().st_size > 10_000

    fit = ["fit", "tiny/scan", *SMALL, "--checkpoint_every", "3", "--model.alignment", "dot", "--seed_everything", "0"]
    done = lit_attn(*fit, "--run", "alone")
    assert done.returncode == 0, done.stderr
    alone = tmp_path / "checkpoints" / "alone"
    ours = folder / "scan-dot-s0"
    first, second = (torch.load(f / "last.ckpt", weights_only=True) for f in (alone, ours))
    assert all(torch.equal(first["state_dict"][name], second["state_dict"][name]) for name in first["state_dict"])
    assert (alone / "metrics.csv").read_bytes() == (ours / "metrics.csv").read_bytes()

    found, keys = groups(folder)
    assert {group for _, group in found} == {"s"}
    assert {name for name, _ in found} == {"scan-dot-s0", "scan-scaled_dot-s0", "s"}
    media = {key.rpartition("/")[0] for key in keys if key.startswith("study/")}
    tables = {
        "study/study",
        "study/correlations",
        "study/tables/table",
        "study/tables/nouns-text-scan",
    }
    assert tables | {"study/figures/table", "study/figures/heads-scan-entropy", "study/report/scan/index"} <= media
    assert "study/differences" not in media, "both alignments are one model, so the table has no rows"


def test_ray_runs_a_study_and_tries_a_lost_worker_again(lit_attn, tmp_path):
    pytest.importorskip("ray", reason="needs the extra `ray`")
    words = [
        "study",
        "tiny/scan",
        "--alignments",
        "dot",
        "--seeds",
        "0",
        "--name",
        "r",
        "--launcher",
        "ray",
        "--no-page",
    ]
    flags = ["--", *SMALL, "--checkpoint_every", "3", "--trainer.max_epochs", "6"]
    folder = tmp_path / "checkpoints" / "r"
    with (tmp_path / "out").open("w") as out:
        study = subprocess.Popen(
            [*COMMAND, *words, "--jobs", "1", *flags], cwd=tmp_path, env=environment(), stdout=out, stderr=out
        )
    end = time.monotonic() + 200
    while not list(folder.glob("*/last.ckpt")):
        assert time.monotonic() < end, (tmp_path / "out").read_text()
        assert study.poll() is None, (tmp_path / "out").read_text()
        time.sleep(0.02)
    (fit,) = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_fit(pid, folder)]
    worker = int(Path(f"/proc/{fit}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(worker, signal.SIGKILL)
    assert study.wait(300) == 0, (tmp_path / "out").read_text()
    assert rows(folder / "study.csv")[0]["status"] == "done"
    log = (folder / "logs" / "scan-dot-s0.log").read_text()
    assert log.count("run: ") == 2, "begun, lost, begun again"
    assert json.loads((folder / "scan-dot-s0" / "run.json").read_text())["status"] == "done"


def _is_fit(pid, folder):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        here = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return b"fit" in words and here == str(folder.parents[1])
