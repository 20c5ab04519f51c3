"""What does an image classifier see in each part of a picture? The map of one of its stages.

Backbones are timm's, by timm's names. The default is the network behind the published CLEVR features: the third stage of
ResNet-101 with torchvision's weights, 1024 channels on 14 x 14 cells of a picture resized to 224 x 224. Pictures are
resized bicubically, whatever their shape, and normalised as the backbone was trained. The public extractor divides blue by
0.224 where ImageNet's standard deviation is 0.225; `blue_std` does so, too.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

import lit_attn.ops  # noqa: F401 - settles torch's vector math
from lit_attn.errors import UserError, did_you_mean
from lit_attn.extract.outcome import Setting
from lit_attn.extract.weights import RANDOM_SEED, checksum, read_state

log = logging.getLogger(__name__)

DEFAULT_BACKBONE = "resnet101.tv_in1k"
DEFAULT_STAGE = 3
DEFAULT_SIZE = 224


class Backbone:
    """Grids of pictures.

    Args:
        name: A timm model, with or without the tag of its weights.
        weights: `default` for those that timm publishes, `random`, or a .pth or .safetensors file of this model.
        stage: Which of timm's feature maps; of a ResNet 0 is the stem.
        size: Pictures are resized to so many pixels, both ways.
        blue_std: Instead of the backbone's own standard deviation of blue.
        device: Where to compute.
    """

    def __init__(
        self,
        name: str = DEFAULT_BACKBONE,
        weights: str = "default",
        stage: int = DEFAULT_STAGE,
        size: int = DEFAULT_SIZE,
        blue_std: float | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if size < 1:
            raise UserError(f"The size of pictures must be at least 1 pixel, got {size}.")
        if blue_std is not None and blue_std <= 0:
            raise UserError(f"A standard deviation is more than 0, got {blue_std} for blue.")
        self.name = name
        self.stage = stage
        self.size = size
        self.device = torch.device(device)
        model = _build(name)
        self.weights = _load(model, name, weights)
        self.model = model.to(self.device).eval()
        trained: dict[str, Any] = model.pretrained_cfg
        self.mean: tuple[float, ...] = tuple(trained["mean"])
        self.std: tuple[float, ...] = tuple(trained["std"])
        if blue_std is not None:
            self.std = (*self.std[:2], blue_std)
        self.shape = self._measure()

    @property
    def settings(self) -> dict[str, Setting]:
        """Whatever decides what the grids are."""
        return {
            "backbone": self.name,
            "weights": self.weights,
            "stage": self.stage,
            "size": self.size,
            "mean": " ".join(map(str, self.mean)),
            "std": " ".join(map(str, self.std)),
        }

    def __call__(self, pictures: Sequence[Image.Image]) -> Float[np.ndarray, "b f y x"]:
        images = np.stack([self._resized(picture) for picture in pictures])  # b y x 3
        pixels = torch.from_numpy(images).to(self.device).permute(0, 3, 1, 2).float() / 255
        mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return self._grids((pixels - mean) / std).float().cpu().numpy()

    def _resized(self, picture: Image.Image) -> np.ndarray:
        return np.array(picture.convert("RGB").resize((self.size, self.size), Image.Resampling.BICUBIC))

    @torch.inference_mode()
    def _grids(self, pixels: Float[Tensor, "b 3 y x"]) -> Float[Tensor, "b f y2 x2"]:
        (grids,) = self.model.forward_intermediates(
            pixels, indices=[self.stage], output_fmt="NCHW", intermediates_only=True, stop_early=True
        )
        return grids

    def _measure(self) -> tuple[int, int, int]:
        """Channels, rows and columns of a grid. An empty picture tells whether the backbone can do what is asked for."""
        stages = len(self.model.feature_info)
        if not -stages <= self.stage < stages:
            raise UserError(f"The backbone {self.name} has the stages 0 to {stages - 1}, not {self.stage}.")
        try:
            channels, rows, columns = self._grids(torch.zeros(1, 3, self.size, self.size, device=self.device)).shape[1:]
        except (AssertionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()
            raise UserError(
                f"The backbone {self.name} cannot take pictures of {self.size} x {self.size}"
                f"{f': {reason[-1]}' if reason else ''}. Give another --size."
            ) from error
        return int(channels), int(rows), int(columns)


def _build(name: str) -> Any:
    """Without its classifier, and untrained: always the same numbers."""
    if not timm.is_model(name):
        known = timm.list_models()
        raise UserError(
            f"Unknown backbone {name!r}.{did_you_mean(name.partition('.')[0], known)} "
            f"Any of timm's {len(known)} models, such as {DEFAULT_BACKBONE} or mobilenetv2_100."
        )
    with torch.random.fork_rng():
        torch.manual_seed(RANDOM_SEED)
        try:
            model = timm.create_model(name, pretrained=False, num_classes=0)
        except RuntimeError as error:  # an unknown tag
            raise UserError(f"timm does not know the backbone {name!r}: {error}") from error
    if not hasattr(model, "forward_intermediates"):
        raise UserError(f"The backbone {name} gives no maps of its stages. Take another, such as {DEFAULT_BACKBONE}.")
    return model


def _load(model: Any, name: str, weights: str) -> str:
    """Fills the model, strictly, and says with what."""
    if weights == "random":
        return f"random, seed {RANDOM_SEED}"
    file = _download(model, name) if weights == "default" else Path(weights)
    if not file.is_file():
        raise UserError(
            f"No weights {weights!r}.{did_you_mean(weights, ('default', 'random'))} "
            "Give a .pth or .safetensors file, or one of default, random."
        )
    state = read_state(file)
    classifier = model.pretrained_cfg.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    state = {key: value for key, value in state.items() if not key.startswith(tuple(f"{head}." for head in heads))}
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise UserError(f"{file} does not fit the backbone {name}: {str(error).splitlines()[-1].strip()}") from error
    # Files of before 2018 have no step counters of batch norm, and nothing here needs them.
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    for says, keys in (("lacks", missing), ("has besides", unexpected)):
        if keys:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise UserError(f"{file} does not fit the backbone {name}: it {says} {', '.join(keys[:3])}{more}.")
    return f"sha256 {checksum(file)}"


def _download(model: Any, name: str) -> Path:
    """The published file in the hub's own cache; fetched if it is not there."""
    from huggingface_hub import hf_hub_download

    repository = model.pretrained_cfg.get("hf_hub_id")
    if not repository:
        raise UserError(f"timm publishes no weights of {name} on its hub. Give --weights FILE.")
    file = model.pretrained_cfg.get("hf_hub_filename") or "model.safetensors"
    try:
        return Path(hf_hub_download(repository, file))
    except Exception as error:  # the hub's client raises many kinds, and so do the connections below it
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"Cannot download the weights of {name}: {reason} Fetch {file} of https://huggingface.co/{repository} by hand "
            "and name it with --weights FILE. To try things out without it: --weights random."
        ) from error
