"""How do tests start `lit-attn` in processes of their own without paying for its imports each time?

A server imports everything once and has no threads; each command is a fork of it, with the environment, the folder and the
streams of a fresh process, so that it can be killed, signalled and joined to others by gloo like any other. What differs
from `python -m lit_attn` is only how it begins: `tests/cli/test_resume.py` compares with a cold run to the bit.
"""

import atexit
import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
ADDRESS = "LIT_ATTN_TEST_SERVER"
"""Where a process finds the server that it came from."""


class WarmProcess:
    """What tests and Lightning's launcher use of `subprocess.Popen`."""

    def __init__(self, address: str, order: Mapping[str, Any], streams: Sequence[int]) -> None:
        self.returncode: int | None = None
        self.stdout: Any = None
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(address)
        socket.send_fds(self._link, [b"."], list(streams))
        self._link.sendall(json.dumps(order).encode() + b"\n")
        self._answers = self._link.makefile("r")
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired("lit-attn", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Tests bound their time by `timeout`; a process that hangs with its stream open is killed then."""
        end = None if timeout is None else time.monotonic() + timeout
        if end is not None and self._look(timeout) is None:
            self.kill()
        output = self.stdout.read() if self.stdout else ""
        self.wait()
        return output, None

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)
            self._link.close()
        return self.returncode


def address() -> str:
    """The server of this process, started on first use and ended with it."""
    if ADDRESS not in os.environ:
        folder = tempfile.mkdtemp(prefix="lit-attn-")
        place = os.path.join(folder, "server")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        server = subprocess.Popen([sys.executable, "-m", "tests.warm", place], env=env, cwd=ROOT, stdin=subprocess.PIPE)
        atexit.register(server.kill)
        while not os.path.exists(place):
            assert server.poll() is None, "the server of warm processes did not start"
            time.sleep(0.01)
        os.environ[ADDRESS] = place
    return os.environ[ADDRESS]


def start(
    words: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    code: str | None = None,
    output: int | None = None,
    errors: int | None = None,
) -> WarmProcess:
    """`lit-attn WORDS`, or `code` in its place; both streams go to a pipe unless told otherwise."""
    order = {"argv": ["lit-attn", *words], "cwd": str(cwd), "env": {**env, ADDRESS: address()}, "code": code}
    if output is not None:
        return WarmProcess(address(), order, [0, output, output if errors is None else errors])
    read, write = os.pipe()
    process = WarmProcess(address(), order, [0, write, write])
    os.close(write)
    process.stdout = os.fdopen(read, errors="replace")
    return process


def run(
    words: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], code: str | None = None, timeout: float = 500
) -> subprocess.CompletedProcess[str]:
    """The finished process with what it printed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(words, cwd=cwd, env=env, code=code, output=output.fileno(), errors=errors.fileno())
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(["lit-attn", *words], process.wait(), *texts)


def serve(place: str) -> None:
    """Fork for every order; tell who asked when it has ended. Ends when the process that started it does."""
    import lit_attn.cli.training
    import lit_attn.data.scenes.painting
    import lit_attn.tasks.answering
    import lit_attn.tasks.captioning
    import lit_attn.tasks.matching
    import lit_attn.tasks.reading
    import lit_attn.tasks.synthesis  # noqa: F401

    door = socket.socket(socket.AF_UNIX)
    door.bind(f"{place}.new")
    door.listen()
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.rename(f"{place}.new", place)
    links: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([door, woken, 0], [], [])
        if 0 in ready:
            return
        if woken in ready:
            os.read(woken, 4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with links.pop(ended[0]) as link, contextlib.suppress(OSError):
                    link.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
        if door in ready:
            link, _ = door.accept()
            _, streams, _, _ = socket.recv_fds(link, 1, 3)
            order = json.loads(link.makefile("r").readline())
            pid = os.fork()
            if pid == 0:
                for other in (door, *links.values(), link):
                    other.close()
                _become(order, streams)
            for stream in streams:
                os.close(stream)
            links[pid] = link
            link.sendall(f"{pid}\n".encode())


def _become(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Turn this fork into what was ordered, and leave with its code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = list(order["argv"])
    random.seed()
    _launch_warmly(order)
    try:
        if order["code"] is None:
            from lit_attn.cli.main import entry

            entry()
        else:
            exec(compile(order["code"], "<test>", "exec"), {"__name__": "__main__"})  # noqa: S102
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _launch_warmly(order: Mapping[str, Any]) -> None:
    """Lightning's further processes of a run are forks of the server, too."""
    from lightning.pytorch.strategies.launchers import subprocess_script

    def popen(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> WarmProcess:
        again = {**order, "env": dict(env), "cwd": cwd or os.getcwd()}
        return WarmProcess(order["env"][ADDRESS], again, [0, 1, 2])

    subprocess_script.subprocess = SimpleNamespace(Popen=popen)


if __name__ == "__main__":
    serve(sys.argv[1])
