"""How do weights travel between runs? Plain tensors by name, from checkpoints or safetensors, checked against the manifest."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.run.checkpoint_io import load_checkpoint
from lit_attn.vocabulary import CaptionWords

MANIFEST = "manifest.yaml"
SUFFIXES = (".ckpt", ".safetensors")
"""Of files of weights."""


@dataclass(frozen=True)
class Weights:
    """Tensors with what is known about them."""

    path: Path
    tensors: dict[str, Tensor]
    hyperparameters: dict[str, Any]
    vocabulary: str | None
    """Fingerprint of the words."""
    words: tuple[str, ...] | None = None
    """The words themselves, where a task keeps them with its weights."""
    task: str | None = None
    """Import path of the LightningModule."""
    answers: tuple[str, ...] | None = None
    """What a model that answers questions can say, by number."""


@dataclass(frozen=True)
class Transfer:
    """What became of the weights when a model took them over."""

    kept: tuple[str, ...]
    created: tuple[str, ...]
    dropped: tuple[str, ...]

    def __str__(self) -> str:
        def listed(names: tuple[str, ...]) -> str:
            return f"{len(names)}" + (f" ({', '.join(names)})" if names and len(names) <= 12 else "")

        return f"kept {listed(self.kept)}, created {listed(self.created)}, dropped {listed(self.dropped)}"


def read_weights(path: Path) -> Weights:
    """A Lightning checkpoint or one of our safetensors files."""
    if path.suffix != ".safetensors":
        checkpoint = load_checkpoint(path)
        return Weights(
            path,
            checkpoint["state_dict"],
            checkpoint.get("hyper_parameters", {}),
            checkpoint.get("vocabulary"),
            _tuple(checkpoint.get("words")),
            checkpoint.get("task"),
            _tuple(checkpoint.get("answers")),
        )
    verify(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            metadata = file.metadata() or {}
    except FileNotFoundError as error:
        raise UserError(f"There is no weight file {path}.") from error
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a complete safetensors file: {error}.") from error
    return Weights(
        path,
        tensors,
        json.loads(metadata.get("hyperparameters", "{}")),
        metadata.get("vocabulary"),
        _tuple(json.loads(metadata.get("words", "null"))),
        metadata.get("task"),
        _tuple(json.loads(metadata.get("answers", "null"))),
    )


def _tuple(words: list[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words)


def read_words(path: Path) -> CaptionWords:
    """The words that a captioner writes: from its weights, or from a JSON with `ix_to_word`."""
    if path.suffix == ".json":
        return CaptionWords.read(path)
    words = read_weights(path).words
    if words is None:
        raise UserError(f"{path} holds no words: it is not a captioner's. Name a JSON with ix_to_word instead.")
    return CaptionWords(words)


def read_question_words(path: Path) -> tuple[str, ...]:
    """The words with which weights read questions."""
    words = read_weights(path).words
    if not words:
        why = "they were trained with a tokenizer, name it" if words == () else "they answer no questions"
        raise UserError(f"The weights {path} hold no words of questions: {why}.")
    return words


def read_answers(path: Path) -> tuple[str, ...]:
    """What weights can answer, by number."""
    answers = read_weights(path).answers
    if answers is None:
        raise UserError(f"The weights {path} hold no answers: they answer no questions.")
    return answers


def write_weights(weights: Weights, path: Path) -> None:
    """Tensors alone, with everything else as metadata."""
    metadata = {"hyperparameters": json.dumps(weights.hyperparameters)}
    if weights.vocabulary is not None:
        metadata["vocabulary"] = weights.vocabulary
    if weights.words is not None:
        metadata["words"] = json.dumps(weights.words)
    if weights.task is not None:
        metadata["task"] = weights.task
    if weights.answers is not None:
        metadata["answers"] = json.dumps(weights.answers)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.tensors.items()}, path, metadata)


def verify(path: Path) -> None:
    """Compare a file with the manifest beside it, when that lists it."""
    manifest = path.parent / MANIFEST
    if not (path.exists() and manifest.exists()):
        return
    entries = yaml.safe_load(manifest.read_text(encoding="utf-8")) or {}
    wanted = entries.get(path.name, {}).get("sha256")
    if wanted and wanted != sha256(path):
        raise UserError(f"{path} is not the file that {manifest} lists: its sha256 differs. Fetch it again.")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def take_over(weights: Weights, task: nn.Module, *, strict: bool, scoring: bool = True) -> Transfer:
    """`transfer` to a task that may do without a part: `only_in_training`, and `only_in_scoring` unless it is to be scored.

    Of the parts that it has from elsewhere (`from_elsewhere`) it fetches those that the weights lack (`fetch`).
    """
    elsewhere: tuple[str, ...] = getattr(task, "from_elsewhere", ())
    spare = getattr(task, "only_in_training", ()) + (() if scoring else getattr(task, "only_in_scoring", ()))
    found = transfer(weights, task, strict=strict, spare=spare + elsewhere)
    lacking = tuple(part for part in elsewhere if any(name.startswith(part) for name in found.created))
    if lacking:
        task.fetch(lacking)  # type: ignore[operator]
    return found


def transfer(weights: Weights, model: nn.Module, *, strict: bool, spare: tuple[str, ...] = ()) -> Transfer:
    """Copy what fits by name and shape. With `strict`, anything that does not fit is an error.

    Names that begin like one of `spare` may be missing or left over then.
    """
    own = model.state_dict()
    fitting = {n: t for n, t in weights.tensors.items() if n in own and own[n].shape == t.shape}
    found = Transfer(
        kept=tuple(fitting),
        created=tuple(name for name in own if name not in fitting),
        dropped=tuple(name for name in weights.tensors if name not in fitting),
    )
    missing = [name for name in found.created if not name.startswith(spare)]
    left = [name for name in found.dropped if not name.startswith(spare)]
    if not found.kept or (strict and (missing or left)):
        raise UserError(
            f"The weights in {weights.path} do not fit this model: {found}. Use the settings they were trained with: "
            + ", ".join(f"{name}={value}" for name, value in weights.hyperparameters.items())
        )
    model.load_state_dict(own | fitting)
    return found
