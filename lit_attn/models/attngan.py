"""How does a caption become a picture? AttnGAN: each stage doubles the side and asks the words again.

Source: Xu et al. 2018, "AttnGAN: Fine-Grained Text to Image Generation with Attentional Generative Adversarial Networks".
Deviations: any chain of doubling sides; any alignment function; padding is masked sample by sample (see `nn.synthesis`);
discriminators give logits. At 64, 128 and 256 the networks are the published ones, tensor by tensor.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Alignment, Description, Setting
from lit_attn.nn.synthesis import ConditionAugmentation, Doubling, Residual, WordAttention, convolution, initialise
from lit_attn.nn.tape import Site

START_SIDE = 4
"""Where noise first becomes a map, and where discriminators end."""
LEAK = 0.2


class Synthesized(NamedTuple):
    """The same picture at every side, and the distribution from which the condition was drawn."""

    images: list[Float[Tensor, "b 3 _ _"]]
    """From small to large, in (-1, 1)."""
    mu: Float[Tensor, "b n"]
    logvar: Float[Tensor, "b n"]


class FirstStage(nn.Module):
    """Condition and noise to a map of the first side: 4 x 4 at first, then doubled as often as it takes."""

    def __init__(self, noise_dim: int, width: int, side: int) -> None:
        super().__init__()
        self.start_width = width * side // START_SIDE
        cells = START_SIDE * START_SIDE
        self.proj = nn.Linear(noise_dim, 2 * self.start_width * cells, bias=False)
        self.norm = nn.BatchNorm1d(2 * self.start_width * cells)
        self.doublings = nn.Sequential()
        for i in range(_halvings(side)):
            self.doublings.append(Doubling(self.start_width >> i, self.start_width >> (i + 1)))

    def forward(self, noise: Float[Tensor, "b n"]) -> Float[Tensor, "b f y x"]:
        start = nn.functional.glu(self.norm(self.proj(noise)), dim=-1)
        return self.doublings(start.unflatten(-1, (self.start_width, START_SIDE, START_SIDE)))


class NextStage(nn.Module):
    """A map to one of twice the side: look at the words, think, double."""

    def __init__(self, text_dim: int, width: int, residuals: int, alignment: str, number: int) -> None:
        super().__init__()
        self.attention = WordAttention(text_dim, width, Site(f"stage.{number}.words", "pixels", "words"), alignment)
        self.residuals = nn.Sequential(*(Residual(2 * width) for _ in range(residuals)))
        self.doubling = Doubling(2 * width, width)

    def forward(
        self, picture: Float[Tensor, "b f y x"], words: Float[Tensor, "b t d"], token_mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b f y2 x2"]:
        context = self.attention(picture, words, token_mask)
        return self.doubling(self.residuals(torch.cat([picture, context], 1)))


class Generator(nn.Module):
    """Words, a sentence and noise to pictures."""

    def __init__(
        self,
        text_dim: int = 256,
        z_dim: int = 100,
        condition_dim: int = 100,
        width: int = 32,
        sides: Sequence[int] = (64, 128, 256),
        residuals: int = 2,
        alignment: str = "dot",
    ) -> None:
        """Args:
        text_dim: Width of words and sentences.
        z_dim: Numbers of noise that make pictures of one caption differ.
        condition_dim: Width of the condition that is drawn for a sentence.
        width: Channels of the maps of which pictures are made (ngf; published: 32 for birds, 48 for COCO).
        sides: Of the pictures, each twice the one before. The first is a power of two and at least 8; its stage begins with
            side / 4 times the width on 4 x 4 cells.
        residuals: Blocks in each stage after the first (published: 2 for birds, 3 for COCO).
        alignment: How well a word answers a position of the picture, at every stage after the first.
        """
        super().__init__()
        check_sides(sides)
        for name, value in {"text_dim": text_dim, "condition_dim": condition_dim, "width": width}.items():
            if value < 1:
                raise UserError(f"AttnGAN's {name} must be at least 1, got {name}={value}.")
        for name, value in {"z_dim": z_dim, "residuals": residuals}.items():
            if value < 0:
                raise UserError(f"AttnGAN's {name} must not be negative, got {name}={value}.")
        self.sides = tuple(sides)
        self.z_dim = z_dim
        self.condition = ConditionAugmentation(text_dim, condition_dim)
        self.first = FirstStage(condition_dim + z_dim, width, sides[0])
        self.later = nn.ModuleList(
            NextStage(text_dim, width, residuals, alignment, number) for number in range(2, len(sides) + 1)
        )
        self.pictures = nn.ModuleList(convolution(width, 3) for _ in sides)
        initialise(self)

    def forward(
        self,
        sentence: Float[Tensor, "b d"],
        words: Float[Tensor, "b t d"],
        token_mask: Bool[Tensor, "b t"],
        z: Float[Tensor, "b z"],
        eps: Float[Tensor, "b n"] | None = None,
    ) -> Synthesized:
        """`z` is the noise of the picture; `eps` that of the condition, drawn when it is not given."""
        condition = self.condition(sentence, eps)
        maps = [self.first(torch.cat([condition.drawn, z], 1))]
        for stage in self.later:
            maps.append(stage(maps[-1], words, token_mask))
        images = [torch.tanh(picture(features)) for picture, features in zip(self.pictures, maps, strict=True)]
        return Synthesized(images, condition.mu, condition.logvar)

    def describe(self) -> Description:
        """Name, equivalence class and size of the alignment in this network: one of its own in each stage."""
        alignments = [module for module in self.modules() if isinstance(module, Alignment)]
        one = alignments[0].describe(Setting())
        return Description(one.name, one.equivalence, one.parameters * len(alignments))


class Discriminator(nn.Module):
    """Is a picture of one side real, and does it match its caption? Features once, then either question.

    Convolutions of stride 2 halve the side down to 4 x 4 while channels double. Above side 64, as published, 3 x 3
    convolutions take them back to eight times the width; at 16 and 32 the chain is shorter and ends at two and four times it.
    """

    def __init__(self, side: int, text_dim: int = 256, width: int = 64) -> None:
        """Args:
        side: Of the pictures: a power of two, at least 16.
        text_dim: Width of sentences.
        width: Channels after the first convolution (ndf; published: 64 for birds, 96 for COCO).
        """
        super().__init__()
        if side < 16 or side & (side - 1):
            raise UserError(
                f"A discriminator judges pictures whose side is a power of two and at least 16, got {side}."
            )
        if width < 1 or text_dim < 1:
            raise UserError(f"A discriminator's widths must be positive, got width={width}, text_dim={text_dim}.")
        self.side = side
        self.trunk = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(LEAK))
        reached = width
        for _ in range(_halvings(side) - 1):
            self.trunk.append(_leaky(reached, 2 * reached, halves=True))
            reached *= 2
        while reached > 8 * width:
            self.trunk.append(_leaky(reached, reached // 2))
            reached //= 2
        self.joint = _leaky(reached + text_dim, reached)
        self.alone = nn.Conv2d(reached, 1, START_SIDE)
        self.matched = nn.Conv2d(reached, 1, START_SIDE)
        initialise(self)

    def features(self, image: Float[Tensor, "b 3 y x"]) -> Float[Tensor, "b f 4 4"]:
        """What both questions are answered from."""
        if image.shape[2:] != (self.side, self.side):
            raise ValueError(f"This discriminator judges pictures of side {self.side}, got {tuple(image.shape[2:])}.")
        return self.trunk(image)

    def unconditional(self, features: Float[Tensor, "b f 4 4"]) -> Float[Tensor, " b"]:
        """Logits of "this is a real picture"."""
        return self.alone(features).flatten()

    def conditional(self, features: Float[Tensor, "b f 4 4"], sentence: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """Logits of "this is a real picture of that sentence"."""
        everywhere = sentence[:, :, None, None].expand(-1, -1, *features.shape[2:])
        return self.matched(self.joint(torch.cat([features, everywhere], 1))).flatten()

    def forward(
        self, image: Float[Tensor, "b 3 y x"], sentence: Float[Tensor, "b d"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Unconditional and conditional logits."""
        features = self.features(image)
        return self.unconditional(features), self.conditional(features, sentence)


def check_sides(sides: Sequence[int]) -> None:
    """A UserError that names the setting unless the sides are a chain that a generator can make."""
    rule = "Sides start at a power of two, 8 or more, and double from stage to stage, such as 16, 32, 64"
    if len(sides) < 2:
        raise UserError(f"sides={list(sides)} has too few stages: words are attended to from the second on. {rule}.")
    first = sides[0]
    if first < 8 or first & (first - 1):
        raise UserError(f"sides={list(sides)} cannot start at {first}. {rule}.")
    for small, large in pairwise(sides):
        if large != 2 * small:
            raise UserError(f"sides={list(sides)} does not double from {small} to {large}. {rule}.")


def _halvings(side: int) -> int:
    """How often a side is halved to become 4."""
    return int(math.log2(side // START_SIDE))


def _leaky(width_in: int, width_out: int, *, halves: bool = False) -> nn.Sequential:
    conv = nn.Conv2d(width_in, width_out, 4, 2, 1, bias=False) if halves else convolution(width_in, width_out)
    return nn.Sequential(conv, nn.BatchNorm2d(width_out), nn.LeakyReLU(LEAK))
