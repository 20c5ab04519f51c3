"""Where does a run live? Names, paths and the small `run.json` of a run folder. Needs no torch.

`<root>/<run>/` holds everything: `run.json`, `config.yaml`, `last.ckpt`, `best.ckpt`, `metrics.csv`, `attention/`,
`gallery/`, `report/`.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lit_attn.errors import UserError
from lit_attn.files import write_text

RUN_FILE = "run.json"
LAST, BEST = "last.ckpt", "best.ckpt"


@dataclass
class RunInfo:
    """What `run.json` says about a run."""

    name: str
    verb: str
    recipe: str | None = None
    alignment: str | None = None
    equivalence: str | None = None
    parameters: int | None = None
    seed: int | None = None
    status: str = "running"
    started: str = ""
    finished: str | None = None
    version: str = ""
    monitor: str | None = None
    mode: str | None = None
    facts: dict[str, float | str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        write_text(folder / RUN_FILE, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "RunInfo | None":
        try:
            raw = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return cls(**{name: value for name, value in raw.items() if name in cls.__dataclass_fields__})


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def stem(recipe: str | None, alignment: str | None, seed: int | None) -> str:
    """The part of a default name that is the same for all runs of one setting."""
    parts = [recipe or "run", alignment or "", f"s{seed}" if seed is not None else ""]
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", part) for part in parts if part)


def default_name(recipe: str | None, alignment: str | None, seed: int | None) -> str:
    return f"{stem(recipe, alignment, seed)}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"


def new_folder(root: Path, name: str) -> Path:
    """Creates `<root>/<name>`; when a run already lives there, `<name>-2` and so on, so that nothing is overwritten."""
    if not re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._ -]*", name) or name in (".", ".."):
        raise UserError(f"--run {name!r} cannot be a folder name. Use letters, digits, dots, dashes and underscores.")
    candidate, number = root / name, 1
    try:
        while True:
            candidate.mkdir(parents=True, exist_ok=True)
            if not any(candidate.iterdir()):
                break
            number += 1
            candidate = root / f"{name}-{number}"
        probe = candidate / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"Cannot write to the run folder {candidate}: {error.strerror}. Choose another with --root or --run."
        ) from error
    return candidate


def latest_run(root: Path, prefix: str) -> Path | None:
    """The newest run of one setting that has a checkpoint to go on from."""
    found = [path.parent for path in root.glob(f"{prefix}-*/{LAST}")]
    return max(found, key=lambda folder: (folder / LAST).stat().st_mtime, default=None)
