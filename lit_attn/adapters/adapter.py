"""How does a foreign network speak to our tapes? Wrapped: it runs as it is, and its attention modules are overheard.

    net = adapt(BertForSequenceClassification.from_pretrained(folder))
    scores = explain(net, net.plan(), lambda net: net(**inputs).logits, best, ["gae"])

An adapter names the sites of its network, hears them during a pass that some tape listens to, and gives the plan by which
attribution follows them. It leaves nothing behind: fused kernels, compiled calls and methods are as before after each
pass, and while no tape listens the network runs untouched.
"""

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.adapters.overhear import Overhear, Overheard, visible
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Part, Site, is_heard, speak

Arguments = Mapping[str, Any]
"""What a module was called with, by name."""


@dataclass(frozen=True)
class Spot:
    """An attention module of a foreign network."""

    module: str
    """Its path in the network."""
    sites: tuple[Site, ...]
    """What it speaks for, one per call in a pass: shared modules attend several times."""
    mask: str = "attention_mask"
    """Its argument that hides keys."""


class Ear(nn.Module):
    """Where tapes find a site of a foreign network."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site


@dataclass
class Pass:
    """One heard pass: how often each module has spoken, and which positions of each stream exist."""

    inputs: Arguments
    masks: dict[str, Bool[Tensor, "b n"]]
    turns: dict[str, int] = field(default_factory=dict)

    def next_site(self, spot: Spot) -> Site:
        turn = self.turns.get(spot.module, 0)
        self.turns[spot.module] = turn + 1
        return spot.sites[turn % len(spot.sites)]

    def query_mask(self, site: Site, heard: Overheard, keys: Bool[Tensor, "b _q k"]) -> Bool[Tensor, "b q"]:
        """Queries that exist. A position of a stream exists if it is seen as a key, or was seen before."""
        b, _, q, k = heard.weights.shape
        seen = keys.any(1)
        self.masks[site.key_stream] = seen
        if site.query_stream == site.key_stream:
            return seen[:, k - q :]
        known = self.masks.get(site.query_stream)
        return torch.ones(b, q, dtype=torch.bool, device=keys.device) if known is None else known


_ONE_AT_A_TIME = threading.RLock()
"""Held during a heard pass, which changes how a network's modules are called."""


class Adapter(nn.Module, ABC):
    """A foreign network whose attention is heard.

    Args:
        model: The network, without wrappers.
        spots: Its attention modules.
        embeddings: By stream, the path of the module that gives the stream's first features.
    """

    def __init__(self, model: nn.Module, spots: Sequence[Spot], embeddings: Mapping[str, str]) -> None:
        super().__init__()
        if not spots:
            raise UserError(f"{type(model).__name__} has no attention modules where its family has them.")
        self.model = model
        self.spots = tuple(spots)
        self.ears = nn.ModuleList(Ear(site) for spot in spots for site in spot.sites)
        self.embeddings = {stream: model.get_submodule(path) for stream, path in embeddings.items()}
        self.training = model.training
        self.ears.train(model.training)

    @abstractmethod
    def groups(self) -> tuple[tuple[Event, ...], ...]:
        """The events of the plan, from the inputs up."""

    @abstractmethod
    def target(self, row: int | tuple[int, ...] | None) -> Target:
        """The row that is asked about; None: the one from which the network answers, if there is one."""

    @abstractmethod
    def explicit(self) -> AbstractContextManager[None]:
        """Inside, attention is a softmax and a product, not a fused kernel."""

    def plan(self, row: int | tuple[int, ...] | None = None) -> Plan:
        """What attends to what, and the row that is asked about; None: the one from which the network answers."""
        return Plan(self.groups(), self.target(row))

    def parts(self, inputs: Arguments, length: int) -> tuple[Part, ...]:
        """Where several kinds of input attend as one sequence: which positions are which."""
        return ()

    def known_masks(self, inputs: Arguments) -> dict[str, Bool[Tensor, "b n"]]:
        """Which positions of streams exist, where inputs say so before the first attention."""
        return {}

    def attend(
        self, spot: Spot, module: nn.Module, original: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, Overheard, Bool[Tensor, "b _q k"]]:
        """Runs an attention module: its output, what was heard, and which keys were visible."""
        with Overhear() as ear:
            output = original(*given, **named)
        if len(ear.found) != 1:
            raise UserError(
                f"Attention at {spot.sites[0].name!r} cannot be heard: {type(module).__name__} multiplies weights with "
                f"values {len(ear.found)} times instead of once. Its kind of attention is not adapted."
            )
        arguments = named_arguments(original, given, named)
        keys = visible(arguments.get(spot.mask), ear.found[0].weights, causal=bool(arguments.get("is_causal")))
        return output, ear.found[0], keys

    def forward(self, *given: Any, **named: Any) -> Any:
        """What the network gives. Tapes that listen hear its attention."""
        if not any(is_heard(site) for spot in self.spots for site in spot.sites):
            return self.model(*given, **named)
        inputs = named_arguments(self.model.forward, given, named)
        heard = Pass(inputs, self.known_masks(inputs))
        with _ONE_AT_A_TIME, ExitStack() as stack:
            stack.enter_context(self.explicit())
            stack.enter_context(uncompiled(self.model))
            for spot in self.spots:
                stack.enter_context(self._speaking(spot, heard))
            return self.model(*given, **named)

    @contextmanager
    def embedded(self) -> Iterator[dict[str, Float[Tensor, "b n d"]]]:
        """Inside, a pass fills the dictionary with the first features of each stream, in its graph.

            with net.embedded() as found:
                target = best(net(**inputs).logits)
            input_gradient(target, found["text"])

        Features of a picture `b d y x` become `b n d`, row by row.
        """
        found: dict[str, Tensor] = {}

        def keep(stream: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
            def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
                if output.dim() != 4:
                    found[stream] = output
                    return output
                found[stream] = output.flatten(2).mT
                return found[stream].mT.reshape(output.shape)

            return hook

        with ExitStack() as stack:
            for stream, module in self.embeddings.items():
                stack.callback(module.register_forward_hook(keep(stream)).remove)
            yield found

    @contextmanager
    def _speaking(self, spot: Spot, heard: Pass) -> Iterator[None]:
        module = self.model.get_submodule(spot.module)
        before, original = module.__dict__.get("forward"), module.forward
        own_thread = threading.get_ident()

        def forward(*given: Any, **named: Any) -> Any:
            if threading.get_ident() != own_thread:
                return original(*given, **named)
            site = heard.next_site(spot)
            output, found, keys = self.attend(spot, module, original, given, named)
            speak(
                site,
                weights=found.weights,
                query_mask=heard.query_mask(site, found, keys),
                key_mask=keys,
                value=found.value,
                context=found.context,
                parts=self.parts(heard.inputs, found.weights.shape[-1]),
            )
            return output

        module.forward = forward
        try:
            yield
        finally:
            del module.forward
            if before is not None:
                module.forward = before


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Inside, modules that were compiled in place run as written."""
    compiled = {module: module._compiled_call_impl for module in model.modules() if module._compiled_call_impl}
    for module in compiled:
        module._compiled_call_impl = None
    try:
        yield
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call


def named_arguments(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Positional and named arguments together, by name."""
    bound = inspect.signature(function).bind(*given, **named).arguments
    return {**{name: value for name, value in bound.items() if name != "kwargs"}, **bound.get("kwargs", {})}
