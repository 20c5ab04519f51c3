"""How do tests run the command? In an empty folder, with one thread and without W&B's network: in a warm process of its own,
in a cold one where how it begins is the point, or inside the test's process."""

import contextlib
import csv
import io
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

from lit_attn.cli.main import main
from tests import warm

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
    """Runs `lit-attn …` in tmp_path and a process of its own, and returns the finished process."""
    return lambda *words, **more: warm.run(words, cwd=tmp_path, env=environment(**more))


@pytest.fixture
def cold(tmp_path):
    """The same as a user starts it, at the price of all imports."""

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


class Inside(NamedTuple):
    """What a command run in this very process left."""

    returncode: int
    stdout: str
    stderr: str


def run_inside(folder: Path, *words: str) -> Inside:
    """`lit-attn …` in `folder` without a new process: seconds faster, for what needs no kill and no second process."""
    out, err, before, kept = io.StringIO(), io.StringIO(), Path.cwd(), dict(os.environ)
    handler = logging.StreamHandler(err)
    logger = logging.getLogger("lit_attn")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    os.environ["WANDB_MODE"] = "offline"
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            try:
                code = main(list(words))
            except SystemExit as left:  # --print_config and --help
                code = int(left.code or 0)
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)
        logger.removeHandler(handler)
        logger.setLevel(level)
    return Inside(code, out.getvalue(), err.getvalue())


@pytest.fixture
def inside(tmp_path):
    """Runs `lit-attn …` in tmp_path and this process."""
    return lambda *words: run_inside(tmp_path, *words)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
