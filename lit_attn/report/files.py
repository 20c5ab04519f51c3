"""How do several files appear together, each whole, or not at all?

Everything is first written under temporary names in the target folder and then renamed, the page last. A crash
before the renames leaves the old report untouched; a crash between them leaves every file whole.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lit_attn.report.errors import ReportError

_OUR_FIGURES = ("curves-", "capture-", "heads-", "words-", "map-", "answer-", "breakdown-", "scores")


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say why it cannot be; done before the work, so that nobody waits for a failure."""
    if folder.exists() and not folder.is_dir():
        raise ReportError(f"{folder}: is a file; a report needs a folder. Choose another place.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{folder}: cannot be made ({error.strerror}). Choose another folder.") from error


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files, given by path relative to the folder, in the order of the mapping. Our stale figures go."""
    prepare_folder(folder)
    try:
        staging = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    except OSError as error:
        raise ReportError(
            f"{folder}: cannot write a report there ({error.strerror}). Choose another folder."
        ) from error
    try:
        for name, content in contents.items():
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        for name in contents:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, folder / name)
        _remove_stale(folder / "figures", {Path(name).name for name in contents})
    except OSError as error:
        raise ReportError(f"{folder}: cannot write the report ({error.strerror}).") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def free_name(name: str, taken: Mapping[str, object]) -> str:
    """The name, or the first numbered one that no other has, whatever the case of their letters."""
    candidates = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))]
    lowered = {other.lower() for other in taken}
    return next(candidate for candidate in candidates if candidate.lower() not in lowered)


def _remove_stale(figures: Path, current: set[str]) -> None:
    for path in figures.glob("*.*"):
        if path.suffix in (".png", ".svg") and path.name.startswith(_OUR_FIGURES) and path.name not in current:
            path.unlink()
