"""What happened to the runs of a study, and what did they cost? A line of JSON per start and end of a process."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOURNAL = "journal.jsonl"


@dataclass(frozen=True)
class Cost:
    """Of one run, over all its attempts that ended in view of the study."""

    attempts: int = 0
    wall: float = 0.0
    cpu: float = 0.0


def note(folder: Path, event: str, run: str, **facts: Any) -> None:
    """One whole line, appended at once."""
    line = json.dumps({"at": round(time.time(), 2), "event": event, "run": run, **facts}) + "\n"
    descriptor = os.open(folder / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """All whole lines; half a line of a killed writer is passed over."""
    try:
        lines = (folder / JOURNAL).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "run" in entry:
            yield entry


def costs(folder: Path) -> dict[str, Cost]:
    """Wall and CPU seconds by run."""
    found: dict[str, Cost] = {}
    for entry in entries(folder):
        if entry.get("event") == "ended":
            old = found.get(entry["run"], Cost())
            found[entry["run"]] = Cost(
                old.attempts + 1, old.wall + float(entry.get("wall", 0)), old.cpu + float(entry.get("cpu", 0))
            )
    return found
