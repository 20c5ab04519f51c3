"""Which runs does a name stand for? A study's folder for all of its runs that are done and can be explained."""

import logging
from collections.abc import Sequence
from pathlib import Path

import yaml

from lit_attn.errors import UserError
from lit_attn.explain.model import FOLDERS
from lit_attn.explain.truth_table import KINDS
from lit_attn.study.folder import read_study, run_folder, state_of

log = logging.getLogger(__name__)


def runs_of(name: str, folders: Sequence[Path] = FOLDERS) -> list[str]:
    """The runs of a study that are finished and can be explained; else the name itself."""
    for folder in (Path(name), *(folder / name for folder in folders)):
        study = read_study(folder)
        if study is None:
            continue
        found = [run_folder(folder, cell) for cell in study.cells if state_of(folder, cell) == "done"]
        runs = [run for run in found if _task(run / "config.yaml") in KINDS]
        if not runs:
            raise UserError(f"The study {folder} has no finished run of a model that can be explained.")
        if len(runs) < len(study.cells):
            log.warning("%s: %d of %d runs are finished and can be explained.", folder, len(runs), len(study.cells))
        return [str(run) for run in runs]
    return [name]


def _task(config: Path) -> str:
    """Class of the task that a run trains."""
    raw = yaml.safe_load(config.read_text(encoding="utf-8")) if config.exists() else {}
    return str(raw.get("model", {}).get("class_path", "")).rpartition(".")[2]
