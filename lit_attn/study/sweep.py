"""How does a study run as a W&B sweep? A sweep file per recipe: the grid of alignments and seeds, for any number of agents."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from lit_attn.files import write_text
from lit_attn.study.folder import StudyInfo
from lit_attn.study.grid import Recipe


def sweep(folder: Path, info: StudyInfo, recipe: Recipe, flags: Sequence[str]) -> dict[str, object]:
    """W&B's agent puts `--model.alignment=…` and `--seed_everything=…` in the place of ${args}."""
    fixed = ["lit-attn", "fit", str(recipe.path), "--root", str(folder), "--resume", "auto", "--wandb=true"]
    others = [flag for flag in flags if flag != "--wandb=true"]
    return {
        "name": f"{info.name} {recipe.label}",
        "method": "grid",
        "command": ["${env}", *fixed, *others, "${args}"],
        "parameters": {
            "model.alignment": {"values": list(info.alignments)},
            "seed_everything": {"values": list(info.seeds)},
        },
    }


def write_sweeps(folder: Path, info: StudyInfo, recipes: Sequence[Recipe], flags: Sequence[str]) -> list[Path]:
    """The files, in the study's folder."""
    paths = []
    for recipe in recipes:
        paths.append(folder / f"sweep-{recipe.label}.yaml")
        write_text(paths[-1], yaml.safe_dump(sweep(folder, info, recipe, flags), sort_keys=False))
    return paths
