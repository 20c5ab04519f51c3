"""How are many runs started without paying for imports each time, and without leaving orphans?

One process, the nursery, imports everything once and forks a child per run. A fork copies only the thread that calls it, so
it is done only while the nursery has a single thread (checked before every fork); otherwise, and where that cannot be
checked, each run is a fresh process. Orders come as JSON lines on standard input, answers go as JSON lines to standard
output. When the study dies, the input ends: the nursery then ends its children, which write a checkpoint, and itself. When
the nursery dies, the kernel tells its children (Linux).
"""

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lit_attn.study.journal import note

GRACE = 90.0
"""Seconds that a run has to write its checkpoint before it is killed."""
LOCK_VARIABLE = "LIT_ATTN_STUDY_LOCK"
"""Number of the inherited descriptor that holds the study's lock."""
_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


@dataclass
class Child:
    run: str
    begun: float


def single_thread() -> bool:
    """Whether a fork would copy all of this process; False where nobody can tell."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent ends; leave if it has ended already."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(143)


class Nursery:
    """Starts runs on request and reports how they end.

    Args:
        run: Runs `lit-attn` with these words in this process and returns its exit code.
        folder: Of the study, for its journal.
        fork: Whether children are forked; else they are fresh processes.
    """

    def __init__(self, run: Callable[[list[str]], int], folder: Path, *, fork: bool) -> None:
        self.run, self.folder, self.fork = run, folder, fork
        self.children: dict[int, Child] = {}
        self.ending: float | None = None

    def serve(self) -> int:
        """Until the input ends and the last child has gone."""
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.answer(ready=True, forks=self.fork)
        source = sys.stdin.fileno()
        os.set_blocking(source, False)
        selector = selectors.DefaultSelector()
        selector.register(source, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        buffer, is_open = b"", True
        while is_open or self.children:
            for key, _ in selector.select(timeout=1.0):
                if key.fd == reader:
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    continue
                try:
                    piece = os.read(source, 65536)
                except BlockingIOError:
                    continue
                if not piece:
                    is_open = False
                    selector.unregister(source)
                    self.end_all()
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
            self.reap()
            if self.ending is not None and not self.children:
                break
            if self.ending is not None and time.monotonic() - self.ending > GRACE:
                self.signal_all(signal.SIGKILL)
        return 0

    def obey(self, order: dict[str, Any]) -> None:
        if order["order"] == "start":
            self.start(order["run"], list(order["words"]), Path(order["log"]))
        elif order["order"] == "end":
            self.end_all()
        elif order["order"] == "kill":
            self.signal_all(signal.SIGKILL)

    def start(self, run: str, words: list[str], log: Path) -> None:
        if self.ending is not None:
            return
        note(self.folder, "started", run)
        if self.fork and single_thread():
            number = self._forked(words, log)
        else:
            number = self._fresh(words, log)
        self.children[number] = Child(run, time.monotonic())
        self.answer(started=run, pid=number)

    def _forked(self, words: list[str], log: Path) -> int:
        gc.freeze()
        parent = os.getpid()
        number = os.fork()
        if number:
            return number
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(name, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            die_with_parent(parent)
            _redirect(log)
            sys.argv = [sys.argv[0], *words]
            code = self.run(words)
            sys.stdout.flush()
            sys.stderr.flush()
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _fresh(self, words: list[str], log: Path) -> int:
        parent = os.getpid()
        lock = os.environ.get(LOCK_VARIABLE)
        with log.open("ab") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "lit_attn", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                pass_fds=[int(lock)] if lock else [], preexec_fn=lambda: die_with_parent(parent),
            )  # fmt: skip
        child.returncode = 0  # waited for below, not by Popen
        return child.pid

    def reap(self) -> None:
        """Report the children that have ended."""
        while self.children:
            try:
                number, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if number == 0:
                return
            child = self.children.pop(number, None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            facts = {
                "code": code,
                "wall": round(time.monotonic() - child.begun, 2),
                "cpu": round(used.ru_utime + used.ru_stime, 2),
            }
            note(self.folder, "ended", child.run, **facts)
            self.answer(ended=child.run, **facts)

    def end_all(self) -> None:
        """Every child writes a checkpoint and leaves."""
        if self.ending is None:
            self.ending = time.monotonic()
            self.signal_all(signal.SIGTERM)

    def signal_all(self, number: signal.Signals) -> None:
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self.end_all()

    def answer(self, **facts: Any) -> None:
        with contextlib.suppress(BrokenPipeError, OSError):
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()


def _redirect(log: Path) -> None:
    """Standard output and error of this process go to a file from now on; there is no input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for old, new in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(old, new)
