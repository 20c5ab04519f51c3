"""Where does a study live, and how far is each of its runs? `study.json`, the lock, and the state of run folders.

`<root>/<study>/` holds a run folder per cell, `study.json` (what was asked for), `journal.jsonl` (what happened), `logs/`,
`study.csv` and `table.md`. The lock is inherited by every process that writes runs of the study, so that a new study waits
until the last writer of a killed one has gone.
"""

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.run.folder import LAST, RunInfo
from lit_attn.study.grid import Cell, Recipe, cells

STUDY_FILE, LOCK_FILE = "study.json", "study.lock"
LONGEST_WAIT = 120.0
"""Seconds for the runs of a killed study to end."""


@dataclass(frozen=True)
class StudyInfo:
    """What `study.json` says. Recipes, alignments and seeds may grow; nothing else may change."""

    name: str
    recipes: dict[str, str]
    """Label to name."""
    digests: dict[str, str]
    """Label to checksum of the recipe's text."""
    alignments: tuple[str, ...]
    seeds: tuple[int, ...]
    extra: tuple[str, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        return cells(list(self.recipes), self.alignments, self.seeds)


def described(
    name: str, recipes: Sequence[Recipe], alignments: Sequence[str], seeds: Sequence[int], extra: Sequence[str]
) -> StudyInfo:
    """What a command asks for."""
    digests = {r.label: hashlib.sha256(r.path.read_bytes()).hexdigest() for r in recipes}
    return StudyInfo(name, {r.label: r.name for r in recipes}, digests, tuple(alignments), tuple(seeds), tuple(extra))


def read_study(folder: Path) -> StudyInfo | None:
    """What the folder was made for; None where no study lives."""
    path = folder / STUDY_FILE
    if not path.exists():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return StudyInfo(
            str(raw["name"]), dict(raw["recipes"]), dict(raw["digests"]), tuple(map(str, raw["alignments"])),
            tuple(map(int, raw["seeds"])), tuple(map(str, raw["extra"])),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged ({type(error).__name__}: {error}). Restore it, or choose another --name."
        ) from error


def merged(old: StudyInfo | None, new: StudyInfo, folder: Path) -> StudyInfo:
    """The study with everything that either names; a difference that would mix unlike runs is refused by name."""
    if old is None:
        return new
    differences = []
    if old.extra != new.extra:
        differences.append(f"  extra flags: the study has {_shown(old.extra)}, the command says {_shown(new.extra)}")
    differences += [
        f"  recipe {new.recipes[label]}: its text has changed since the study began"
        for label in new.recipes.keys() & old.recipes.keys()
        if old.digests[label] != new.digests[label]
    ]
    if differences:
        raise UserError(
            f"{folder} holds a study with other settings:\n" + "\n".join(sorted(differences)) + "\n"
            "Repeat the command as it was, or choose another --name."
        )
    return StudyInfo(
        old.name,
        old.recipes | new.recipes,
        old.digests | new.digests,
        tuple(dict.fromkeys((*old.alignments, *new.alignments))),
        tuple(sorted({*old.seeds, *new.seeds})),
        old.extra,
    )


def _shown(words: Sequence[str]) -> str:
    return " ".join(words) or "none"


def write_study(folder: Path, info: StudyInfo) -> None:
    write_text(folder / STUDY_FILE, json.dumps(asdict(info), indent=2) + "\n")


def make_folder(folder: Path) -> None:
    """Creates the study's folder, or says why it cannot be."""
    try:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"\0" * 4096)
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"Cannot write to the study folder {folder}: {error.strerror}. Choose another with --root or --name."
        ) from error


def lock(folder: Path, say: Callable[[str], None], longest: float = LONGEST_WAIT) -> int:
    """Takes the study's lock and returns its descriptor; it is held until all processes that inherit it have ended."""
    path = folder / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    begun, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return descriptor  # a file system without locks
        holder = path.read_text(encoding="utf-8", errors="replace").strip()
        if _is_alive(holder):
            os.close(descriptor)
            raise UserError(f"Another study is at work in {folder} (process {holder}). Wait for it, or end it.")
        if time.monotonic() - begun > longest:
            os.close(descriptor)
            raise UserError(
                f"Runs of an earlier study are still at work in {folder} after {longest:.0f} seconds. "
                "End them (`fuser` names the holders of study.lock), then repeat the command."
            )
        if not told:
            say("Runs of an earlier study are still ending; waiting for them.")
            told = True
        time.sleep(0.2)
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}@{socket.gethostname()}\n".encode(), 0)
    return descriptor


def _is_alive(holder: str) -> bool:
    number, _, host = holder.partition("@")
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(int(number))


def _is_zombie(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def state_of(folder: Path, cell: Cell) -> str:
    """`done`, `begun` (there is a checkpoint to go on from) or `open`."""
    run = run_folder(folder, cell)
    info = RunInfo.read(run)
    if info is not None and info.status == "done":
        return "done"
    return "begun" if (run / LAST).exists() else "open"


def run_folder(folder: Path, cell: Cell) -> Path:
    """The folder of a cell: by its name, or the newest run of that setting which somebody else began."""
    own = folder / cell.name
    if own.is_dir():
        return own
    found = []
    for path in folder.glob(f"{cell.recipe}-*"):
        info = RunInfo.read(path)
        if info is not None and (info.recipe, info.alignment, info.seed) == (cell.recipe, cell.alignment, cell.seed):
            found.append((info.status == "done", info.started, path))
    return max(found)[2] if found else own
