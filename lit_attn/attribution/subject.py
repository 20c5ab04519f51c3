"""What is to be explained? One output per sample of a network, and the inputs that may have caused it.

A subject joins what methods, tests and pictures need to know of any network: how it runs, which of its inputs can be taken
away, and which of them are known to have caused the output. `subjects` makes them from our batches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.attribution.capture import bare_net, differentiable, evaluating
from lit_attn.attribution.plan import Plan
from lit_attn.attribution.targets import difference, ratio, score_of
from lit_attn.errors import UserError

Kept = Mapping[str, Bool[Tensor, "b _n"]]
"""By stream, the items that the network may use; streams that are not named are whole."""
Features = dict[str, Float[Tensor, "b _n _d"]]
"""By stream, the first features of its items, in the graph of a pass."""
Comparison = Literal["difference", "ratio"]


Run = Callable[[nn.Module, Kept, Features | None], Float[Tensor, "b v"]]
"""A pass to the scores of all classes, at the row that is asked about. Fills `features` if there is such a dictionary."""


@dataclass(frozen=True)
class Subject:
    """One class of one output row per sample."""

    net: nn.Module
    plan: Plan
    run: Run
    items: dict[str, Bool[Tensor, "b _n"]]
    """By stream, inputs that exist and can be taken away; marks such as CLS and START cannot."""
    classes: Int[Tensor, " b"]
    """What is explained: the score of this class."""
    causes: dict[str, Bool[Tensor, "b _n"]] = field(default_factory=dict)
    """By stream, the items that the output is known to rest on: known on Scenes only."""
    versus: Int[Tensor, " b"] | None = None
    """Explain the class against this one."""
    comparison: Comparison = "difference"

    def __len__(self) -> int:
        return len(self.classes)

    def target(self, scores: Float[Tensor, "b v"]) -> Float[Tensor, " b"]:
        """The number that is explained."""
        if self.versus is None:
            return score_of(scores, self.classes)
        compare = difference if self.comparison == "difference" else ratio
        return compare(scores, self.classes, self.versus)

    def forward(self, net: nn.Module) -> Float[Tensor, "b v"]:
        """A whole pass, as `explain` wants it."""
        return self.run(net, {}, None)

    def asking(
        self, classes: Int[Tensor, " b"], versus: Int[Tensor, " b"] | None = None, comparison: Comparison = "difference"
    ) -> "Subject":
        """The same about other classes."""
        return replace(self, classes=classes, versus=versus, comparison=comparison)


@torch.no_grad()
def scores_without(subject: Subject, kept: Kept) -> Float[Tensor, "b v"]:
    """Scores of all classes when only some items may be used."""
    net = bare_net(subject.net)
    for stream, mask in kept.items():
        if stream not in subject.items:
            known = ", ".join(subject.items)
            raise UserError(f"Nothing can be taken away from stream {stream!r}. Streams with items: {known}.")
        if mask.shape != subject.items[stream].shape:
            raise UserError(
                f"Stream {stream!r} has items {tuple(subject.items[stream].shape)}, got {tuple(mask.shape)}."
            )
    with evaluating(net):
        return subject.run(net, kept, None)


def probability(subject: Subject, kept: Kept) -> Float[Tensor, " b"]:
    """Share of the explained class among all classes, by softmax, in [0, 1]; less that of `versus` where there is one."""
    shares = scores_without(subject, kept).softmax(-1)
    found = score_of(shares, subject.classes)
    return found if subject.versus is None else found - score_of(shares, subject.versus)


def first_features(subject: Subject) -> tuple[Float[Tensor, " b"], Features]:
    """The explained number and the first features of each stream, from one pass with gradients."""
    net = bare_net(subject.net)
    found: Features = {}
    with differentiable(), evaluating(net):
        scores = subject.run(net, {}, found)
        return subject.target(scores), found
