"""What does a person see of a study? A live table on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lit_attn.study.local import Job, Watcher, reason

TAIL = 4096


class Lines(Watcher):
    """A line per start and end."""

    def __init__(self, total: int, finished: int) -> None:
        self.total, self.finished, self.failed = total, finished, dict[str, tuple[Path, str]]()
        self.states: dict[str, str] = {}
        self._begun = time.monotonic()
        self._since: dict[str, float] = {}

    def started(self, job: Job) -> None:
        self._since[job.name] = time.monotonic()
        self.say(f"started {job.name}")

    def ended(self, job: Job, code: int) -> None:
        seconds = time.monotonic() - self._since.get(job.name, self._begun)
        if code == 0:
            self.finished += 1
            self.say(f"finished {job.name} in {seconds:.0f} s, {self.finished}/{self.total}")
        elif code in (130, 143, -15, -9, -2):
            self.say(f"stopped {job.name} after {seconds:.0f} s; the same command goes on with it")
        else:
            self.failed[job.name] = (job.log, reason(job.log))
            self.say(f"failed {job.name} (code {code}): {self.failed[job.name][1]}")

    def say(self, text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - self._begun:6.0f} s] {text}\n")
        sys.stdout.flush()


class LiveTable(Lines):
    """The same as a table that is drawn again and again."""

    def __init__(self, total: int, finished: int) -> None:
        super().__init__(total, finished)
        from rich.live import Live

        self._live: Any = Live(refresh_per_second=2)
        self._last: list[str] = []
        self._live.start()

    def say(self, text: str) -> None:
        self._last = [*self._last[-4:], text]
        self.tick([])

    def tick(self, running: Sequence[Job]) -> None:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        seconds = time.monotonic() - self._begun
        table = Table(title=f"{self.finished}/{self.total} runs, {len(self.failed)} failed, {seconds:.0f} s")
        table.add_column("run")
        table.add_column("last line of its log", overflow="ellipsis", no_wrap=True)
        for job in running:
            table.add_row(Text(job.name), Text(last_line(job.log)))
        self._live.update(Group(table, *(Text(line) for line in self._last)))

    def close(self) -> None:
        self._live.stop()


def last_line(log: Path) -> str:
    """What a run said last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
