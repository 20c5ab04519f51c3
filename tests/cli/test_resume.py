"""Is a run that was killed and resumed, to the bit, the run that was never killed?"""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from lit_attn.run.checkpoints import Checkpoints
from tests import warm
from tests.cli.conftest import COMMAND, SMALL, environment

pytestmark = pytest.mark.slow
FIT = ["fit", "tiny/scan", *SMALL, "--checkpoint_every", "3"]

SLOW_WRITES = """
import os, sys, time
import torch
from lit_attn.run import checkpoint_io
whole, rename = torch.save, os.replace
def save(checkpoint, file):
    whole(checkpoint, file)
    file.flush()
    if checkpoint["global_step"] >= {step} and not {renamed}:
        open("{flag}", "w").close()
        time.sleep(60)
def replace(source, target):
    rename(source, target)
    if str(target).endswith("last.ckpt") and {renamed}:
        step = torch.load(target, weights_only=True)["global_step"]
        if step >= {step}:
            open("{flag}", "w").close()
            time.sleep(60)
checkpoint_io.torch.save = save
checkpoint_io.os.replace = replace
from lit_attn.cli.main import entry
entry()
"""


SLOW_STEPS = """
import time
from lit_attn.cli.main import entry
from lit_attn.tasks.matching import Matching
whole = Matching.training_step
def slowly(task, *rest):
    time.sleep(0.2)
    return whole(task, *rest)
Matching.training_step = slowly
entry()
"""
"""Two seconds an epoch: the signal of a test arrives before the run has ended."""


PARTS = (
    "global_step", "epoch", "state_dict", "optimizer_states", "lr_schedulers", "rng", "training_weights", "progress",
)  # fmt: skip
"""What must be the same; the last two where a model keeps an average of its weights."""


def state(folder):
    return torch.load(folder / "last.ckpt", weights_only=True)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def compare(whole, cut) -> None:
    one, two = state(whole), state(cut)
    assert one.keys() == two.keys()
    for part in PARTS:
        assert same(one.get(part), two.get(part)), part
    assert (whole / "metrics.csv").read_text() == (cut / "metrics.csv").read_text()
    told, retold = (
        {path.name: path.read_text() for path in (folder / "attention").glob("*")} for folder in (whole, cut)
    )
    assert told == retold
    best = [torch.load(folder / "best.ckpt", weights_only=True)["state_dict"] for folder in (whole, cut)]
    assert same(*best)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run([*COMMAND, *FIT, "--run", "whole"], cwd=folder, env=environment(), check=True, capture_output=True)
    return folder / "checkpoints" / "whole"


def start(folder, *words, code=None) -> warm.WarmProcess:
    return warm.start([*FIT, "--run", "cut", *words], cwd=folder, env=environment(), code=code)


def resume(folder) -> None:
    done = start(folder, "--resume", "auto")
    output, _ = done.communicate(timeout=300)
    assert done.returncode == 0, output


def test_killed_at_random_moments(whole, tmp_path):
    """SIGKILL three times, each a random while after the process has begun to write checkpoints."""
    moments = random.Random(20)
    last = tmp_path / "checkpoints" / "cut" / "last.ckpt"
    for _ in range(3):
        before = last.stat().st_mtime_ns if last.exists() else 0
        process = start(tmp_path, "--resume", "auto")
        while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == before):
            time.sleep(0.01)
        time.sleep(moments.random() * 0.6)
        process.kill()
        process.communicate()
    resume(tmp_path)
    compare(whole, last.parent)


@pytest.mark.parametrize(
    "recipe",
    [
        ["tiny/mac", "--data.val_scenes", "5"],
        ["tiny/m4c", "--data.val_questions", "5"],
        ["tiny/attngan"],
        ["tiny/damsm", "--trainer.max_epochs", "4"],
    ],
)
def test_other_models_go_on_after_a_kill(lit_attn, tmp_path, recipe):
    """With an average of weights, with an answer that is written step by step, and with two optimizers."""
    killed_and_resumed(lit_attn, tmp_path, ["fit", *recipe, "--checkpoint_every", "3"])


