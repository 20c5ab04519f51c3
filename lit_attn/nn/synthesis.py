"""Which blocks make a picture out of noise and words? Gates, blocks that double the side, and attention to words.

Source: Xu et al. 2018, AttnGAN, and StackGAN (Zhang et al. 2017) for the condition. Deviation: the mask of padding has an
axis for positions and is broadcast over it. The published code tiles it in another order than the scores, so that in a
batch most positions are masked by the padding of another sample's caption.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.nn.alignment import build_alignment
from lit_attn.nn.tape import Site, is_heard, speak

NORM_SPREAD = 0.02
"""Standard deviation of batch norm's factors at the start."""


def initialise(net: nn.Module) -> None:
    """Orthogonal convolutions and linear layers, those of alignments among them; batch norm near 1."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, NORM_SPREAD)
            nn.init.zeros_(module.bias)


def convolution(width_in: int, width_out: int) -> nn.Conv2d:
    """3 x 3, of the same side, without a bias: batch norm has its own."""
    return nn.Conv2d(width_in, width_out, 3, padding=1, bias=False)


class Gated(nn.Module):
    """A convolution and batch norm to twice the width, of which one half gates the other."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.conv = convolution(width_in, 2 * width_out)
        self.norm = nn.BatchNorm2d(2 * width_out)

    def forward(self, picture: Float[Tensor, "b f y x"]) -> Float[Tensor, "b g y x"]:
        return F.glu(self.norm(self.conv(picture)), dim=1)


class Doubling(nn.Module):
    """Twice the side: every pixel four times, then a gated convolution."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.gated = Gated(width_in, width_out)

    def forward(self, picture: Float[Tensor, "b f y x"]) -> Float[Tensor, "b g y2 x2"]:
        return self.gated(F.interpolate(picture, scale_factor=2, mode="nearest"))


class Residual(nn.Module):
    """A gated and a plain convolution, added to what went in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gated = Gated(width, width)
        self.conv = convolution(width, width)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, picture: Float[Tensor, "b f y x"]) -> Float[Tensor, "b f y x"]:
        return picture + self.norm(self.conv(self.gated(picture)))


class Condition(NamedTuple):
    """A draw from the normal distribution that a sentence stands for, and that distribution."""

    drawn: Float[Tensor, "b n"]
    mu: Float[Tensor, "b n"]
    logvar: Float[Tensor, "b n"]


class ConditionAugmentation(nn.Module):
    """A sentence to a cloud of conditions, so that few captions fill the space."""

    def __init__(self, text_dim: int, condition_dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(text_dim, 4 * condition_dim)

    def forward(self, sentence: Float[Tensor, "b d"], eps: Float[Tensor, "b n"] | None = None) -> Condition:
        """`eps` is the standard normal noise; drawn when it is not given."""
        mu, logvar = F.glu(self.proj(sentence), dim=-1).chunk(2, dim=-1)
        if eps is None:
            eps = torch.randn_like(mu)
        return Condition(mu + eps * (0.5 * logvar).exp(), mu, logvar)


class WordAttention(nn.Module):
    """Which words does each position of the picture need? Keys and values are the words, projected to its width."""

    def __init__(self, text_dim: int, width: int, site: Site, alignment: str) -> None:
        super().__init__()
        self.site = site
        self.proj = nn.Linear(text_dim, width, bias=False)
        self.alignment = build_alignment(alignment, width)

    def forward(
        self,
        picture: Float[Tensor, "b f y x"],
        words: Float[Tensor, "b t d"],
        word_mask: Bool[Tensor, "b t"],
    ) -> Float[Tensor, "b f y x"]:
        """The words' mean for each position; zero for a caption without any word."""
        query = picture.flatten(2).transpose(1, 2).unsqueeze(1)  # b 1 (y x) f
        key = self.proj(words).unsqueeze(1)  # b 1 t f
        mask = word_mask[:, None, None]  # b 1 1 t
        if not is_heard(self.site):
            context = self.alignment.attend_fused(query, key, key, mask)
        else:
            context, weights = self.alignment.attend(query, key, key, mask)
            speak(
                self.site,
                weights=weights,
                query_mask=torch.ones(query.shape[0], query.shape[2], dtype=torch.bool, device=query.device),
                key_mask=word_mask.unsqueeze(1),
                value=key,
                context=context,
            )
        return context[:, 0].transpose(1, 2).unflatten(-1, picture.shape[2:])
