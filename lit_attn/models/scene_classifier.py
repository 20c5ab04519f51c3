"""What can be seen in a small picture of a room? A convolutional network that judges pictures, real and generated.

Every cell of the last map says how much it looks like each kind of thing, and which colour it shows. A kind has a colour as
far as some cell shows both; it is absent as far as none does. The mean over cells is the vector by which sets of pictures
are compared.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

FEATURES = 128


class Layer(NamedTuple):
    """A convolution: channels that it makes, size and step of its window, and the gaps in it."""

    width: int
    size: int
    stride: int = 1
    dilation: int = 1


LAYERS = (Layer(24, 3, 2), Layer(48, 3, 2), Layer(64, 3), Layer(96, 3, dilation=2), Layer(FEATURES, 1))
"""What the last one sees reaches over 31 pixels: most things are no larger."""


RARE = -8.0
"""Score of a kind in a cell before training: hardly any cell shows it."""


class SceneScores(NamedTuple):
    """What a picture shows, as scores before the softmax."""

    features: Float[Tensor, "b f"]
    """Means over cells of what the last layer sees."""
    looks: Float[Tensor, "b n v"]
    """Per kind its colours, and last that there is no such thing."""
    main: Float[Tensor, "b n"]
    """Which kind the largest thing has."""


class SceneClassifier(nn.Module):
    """Five convolutions, then a score per kind and colour in each of the cells, which are four pixels wide.

    Args:
        num_kinds, num_colors: What is told apart.
    """

    def __init__(self, num_kinds: int, num_colors: int) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        before = 3
        for width, size, stride, dilation in LAYERS:
            padding = dilation * (size // 2)
            blocks += [
                nn.Conv2d(before, width, size, stride, padding, dilation, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            before = width
        self.trunk = nn.Sequential(*blocks)
        self.kind = nn.Conv2d(FEATURES, num_kinds, 1)
        nn.init.constant_(self.kind.bias, RARE)  # type: ignore[arg-type]
        self.color = nn.Conv2d(FEATURES, num_colors, 1)
        self.absent = nn.Linear(FEATURES, num_kinds)
        self.main = nn.Linear(FEATURES, num_kinds)

    def forward(self, image: Float[Tensor, "b 3 y x"]) -> SceneScores:
        seen = self.trunk(image.contiguous(memory_format=torch.channels_last))
        features = seen.mean((2, 3))
        kinds = self.kind(seen).flatten(2)  # b n cells
        colors = self.color(seen).flatten(2).log_softmax(1)  # b colors cells
        # The sum over cells of exp(kind + colour), as a product of matrices; the largest kind score keeps it in range.
        top = kinds.amax(2, keepdim=True)
        both = torch.log((kinds - top).exp() @ colors.exp().mT + torch.finfo(kinds.dtype).tiny) + top
        absent = self.absent(features).unsqueeze(2)
        main = self.main(features) + both.logsumexp(2)  # the largest thing is one of those that are there
        return SceneScores(features, torch.cat([both, absent], 2), main)
