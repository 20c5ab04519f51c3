"""How is a network judged by the running average of its weights? Kept beside the training weights, swapped in to evaluate.

A checkpoint's `state_dict` is the average, because that is what is evaluated and shared; the weights that training goes on
with lie beside it. Buffers, such as the statistics of batch norm, are not averaged.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

KEY = "training_weights"


class WeightAverage:
    """Exponential average of a module's parameters: decay x average + (1 - decay) x weights after every step."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self._average = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        for name, parameter in self.module.named_parameters():
            self._average[name].lerp_(parameter.detach(), 1 - self.decay)

    def follow(self) -> None:
        """Moves the average to where the weights are, in their precision."""
        for name, parameter in self.module.named_parameters():
            self._average[name] = self._average[name].to(parameter)

    @torch.no_grad()
    def swap(self) -> None:
        """The module gets the average as its weights; called again, its own."""
        for name, parameter in self.module.named_parameters():
            held = parameter.detach().clone()
            parameter.copy_(self._average[name])
            self._average[name] = held

    def save(self, checkpoint: dict[str, Any], prefix: str) -> None:
        """Puts the average into the `state_dict` of a checkpoint, and the training weights beside it."""
        state = checkpoint["state_dict"]
        checkpoint[KEY] = {f"{prefix}{name}": state[f"{prefix}{name}"] for name in self._average}
        checkpoint["state_dict"] = state | {f"{prefix}{name}": value for name, value in self._average.items()}

    def load(self, checkpoint: dict[str, Any], prefix: str) -> None:
        """Takes the average out of a checkpoint, whose `state_dict` becomes the training weights again."""
        state: Mapping[str, Tensor] = checkpoint["state_dict"]
        for name, held in self._average.items():
            held.copy_(state[f"{prefix}{name}"])
        checkpoint["state_dict"] = {**state, **checkpoint[KEY]}
