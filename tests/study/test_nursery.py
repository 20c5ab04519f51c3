"""Do runs start, end and report as they should, whoever dies? With children that do no training."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lit_attn.study.journal import entries
from lit_attn.study.local import Job, Local, Watcher, reason
from lit_attn.study.progress import Lines, last_line

ROOT = Path(__file__).parents[2]
FAKE = """
import os, signal, sys, time
from pathlib import Path
from lit_attn.study.nursery import Nursery

def run(words):
    print("words", words, flush=True)
    if words[0] == "fail":
        print("lit-attn: no such thing", file=sys.stderr, flush=True)
        return 2
    if words[0] == "wait":
        def leave(*_):
            Path(words[1]).write_text("ended")
            os._exit(143)
        signal.signal(signal.SIGTERM, leave)
        Path(words[1]).write_text("waiting")
        time.sleep(60)
    return 0

sys.exit(Nursery(run, Path(sys.argv[1]), fork=True).serve())
"""


class Fake(Local):
    """Local with a nursery whose runs are functions."""

    def _begin(self):
        command = [sys.executable, "-c", FAKE, str(self.folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment, start_new_session=True
        )


class Seen(Watcher):
    def __init__(self, then=lambda: None):
        self.codes, self.most, self.then = {}, 0, then

    def ended(self, job, code):
        self.codes[job.name] = code

    def tick(self, running):
        self.most = max(self.most, len(running))
        self.then()


def job(folder, name, *words):
    return Job(name, list(words), folder / f"{name}.log")


def test_runs_go_at_most_two_at_a_time_and_failures_are_not_fatal(tmp_path):
    jobs = [job(tmp_path, f"r{i}", "fail" if i == 1 else "ok") for i in range(5)]
    seen = Seen()
    assert Fake(tmp_path, 0, 2, 1).run(jobs, seen) == 0
    assert seen.codes == {"r0": 0, "r1": 2, "r2": 0, "r3": 0, "r4": 0}
    assert seen.most <= 2
    assert reason(tmp_path / "r1.log") == "no such thing"
    ended = [entry for entry in entries(tmp_path) if entry["event"] == "ended"]
    assert sorted(entry["run"] for entry in ended) == [f"r{i}" for i in range(5)]
    assert all(entry["cpu"] >= 0 for entry in ended)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_study_ends_its_runs(tmp_path, number, code):
    file = tmp_path / "state"

    def stop():
        if file.exists():
            os.kill(os.getpid(), number)

    seen = Seen(stop)
    assert Fake(tmp_path, 0, 1, 1).run([job(tmp_path, "a", "wait", str(file)), job(tmp_path, "b", "ok")], seen) == code
    assert file.read_text() == "ended"
    assert seen.codes == {"a": 143}, "the second run never began"


def test_runs_end_when_the_study_or_the_nursery_is_killed(tmp_path):
    for victim in ("study", "nursery"):
        file = tmp_path / victim
        nursery = subprocess.Popen(
            [sys.executable, "-c", FAKE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        order = {"order": "start", "run": victim, "words": ["wait", str(file)], "log": str(tmp_path / "log")}
        nursery.stdin.write(json.dumps(order).encode() + b"\n")
        nursery.stdin.flush()
        _until(lambda file=file: file.exists() and file.read_text() == "waiting")
        if victim == "study":
            nursery.stdin.close()  # what the kernel does when the study dies
        else:
            nursery.kill()
        _until(lambda file=file: file.read_text() == "ended")
        nursery.wait(20)


def _until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_lines_tell_failed_from_stopped(tmp_path, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    (tmp_path / "a.log").write_text("first\nlit-attn: bad key\n\n")
    lines = Lines(3, 1)
    for code in (0, 143, 2):
        lines.started(job(tmp_path, "a"))
        lines.ended(job(tmp_path, "a"), code)
    said = out.getvalue()
    assert "finished a in 0 s, 2/3" in said
    assert "stopped a" in said
    assert "failed a (code 2): bad key" in said
    assert list(lines.failed) == ["a"]
    assert last_line(tmp_path / "a.log") == "lit-attn: bad key"
    assert last_line(tmp_path / "none.log") == ""
