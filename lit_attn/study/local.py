"""How does a study run on this machine? Some runs at a time, through one nursery.

SIGINT and SIGTERM end the runs with a checkpoint each; a second one kills them.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lit_attn.study.nursery import LOCK_VARIABLE

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """One run to start."""

    name: str
    words: list[str]
    log: Path


class Watcher:
    """What a launcher tells while it works; a view overrides what it shows."""

    def started(self, job: Job) -> None: ...

    def ended(self, job: Job, code: int) -> None: ...

    def tick(self, running: Sequence[Job]) -> None: ...


class Local:
    """Runs jobs here.

    Args:
        folder: Of the study.
        lock: Descriptor of the study's lock, inherited by all.
        at_once: How many runs at a time.
        threads: Of each run.
        fork: Whether runs may be forked from one process that has imported everything.
    """

    def __init__(self, folder: Path, lock: int, at_once: int, threads: int, *, fork: bool = True) -> None:
        self.folder, self.lock, self.at_once, self.threads, self.fork = folder, lock, at_once, threads, fork
        self.signal: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> int:
        """Starts them all in order; returns 0, or 130 or 143 when it was told to stop."""
        waiting, running = deque(jobs), dict[str, Job]()
        if not jobs:
            return 0
        old = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        process = self._process = self._begin()
        assert process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(process.stdout, selectors.EVENT_READ)
        os.set_blocking(process.stdout.fileno(), False)
        buffer, ready, last = b"", False, 0.0
        try:
            while waiting or running:
                if self.signal is not None:
                    waiting.clear()
                    if not running:
                        break
                while ready and waiting and len(running) < self.at_once and self.signal is None:
                    job = waiting.popleft()
                    running[job.name] = job
                    self._order(order="start", run=job.name, words=job.words, log=str(job.log.absolute()))
                    watcher.started(job)
                for _ in selector.select(timeout=0.5):
                    piece = process.stdout.read() or b""
                    if not piece and process.poll() is not None:
                        for job in running.values():
                            watcher.ended(job, -signal.SIGKILL)
                        return 128 + self.signal if self.signal is not None else 1
                    *lines, buffer = (buffer + piece).split(b"\n")
                    for line in lines:
                        ready |= self._hear(_facts(line), running, watcher)
                if time.monotonic() - last > 1.0:
                    last = time.monotonic()
                    watcher.tick(list(running.values()))
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
            for number, handler in old.items():
                signal.signal(number, handler)
        return 0 if self.signal is None else 128 + self.signal

    def _begin(self) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, LOCK_VARIABLE: str(self.lock)}
        environment |= {name: str(self.threads) for name in THREAD_VARIABLES}
        mode = "fork" if self.fork else "fresh"
        return subprocess.Popen(
            [sys.executable, "-m", "lit_attn", "_nursery", str(self.folder.absolute()), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, pass_fds=[self.lock], bufsize=0,
            start_new_session=True,
        )  # fmt: skip

    def _hear(self, facts: dict[str, Any], running: dict[str, Job], watcher: Watcher) -> bool:
        if "ended" in facts and facts["ended"] in running:
            watcher.ended(running.pop(facts["ended"]), int(facts["code"]))
        return bool(facts.get("ready"))

    def _order(self, **facts: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(facts).encode() + b"\n")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first signal ends the runs, the second kills them."""
        self._order(order="end" if self.signal is None else "kill")
        self.signal = self.signal or number


def _facts(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def reason(log: Path) -> str:
    """Why a run failed: our last message in its log, else its last line."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return "it left no log"
    ours = [line for line in lines if line.startswith("lit-attn: ")]
    said = [line for line in lines if line]
    return (ours or said or ["it said nothing"])[-1].removeprefix("lit-attn: ")[:300]
