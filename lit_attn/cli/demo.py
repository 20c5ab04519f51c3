"""What does `lit-attn report --demo` show? The shipped models, validated on a few samples with probes, on one page.

Nothing is trained. Each model is validated as `lit-attn validate` would, so that its folder is an ordinary run folder; those
that attribution methods can explain also get these beside their attention.
"""

import logging
import shutil
import sys
from pathlib import Path

import yaml

from lit_attn.cli.recipes import find_recipe
from lit_attn.cli.training import Training, run
from lit_attn.errors import UserError
from lit_attn.explain.model import FOLDERS, shipped
from lit_attn.explain.ours import REFUSED
from lit_attn.report.page import write_report
from lit_attn.run.folder import RUN_FILE

log = logging.getLogger(__name__)

BATCHES = 1
"""Of validation, for each model: 32 to 128 pictures or questions."""
NOT_SHOWN = ("Classifying", "DamsmTraining")
"""Tasks that only judge others."""
WORDY = ("Captioning",)
"""Tasks that write sentences: probes of grammar have something to say."""
GRAMMAR = ("probes/pos", "probes/dependencies", "probes/spatial")


class Demonstration(Training):
    """A validation whose scores stand on the page."""

    def show_scores(self) -> None:
        log.info("validated %s", self.folder.name)


def demonstrate(out: Path, batches: int = BATCHES) -> Path:
    """Validates every shipped model below `out` and returns the path of the page."""
    models = shown_models()
    if not models:
        raise UserError(
            "There are no shipped weights here: checkpoints/manifest.yaml is missing. Run it in a checkout."
        )
    for weights, (recipe, task) in models.items():
        folder = out / weights.stem
        if (folder / RUN_FILE).exists():
            shutil.rmtree(folder)
        words = [recipe, "--from_weights", str(weights), "--run", folder.name, "--root", str(out)]
        words += ["--trainer.limit_val_batches", str(batches)]
        for overlay in overlays(task):
            words += ["--config", overlay]
        code = run("validate", words, Demonstration)
        if code:
            sys.exit(code)
    return write_report([out / weights.stem for weights in models], out / "report", figures=False)


def shown_models() -> dict[Path, tuple[str, str]]:
    """Recipe and task of each shipped file of weights."""
    folder = next((folder for folder in FOLDERS if shipped(folder)), Path())
    found = {}
    for name, entry in shipped(folder).items():
        recipe = yaml.safe_load(find_recipe(entry["recipe"]).read_text(encoding="utf-8"))
        task = recipe["model"]["class_path"].rpartition(".")[2]
        if task not in NOT_SHOWN:
            found[folder / f"{name}.safetensors"] = (str(entry["recipe"]), task)
    return found


def overlays(task: str) -> list[str]:
    """What is measured beside the recipe's own probes."""
    explained = [] if task in REFUSED else ["probes/attribution"]
    return [*explained, *(GRAMMAR if task in WORDY else ())]
