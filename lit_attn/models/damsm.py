"""How are a picture and its caption brought into one space? DAMSM's encoders, by which AttnGAN is judged.

Source: Xu et al. 2018, AttnGAN: a bidirectional LSTM for captions, a frozen Inception-v3 for pictures. Beside it stands a
small encoder of our own, for pictures of Scenes and little time. The formulas that compare both are in `ops.damsm`.
Deviation: pictures are resized without aligned corners, torch's way since version 0.4.
"""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lit_attn.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

ENCODERS = ("inception", "small")
START_RANGE = 0.1
"""Embeddings and the layers into the joint space start uniform in so much around 0, as published."""
INCEPTION_SIDE = 299
REGIONS_FROM = "Mixed_6e"
"""The layer of Inception whose 17 x 17 cells are the regions."""
UNUSED = ("AuxLogits.", "fc.")
"""Of Inception's published weights: its classifiers."""


class TextCodes(NamedTuple):
    """A caption word by word, and as a whole."""

    words: Float[Tensor, "b t d"]
    """Zero on padding."""
    sentence: Float[Tensor, "b d"]


class ImageCodes(NamedTuple):
    """A picture region by region, and as a whole."""

    regions: Float[Tensor, "b d y x"]
    image: Float[Tensor, "b d"]


class Codes(NamedTuple):
    """Pictures and captions in the joint space."""

    regions: Float[Tensor, "b d y x"]
    image: Float[Tensor, "b d"]
    words: Float[Tensor, "b t d"]
    sentence: Float[Tensor, "b d"]