def killed_and_resumed(lit_attn, tmp_path, fit) -> None:
    """A run that is killed once it has written a checkpoint, and resumed, is the run that was never killed."""
    done = lit_attn(*fit, "--run", "whole")
    assert done.returncode == 0, done.stderr
    last = tmp_path / "checkpoints" / "cut" / "last.ckpt"
    process = warm.start([*fit, "--run", "cut"], cwd=tmp_path, env=environment())
    while process.poll() is None and not last.exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    done = lit_attn(*fit, "--run", "cut", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    compare(tmp_path / "checkpoints" / "whole", last.parent)


@pytest.mark.parametrize(("step", "renamed"), [(6, False), (9, False), (12, True), (10, True)])
def test_killed_inside_a_checkpoint_write(whole, tmp_path, step, renamed):
    """Before the rename the old file must survive; right after it nothing of that step may be lost."""
    flag = tmp_path / "writing"
    process = start(tmp_path, code=SLOW_WRITES.format(step=step, flag=flag, renamed=renamed))
    while not flag.exists() and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    cut = tmp_path / "checkpoints" / "cut"
    assert state(cut)["global_step"] == step if renamed else state(cut)["global_step"] < step
    resume(tmp_path)
    compare(whole, cut)


def test_sigterm_saves_and_leaves_with_143(whole, tmp_path):
    """In the second epoch, where nothing else would write a checkpoint."""
    process = start(tmp_path, "--checkpoint_every", "1000", code=SLOW_STEPS)
    last = tmp_path / "checkpoints" / "cut" / "last.ckpt"
    while process.poll() is None and (not last.exists() or state(last.parent)["global_step"] < 10):
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 143, output
    assert 10 < state(last.parent)["global_step"] < 19
    resume(tmp_path)
    compare(whole, last.parent)


def test_a_sigterm_that_lightning_heard_before_training_is_honoured_with_a_checkpoint():
    class Connector:
        received_sigterm = True

    class Trainer:
        _signal_connector = Connector()

    before, callback = signal.getsignal(signal.SIGTERM), Checkpoints(Path("x"), None, "max", 1)
    try:
        callback.on_train_start(Trainer(), None)
        assert callback._terminated
        assert not Trainer._signal_connector.received_sigterm
    finally:
        callback.teardown(Trainer(), None, "fit")
    assert signal.getsignal(signal.SIGTERM) == before


def test_after_a_run_sigterm_does_what_it_did_before(inside):
    """Where one process trains several times, a handler of an earlier run must not keep a signal to itself."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert inside("fit", "tiny/agreement", "--trainer.max_epochs", "1").returncode == 0
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_resume_refuses_other_settings_and_writes_nothing(whole, tmp_path):
    words = ["--model.lr", "0.5", "--model.alignment", "general_key", "--ckpt_path", str(whole / "last.ckpt")]
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    done = warm.run([*FIT, *words], cwd=tmp_path, env=environment())
    assert done.returncode == 2
    assert "--model.alignment: the run has 'dot', the command says 'general_key'" in done.stderr
    assert "--model.lr: the run has 0.002, the command says 0.5" in done.stderr
    assert "--from_weights" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before
    assert not (tmp_path / "checkpoints").exists()


def test_more_epochs_may_be_asked_for(whole, tmp_path):
    words = [*FIT, "--ckpt_path", str(whole / "last.ckpt"), "--trainer.max_epochs", "3"]
    import shutil

    shutil.copytree(whole, tmp_path / "copy")
    words[words.index("--ckpt_path") + 1] = str(tmp_path / "copy" / "last.ckpt")
    done = warm.run(words, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    assert state(tmp_path / "copy")["epoch"] == 2
    assert state(tmp_path / "copy")["global_step"] == 30
