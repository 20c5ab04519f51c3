"""What does W&B learn of a whole study? A run of its own in the study's group, with the table of runs and the heat map."""

import csv
import logging
import os
from pathlib import Path

from lit_attn.run.wandb_logger import PROJECT, has_credentials

log = logging.getLogger(__name__)

MOST_COLUMNS = 200


def log_study(folder: Path, name: str) -> None:
    """Logs `study.csv`, `table.md` and the figure of the table; offline without credentials. Never raises."""
    try:
        _log(folder, name)
    except Exception as error:  # W&B may fail in any way; the study is on disk
        log.warning("W&B failed (%s); %s has everything.", error, folder)


def _log(folder: Path, name: str) -> None:
    import wandb

    with (folder / "study.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    offline = os.environ.get("WANDB_MODE") == "offline" or not has_credentials()
    columns: list[str | int] = [*header[:MOST_COLUMNS]]
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT), group=name, job_type="study", name=name, dir=str(folder),
        mode="offline" if offline else None, settings=wandb.Settings(init_timeout=60, console="off"),
    )  # fmt: skip
    logged: dict[str, object] = {"study/runs": wandb.Table(columns=columns, data=[row[:MOST_COLUMNS] for row in rows])}
    picture = folder / "figures" / "table.png"
    if picture.exists():
        logged["study/table"] = wandb.Image(str(picture))
    run.log(logged)
    run.finish()
