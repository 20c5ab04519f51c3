"""Are the tracked weights those of the manifest, and do they fit the models they say they are for?"""

import importlib
from pathlib import Path

import pytest
import yaml

from lit_attn.checkpoint import MANIFEST, read_weights, sha256, take_over
from lit_attn.cli.recipes import find_recipe

FOLDER = Path(__file__).parents[1] / "checkpoints"
ENTRIES = yaml.safe_load((FOLDER / MANIFEST).read_text())
TASKS = {"scan_scenes.safetensors": "lit_attn.tasks.matching.Matching"}
"""Of files that were written before weights said it themselves."""


def test_every_tracked_file_is_listed_and_all_are_small():
    files = {path.name: path for path in FOLDER.glob("*.safetensors")}
    assert files.keys() == ENTRIES.keys()
    assert sum(path.stat().st_size for path in files.values()) < 10e6


@pytest.mark.parametrize("name", ENTRIES)
def test_weights_are_listed_and_fit(name):
    entry, weights = ENTRIES[name], read_weights(FOLDER / name)
    assert sha256(FOLDER / name) == entry["sha256"]
    assert {"recipe", "commit", "seed", "score", "licence"} <= entry.keys()
    module, _, cls = (weights.task or TASKS[name]).rpartition(".")
    task = getattr(importlib.import_module(module), cls)(**weights.hyperparameters)
    take_over(weights, task, strict=True)
    settings = yaml.safe_load(find_recipe(entry["recipe"]).read_text())["model"]["init_args"]
    assert {key: weights.hyperparameters[key] for key in settings} == settings, (
        "the recipe is no longer that of the weights"
    )
