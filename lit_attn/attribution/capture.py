"""How is a network heard for attribution? One pass in evaluation mode whose records keep their gradients.

Dropout would change the network from pass to pass, so modules are set to evaluation and set back afterwards. A compiled or
distributed wrapper hides its sites; the network inside is run. Autocast is off, inference mode is left, and frozen
parameters require gradients for the duration, because weights of frozen layers would otherwise have none; no parameter
receives one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionRecord, AttentionTape, sites_of

Output = TypeVar("Output")
RAW = "raw."
"""Names of sites that only tell what attention would be; nothing flows through them."""


@dataclass(frozen=True)
class Captured(Generic[Output]):
    """What a pass gave, and what was heard on the way."""

    output: Output
    records: list[AttentionRecord]
    tape: AttentionTape

    def target(self, function: Callable[[Output], Tensor]) -> Float[Tensor, " b"]:
        """One number per sample, from the output, in the graph even where inference mode is on."""
        with differentiable():
            number = function(self.output)
        samples = len(self.records[0].weights)
        if number.dim() != 1 or len(number) != samples:
            raise UserError(
                f"The target must be one number per sample: expected {samples} numbers, got shape {tuple(number.shape)}."
            )
        return number

    def gradients_of(self, target: Float[Tensor, " b"]) -> list[Tensor]:
        """d target / d weights per record; each sample's target by its own weights."""
        with differentiable():
            return self.tape.gradients_of(target.sum())


def capture(
    net: nn.Module, forward: Callable[[nn.Module], Output], *, rules: AbstractContextManager[None] | None = None
) -> Captured[Output]:
    """Runs `forward` on the bare network and keeps every record in the graph.

    Args:
        forward: Takes the network and gives what targets are computed from. Samples must not share inputs.
        rules: Opened around the pass, such as `lrp(net)`.
    """
    bare = bare_net(net)
    sites = [site.name for site in sites_of(bare) if not site.name.startswith(RAW)]
    if not sites:
        raise UserError(f"{type(bare).__name__} has no attention sites, so there is nothing to attribute by.")
    try:
        with evaluating(bare), AttentionTape(bare, sites, gradients=True) as tape, rules or nullcontext():
            output = forward(bare)
    except RuntimeError as error:
        if "Inference tensors" not in str(error):
            raise
        raise UserError(
            "The inputs were made in inference mode, which autograd cannot use. Clone them inside `forward`, such as "
            "batch.map(torch.clone)."
        ) from error
    return Captured(output, tape.records, tape)


@contextmanager
def differentiable() -> Iterator[None]:
    """Gradients are on, whatever mode surrounds."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def bare_net(net: nn.Module) -> nn.Module:
    """The network inside compiled and distributed wrappers."""
    while True:
        if isinstance(net, nn.parallel.DistributedDataParallel | nn.DataParallel):
            net = net.module
        elif isinstance(inner := getattr(net, "_orig_mod", None), nn.Module):
            net = inner
        else:
            return net


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode, full precision and gradients for all parameters; everything is set back afterwards."""
    training = [module for module in net.modules() if module.training]
    frozen = [parameter for parameter in net.parameters() if not parameter.requires_grad]
    kinds = {parameter.device.type for parameter in net.parameters()} | {"cpu"}
    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        # cuDNN's recurrent layers have no backward pass in evaluation mode.
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        try:
            net.eval()
            for parameter in frozen:
                parameter.requires_grad_(True)
            yield
        finally:
            for module in training:
                module.training = True
            for parameter in frozen:
                parameter.requires_grad_(False)