class TextEncoder(nn.Module):
    """Token ids to contextual words and a sentence: a bidirectional LSTM."""

    def __init__(self, vocab_size: int, word_dim: int = 300, dim: int = 256, dropout: float = 0.5) -> None:
        super().__init__()
        if dim % 2:
            raise UserError(f"DAMSM's width is that of two directions of an LSTM: dim must be even, got dim={dim}.")
        self.embed = nn.Embedding(vocab_size, word_dim)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(word_dim, dim // 2, batch_first=True, bidirectional=True)
        nn.init.uniform_(self.embed.weight, -START_RANGE, START_RANGE)

    def forward(self, tokens: Int[Tensor, "b t"], token_mask: Bool[Tensor, "b t"]) -> TextCodes:
        """Words stand before padding. A caption without any word comes back as zeros, its sentence, too."""
        lengths = token_mask.sum(-1).cpu().clamp_min(1)  # an LSTM takes no empty sequence
        embedded = self.dropout(self.embed(tokens))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        words, _ = pad_packed_sequence(states, batch_first=True, total_length=tokens.shape[1])
        sentence = torch.cat([last[0], last[1]], -1)
        return TextCodes(
            torch.where(token_mask.unsqueeze(-1), words, 0.0), torch.where(token_mask.any(-1, True), sentence, 0.0)
        )


class InceptionEncoder(nn.Module):
    """A frozen Inception-v3, always in evaluation mode, and two trained layers into the joint space.

    Args:
        dim: Width of the joint space.
        weights: Inception's weights in torchvision's names, .safetensors or .pth. Without them it is random, and the log
            says so.
    """

    def __init__(self, dim: int = 256, weights: str | Path | None = None) -> None:
        super().__init__()
        self.trunk = _inception()
        if weights is None:
            log.warning("DAMSM's Inception has random weights: give it a file, or load weights that contain it.")
        else:
            _fill(self.trunk, Path(weights))
        self.trunk.requires_grad_(False).eval()
        self.to_regions = nn.Conv2d(768, dim, 1, bias=False)
        self.to_image = nn.Linear(2048, dim)
        for layer in (self.to_regions, self.to_image):
            nn.init.uniform_(layer.weight, -START_RANGE, START_RANGE)

    def train(self, mode: bool = True) -> "InceptionEncoder":
        """The trunk stays as it is."""
        super().train(mode)
        self.trunk.eval()
        return self

    def forward(self, image: Float[Tensor, "b 3 y x"]) -> ImageCodes:
        """Pictures in [-1, 1], of any side."""
        seen = F.interpolate(image, (INCEPTION_SIDE, INCEPTION_SIDE), mode="bilinear", align_corners=False)
        regions = seen
        for name, layer in self.trunk.named_children():
            seen = layer(seen)
            if name == REGIONS_FROM:
                regions = seen
        return ImageCodes(self.to_regions(regions), self.to_image(seen.mean((2, 3))))


class SmallEncoder(nn.Module):
    """A network of four convolutions, trained from nothing: a picture of 64 x 64 has regions on 8 x 8 cells.

    Pictures of other sides work, too, from 16 on: there is a region for every 8 x 8 pixels.
    """

    def __init__(self, dim: int = 256, width: int = 32) -> None:
        super().__init__()
        self.trunk = nn.Sequential(_halving(3, width), _halving(width, 2 * width), _halving(2 * width, 4 * width))
        self.top = _halving(4 * width, 8 * width)
        self.to_regions = nn.Conv2d(4 * width, dim, 1, bias=False)
        self.to_image = nn.Linear(8 * width, dim)

    def forward(self, image: Float[Tensor, "b 3 y x"]) -> ImageCodes:
        """Pictures in [-1, 1]."""
        seen = self.trunk(image)
        return ImageCodes(self.to_regions(seen), self.to_image(self.top(seen).mean((2, 3))))


class Damsm(nn.Module):
    """Both encoders of one joint space."""

    def __init__(
        self,
        vocab_size: int,
        word_dim: int = 300,
        dim: int = 256,
        encoder: str = "inception",
        weights: str | Path | None = None,
        dropout: float = 0.5,
    ) -> None:
        """Args:
        encoder: Of pictures: `inception`, or `small` for pictures of 64 x 64.
        weights: A file with Inception's weights; see `InceptionEncoder`.
        dropout: Of embedded words.
        """
        super().__init__()
        self.text = TextEncoder(vocab_size, word_dim, dim, dropout)
        self.image = build_image_encoder(encoder, dim, weights)

    def forward(
        self,
        image: Float[Tensor, "b 3 y x"],
        tokens: Int[Tensor, "b t"],
        token_mask: Bool[Tensor, "b t"],
    ) -> Codes:
        return Codes(*self.image(image), *self.text(tokens, token_mask))


def build_image_encoder(encoder: str, dim: int, weights: str | Path | None = None) -> InceptionEncoder | SmallEncoder:
    """A fresh encoder by its name."""
    match encoder:
        case "inception":
            return InceptionEncoder(dim, weights)
        case "small" if weights is not None:
            raise UserError(f"The small encoder takes no weights of Inception, got {weights}. Leave them out.")
        case "small":
            return SmallEncoder(dim)
        case _:
            raise UserError(
                f"Unknown encoder of pictures {encoder!r}.{did_you_mean(encoder, ENCODERS)} Known: {', '.join(ENCODERS)}."
            )


def _halving(width_in: int, width_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(width_in, width_out, 4, 2, 1, bias=False), nn.BatchNorm2d(width_out), nn.LeakyReLU(0.2)
    )


def _inception() -> nn.Sequential:
    """Inception-v3 without its classifier, by torchvision's names of layers."""
    from torchvision.models import inception_v3

    whole = inception_v3(weights=None, aux_logits=False, transform_input=False, init_weights=False)
    trunk = nn.Sequential()
    for name, layer in whole.named_children():
        if name == "avgpool":
            break
        trunk.add_module(name, layer)
    for module in trunk.modules():
        if isinstance(module, nn.Conv2d):  # torch's own start would die out over so many layers
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return trunk


def _fill(trunk: nn.Sequential, file: Path) -> None:
    """Strictly, but for the classifiers and for the step counters of batch norm, which old files do not have."""
    state = {name: tensor for name, tensor in _read_state(file).items() if not name.startswith(UNUSED)}
    try:
        missing, unexpected = trunk.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise UserError(f"{file} does not fit Inception-v3: {str(error).strip().splitlines()[-1].strip()}") from error
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    for says, names in (("lacks", missing), ("has besides", unexpected)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UserError(f"{file} does not fit Inception-v3: it {says} {', '.join(names[:3])}{more}.")


def _read_state(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"There are no weights {file} of Inception-v3. Name a file, or none for random weights.")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many kinds for a damaged or foreign file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file} is no file of weights that can be read safely: {reason}") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{file} holds no table of tensors by name.")
    return found
