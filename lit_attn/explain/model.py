"""Which model of ours does a name mean, and which data was it made for? Shipped weights, run folders, and single files.

Data come from the run's own configuration or from the recipe that the manifest names; settings of a command win over both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import lightning as L
import yaml

from lit_attn.checkpoint import MANIFEST, SUFFIXES, Weights, read_weights, take_over
from lit_attn.data.batched import BatchedData
from lit_attn.errors import UserError, did_you_mean
from lit_attn.run.checkpoint_io import load_checkpoint
from lit_attn.run.folder import BEST, LAST, RunInfo
from lit_attn.vocabulary import CaptionWords

FOLDERS = (Path("checkpoints"), Path(__file__).parents[2] / "checkpoints")
"""Where shipped weights and runs are looked for: below the working folder, then in a checkout."""


@dataclass(frozen=True)
class OurModel:
    """A trained task with data it can be asked about."""

    name: str
    task: L.LightningModule
    data: BatchedData
    alignment: str | None
    seed: int | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Settings that it was trained with."""
    epochs: int | None = None
    """How long it was trained at most, where that is known."""


@dataclass(frozen=True)
class Found:
    """A file of weights, and what stands beside it."""

    file: Path
    name: str
    data: dict[str, Any] | None
    seed: int | None
    epochs: int | None = None
    task: str | None = None
    """Import path of the task, for weights that do not name it themselves."""


def find_weights(name: str, recipe: Mapping[str, Any] | None, folders: tuple[Path, ...] = FOLDERS) -> Found:
    """A name of the manifest, a run folder by path or name, or a file.

    Args:
        recipe: The recipe that a command names, parsed; its data win.
    """
    given = None if recipe is None else recipe.get("data")
    places = [Path(name), *(folder / name for folder in folders)]
    for path in places:
        if path.is_dir():
            return _of_run(path, given)
    for path in [*places, *(path.with_name(path.name + ".safetensors") for path in places)]:
        if path.is_file() and path.suffix in SUFFIXES:
            return _of_file(path, given)
    known = sorted({entry for folder in folders for entry in shipped(folder)})
    raise UserError(
        f"There is no model {name!r}.{did_you_mean(name, known)} Expected a shipped name ({', '.join(known) or 'none here'}), "
        "a run folder, a .ckpt or .safetensors file, or hf:FOLDER_OR_ID."
    )


def load_model(
    name: str, recipe: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
) -> OurModel:
    """The task with its weights, in evaluation mode, and its data.

    Args:
        settings: Of the data set, over those of its run or recipe.
    """
    found = find_weights(name, recipe)
    weights = read_weights(found.file)
    kind = weights.task or found.task
    if kind is None:
        raise UserError(f"{found.file} does not say which model it is for.")
    task = _imported(kind)(**weights.hyperparameters).eval()
    take_over(weights, task, strict=True, scoring=False)
    if weights.words is not None and hasattr(task, "words"):
        task.words = CaptionWords(weights.words)
    facts = dict(weights.hyperparameters)
    data = _data(found, weights, settings or {})
    return OurModel(found.name, task, data, facts.get("alignment"), found.seed, facts, found.epochs)


def _of_run(folder: Path, given: dict[str, Any] | None) -> Found:
    file = next((folder / name for name in (BEST, LAST) if (folder / name).exists()), None)
    if file is None:
        raise UserError(f"The run {folder} has no {BEST} or {LAST}: nothing was trained there, or it was removed.")
    config = folder / "config.yaml"
    own = yaml.safe_load(config.read_text(encoding="utf-8")) if config.exists() else {}
    info = RunInfo.read(folder)
    return Found(file, folder.name, given or own.get("data"), None if info is None else info.seed, _epochs(own))


def _of_file(file: Path, given: dict[str, Any] | None) -> Found:
    if file.suffix == ".ckpt":
        config = yaml.safe_load(load_checkpoint(file).get("config", "{}")) or {}
        name, seed = file.parent.name or file.stem, config.get("seed_everything")
        return Found(file, name, given or config.get("data"), seed, _epochs(config))
    entry = shipped(file.parent).get(file.stem, {})
    recipe = _recipe(str(entry["recipe"])) if "recipe" in entry else {}
    kind = recipe.get("model", {}).get("class_path")
    return Found(file, file.stem, given or recipe.get("data"), entry.get("seed"), _epochs(recipe), kind)


def _epochs(config: Mapping[str, Any]) -> int | None:
    return (config.get("trainer") or {}).get("max_epochs")


def shipped(folder: Path) -> dict[str, dict[str, Any]]:
    """What the manifest of a folder says of each file of weights, by its name without suffix."""
    manifest = folder / MANIFEST
    entries = yaml.safe_load(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    return {Path(name).stem: entry for name, entry in (entries or {}).items()}


def _recipe(name: str) -> dict[str, Any]:
    roots = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[2] / "recipes")
    file = next((root / f"{name}.yaml" for root in roots if (root / f"{name}.yaml").exists()), None)
    return {} if file is None else yaml.safe_load(file.read_text(encoding="utf-8"))


def _data(found: Found, weights: Weights, settings: Mapping[str, Any]) -> BatchedData:
    if found.data is None:
        raise UserError(f"{found.file} does not say which data it is for. Name a recipe of such data: --recipe NAME.")
    kind = _imported(found.data["class_path"])
    own = dict(found.data.get("init_args") or {}) | dict(settings)
    for name in ("vocabulary", "answer_words"):
        if name in own and own[name] is None:
            own[name] = str(weights.path)
    try:
        data = kind(**own)
    except TypeError as error:
        raise UserError(f"{kind.__name__} cannot be built: {error}.") from error
    if not isinstance(data, BatchedData):
        raise UserError(f"{kind.__name__} is no data set of samples and cannot be explained sample by sample.")
    return data


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{path!r} cannot be imported: {error}.") from error
