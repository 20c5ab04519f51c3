"""How is a network judged by the running average of its weights? Kept beside the training weights, swapped in to evaluate.

A checkpoint's `state_dict` is the average, because that is what is evaluated and shared; the weights that training goes on
with lie beside it. Buffers, such as the statistics of batch norm, are not averaged.
"""

from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

KEY = "training_weights"


class WeightAverage:
    """Exponential average of a module's parameters: decay x average + (1 - decay) x weights after every step."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.shown = False
        """Whether the module has the average as its weights."""
        self._aside = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
        """The average; while it is shown, the training weights."""

    @torch.no_grad()
    def update(self) -> None:
        assert not self.shown
        for name, parameter in self.module.named_parameters():
            self._aside[name].lerp_(parameter.detach(), 1 - self.decay)

    def follow(self) -> None:
        """Moves the average to where the weights are, in their precision."""
        for name, parameter in self.module.named_parameters():
            self._aside[name] = self._aside[name].to(parameter)

    def show(self) -> None:
        """The module gets the average as its weights."""
        if not self.shown:
            self._swap()

    def hide(self) -> None:
        """The module gets its training weights again. Nothing happens if it has them."""
        if self.shown:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self.module.named_parameters():
            held = parameter.detach().clone()
            parameter.copy_(self._aside[name])
            # In place: a tensor that is born in inference mode could never be updated again.
            self._aside[name].copy_(held)
        self.shown = not self.shown

    def save(self, checkpoint: dict[str, Any], prefix: str) -> None:
        """Puts the average into the `state_dict` of a checkpoint, and the training weights beside it."""
        state = checkpoint["state_dict"]
        inside = {f"{prefix}{name}": state[f"{prefix}{name}"] for name in self._aside}
        aside = {f"{prefix}{name}": value for name, value in self._aside.items()}
        average, training = (inside, aside) if self.shown else (aside, inside)
        checkpoint[KEY] = training
        checkpoint["state_dict"] = state | average

    def load(self, checkpoint: dict[str, Any], prefix: str) -> None:
        """Takes the average out of a checkpoint, whose `state_dict` becomes the training weights again."""
        state: Mapping[str, Tensor] = checkpoint["state_dict"]
        for name, held in self._aside.items():
            held.copy_(state[f"{prefix}{name}"])
        checkpoint["state_dict"] = {**state, **checkpoint[KEY]}


class HideAverage(L.Callback):
    """Gives a task back its training weights when an evaluation inside training fails."""

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        average = getattr(pl_module, "average", None)
        if isinstance(average, WeightAverage):
            average.hide()
