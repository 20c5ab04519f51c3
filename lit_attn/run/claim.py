"""Who may write to a run folder? One process at a time: the folder itself is locked while a run trains. Needs no torch."""

import errno
import fcntl
import os
import shutil
import time
from pathlib import Path

from lit_attn.errors import UserError
from lit_attn.run.folder import BEST, LAST, RUN_FILE, RunInfo

LONGEST_WAIT = 15.0
"""Seconds in which the last workers of a killed process may end."""
_OURS = frozenset(
    {RUN_FILE, "config.yaml", "metrics.csv", "attention", "attribution", "gallery", "wandb", "wandb_id", "report"}
)


def claim(folder: Path, longest: float = LONGEST_WAIT) -> int | None:
    """Locks a folder for this process and its children; None where the file system knows no locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    begun = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(descriptor)
                return None
        if time.monotonic() - begun > longest:
            os.close(descriptor)
            raise UserError(
                f"Another process is writing the run {folder}. Wait until it ends, or name another with --run."
            )
        time.sleep(0.1)


def released(descriptor: int) -> None:
    """Gives a claim up at once, even if workers that were forked meanwhile still hold the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def left_without_checkpoint(folder: Path) -> bool:
    """Whether a run began here and was ended before its first checkpoint: nothing is lost by starting it anew."""
    if not folder.is_dir() or (folder / LAST).exists() or (folder / BEST).exists():
        return False
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    info = RunInfo.read(folder)
    return bool(names) and names <= _OURS and "config.yaml" in names and (info is None or info.status != "done")


def cleared(folder: Path) -> None:
    """Takes away what such a run left."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
