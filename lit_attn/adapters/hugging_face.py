"""What do all networks of Hugging Face share? Attention that can be made explicit by name, and layers that count."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from lit_attn.errors import UserError


@contextmanager
def eager(model: nn.Module) -> Iterator[None]:
    """Inside, every part of the network computes its attention explicitly. The default is a fused kernel."""
    configs = {id(config): config for module in model.modules() if (config := _config(module)) is not None}
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    for config, _ in before:
        config._attn_implementation_internal = "eager"
    try:
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def config_of(model: nn.Module) -> Any:
    """The network's description of itself."""
    return model.config


def layers(model: nn.Module, pattern: str) -> list[str]:
    """Paths of the modules that match, wherever the network is wrapped by a head; by layer, the pattern's one group."""
    found = [
        (int(match[1]), name)
        for name, _ in model.named_modules()
        if (match := re.fullmatch(rf"(?:.+\.)?{pattern}", name))
    ]
    if [number for number, _ in sorted(found)] != list(range(len(found))):
        raise UserError(
            f"{type(model).__name__} holds more than one network: {', '.join(name for _, name in found)}. Adapt one of them."
        )
    return [name for _, name in sorted(found)]


def path_of(model: nn.Module, pattern: str) -> str:
    """The path of the one module that matches, wherever the network is wrapped by a head."""
    found = [name for name, _ in model.named_modules() if re.fullmatch(rf"(?:.+\.)?{pattern}", name)]
    if len(found) != 1:
        raise UserError(
            f"{type(model).__name__} has {len(found)} modules {pattern!r}, not one. Adapt one network at a time."
        )
    return found[0]


def refuse_cross_attention(model: nn.Module) -> None:
    """A decoder that reads a network outside of it cannot be followed to any input."""
    if getattr(config_of(model), "add_cross_attention", False):
        raise UserError(
            f"{type(model).__name__} attends to another network (add_cross_attention), which no plan of it alone holds."
        )


def _config(module: nn.Module) -> Any:
    config = getattr(module, "config", None)
    return config if hasattr(config, "_attn_implementation_internal") else None
