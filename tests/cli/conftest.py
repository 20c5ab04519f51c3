"""How do tests run the command? In a process of its own, in an empty folder, with one thread and without W&B's network."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "lit_attn"]
SMALL = ["--data.train_scenes", "20", "--data.batch_size", "10", "--data.oracle", "false"]
"""tiny/scan with 10 steps an epoch."""


def environment(**more: str) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    own = {"OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "PYTHONPATH": root, "WANDB_SILENT": "true"}
    drop = ("WANDB_", "LIT_ATTN_RUN", "LOCAL_RANK")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)} | own | more


@pytest.fixture
def lit_attn(tmp_path):
    """Runs `lit-attn …` in tmp_path and returns the finished process."""

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=tmp_path,
            env=environment(**more),
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )

    return run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
