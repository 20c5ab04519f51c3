"""What does W&B learn of a whole study? A run of its own in the study's group, with its tables, figures and pages."""

import logging
import os
from pathlib import Path

from lit_attn.run.wandb_logger import PROJECT, has_credentials
from lit_attn.run.wandb_media import report_media

log = logging.getLogger(__name__)


def log_study(folder: Path, name: str) -> None:
    """Logs all tables, figures and pages of the study; offline without credentials. Never raises."""
    try:
        _log(folder, name)
    except Exception as error:  # W&B may fail in any way; the study is on disk
        log.warning("W&B failed (%s); %s has everything.", error, folder)


def _log(folder: Path, name: str) -> None:
    import wandb

    offline = os.environ.get("WANDB_MODE") == "offline" or not has_credentials()
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT), group=name, job_type="study", name=name, dir=str(folder),
        mode="offline" if offline else None, settings=wandb.Settings(init_timeout=60, console="off"),
    )  # fmt: skip
    run.log(report_media(folder, "study"))
    run.finish()
