"""Which detector is it, and where do its weights and its class names come from?

Detectors are torchvision's, by torchvision's names. Weights are those that torchvision publishes, a file of the user, or
random ones. A file whose sha256 begins as a published file's name says is treated as that published file: the first
ResNet-50 ones were trained with batch norm's epsilon 0, and the file itself does not tell.
"""

import argparse
import hashlib
import http.client
import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models import get_model, get_model_weights, list_models
from torchvision.models._api import Weights

from lit_attn.data.regions import read_label_names
from lit_attn.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

RANDOM_SEED = 0
_CLASSIFIER = "roi_heads.box_predictor.cls_score.weight"
_EPSILON_ZERO = ("fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn")
"""Detectors whose published weights `COCO_V1` need epsilon 0."""


@dataclass(frozen=True)
class Network:
    """A detector ready to run, and what to call what it finds."""

    model: Any
    """A `GeneralizedRCNN` of torchvision, which has no types."""
    class_names: tuple[str, ...]
    """Without the background."""
    weights: str
    """What the weights are, for the record: a published name and sha256, the sha256 of a file, or a seed."""

    @property
    def classes(self) -> str:
        """The class names, for the record: how many, and a checksum."""
        return f"{len(self.class_names)}, sha256 {hashlib.sha256(repr(self.class_names).encode()).hexdigest()[:16]}"


def usable_detectors() -> tuple[str, ...]:
    """Those of torchvision's detectors that compute features of single regions."""
    return tuple(name for name in list_models(module=torchvision.models.detection) if "rcnn" in name)


def load_network(detector: str, weights: str = "default", class_file: Path | None = None) -> Network:
    """A detector by torchvision's name.

    Args:
        detector: Such as `fasterrcnn_resnet50_fpn`.
        weights: `default`, a name that torchvision gives to its weights (`COCO_V1`), `random`, or a file.
        class_file: Class names, one per line, without the background. Default: those of the published weights.
    """
    _check_detector(detector)
    published: dict[str, Weights] = {entry.name: entry for entry in get_model_weights(detector)}
    default = get_model_weights(detector).DEFAULT
    own_names = None if class_file is None else read_label_names(class_file)
    if weights == "random":
        names = own_names or _names(default)
        with torch.random.fork_rng():
            torch.manual_seed(RANDOM_SEED)
            return Network(_build(detector, len(names) + 1), names, f"random, seed {RANDOM_SEED}")
    if weights == "default":
        file = _download(detector, default)
    elif weights in published:
        file = _download(detector, published[weights])
    else:
        file = _find(weights, published)
    found = checksum(file)
    entry = next((e for e in published.values() if found.startswith(_hash_in_name(e))), None)
    state = read_state(file)
    if _CLASSIFIER not in state:
        raise UserError(
            f"{file} holds no weights of a detector with RoI heads: {_CLASSIFIER} is missing. "
            f"It begins with {', '.join(list(state)[:3])}."
        )
    names = own_names or _names(entry or default)
    if len(names) != len(state[_CLASSIFIER]) - 1:
        raise UserError(
            f"{file} tells {len(state[_CLASSIFIER]) - 1} classes apart, besides the background, "
            f"but there are {len(names)} names. Give one name per line in --classes FILE."
        )
    if own_names is None and entry is None:
        log.warning("%s does not name its classes; taking those of torchvision's %s.", file, default)
    model = _build(detector, len(names) + 1)
    _fill(model, state, detector, file)
    if entry is not None and entry.name == "COCO_V1" and detector in _EPSILON_ZERO:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0
    label = f"sha256 {found}" if entry is None else f"{entry.name}, sha256 {found}"
    return Network(model, names, label)


def _check_detector(name: str) -> None:
    usable = usable_detectors()
    if name in usable:
        return
    if name in list_models(module=torchvision.models.detection):
        raise UserError(
            f"The detector {name} has no RoI heads, so it computes no features of single regions. "
            f"These do: {', '.join(usable)}."
        )
    raise UserError(f"Unknown detector {name!r}.{did_you_mean(name, usable)} Known: {', '.join(usable)}.")


def _names(entry: Weights) -> tuple[str, ...]:
    return tuple(entry.meta["categories"][1:])


def _build(detector: str, outputs: int) -> Any:
    return get_model(detector, weights=None, weights_backbone=None, num_classes=outputs).eval()


def _hash_in_name(entry: Weights) -> str:
    """The first digits of the file's sha256: torchvision writes them into the file's name."""
    found = re.search(r"-([0-9a-f]{8,})\.", entry.url.rpartition("/")[2])
    assert found is not None, entry.url
    return found[1]


def _download(detector: str, entry: Weights) -> Path:
    """The published file in torch's own cache; fetched if it is not there."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / entry.url.rpartition("/")[2]
    if not file.exists():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(entry.url, str(file), _hash_in_name(entry), progress=sys.stderr.isatty())
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            raise UserError(
                f"Cannot download the weights of {detector}: {error}. Fetch {entry.url} by hand and put it at {file}, "
                "or name it with --weights FILE. To try things out without it: --weights random."
            ) from error
    if not checksum(file).startswith(_hash_in_name(entry)):
        raise UserError(f"The weights {file} are damaged: their sha256 differs from their name. Delete the file.")
    return file


def _find(weights: str, published: dict[str, Weights]) -> Path:
    file = Path(weights)
    if not file.is_file():
        known = ["default", "random", *published]
        raise UserError(
            f"No weights {weights!r}.{did_you_mean(weights, known)} "
            f"Give a .pth or .safetensors file, or one of {', '.join(known)}."
        )
    return file


def checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def read_state(file: Path) -> dict[str, Tensor]:
    """Name to tensor, from safetensors, a state dict, or a checkpoint of torchvision's training script."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        with torch.serialization.safe_globals([argparse.Namespace]):  # that script keeps its options beside the weights
            found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many kinds for a damaged or foreign file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file} is no file of weights that can be read safely: {reason}") from error
    for wrapper in ("model", "state_dict"):
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{file} holds no state dict: it should map names to tensors, alone or under the key 'model'.")
    return found


def _fill(model: nn.Module, state: dict[str, Tensor], detector: str, file: Path) -> None:
    """Strictly. Frozen batch norm has no step counters; torch supplies those itself."""
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{file} does not fit the detector {detector}: {reason}") from error
    problems = [
        f"{kind} {', '.join(keys[:3])}" + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
        for kind, keys in (("lacks", missing), ("has besides", unexpected))
        if keys
    ]
    if problems:
        raise UserError(f"{file} does not fit the detector {detector}: it {'; it '.join(problems)}.")
