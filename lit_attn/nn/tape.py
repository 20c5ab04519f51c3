"""How is attention heard? Attention sites speak to the tape; probes, attribution and galleries listen.

A record is what the network used in this very forward pass: weights after every mask and before dropout. Weights times
values give the context that went on into the network; the tests hold every site of every model to that.

    with AttentionTape(net, sites="decoder.*.cross") as tape:
        net(batch)
    tape["decoder.3.cross"][0].weights   # b h q k, first call

Active tapes are a context variable, so they nest (each hears for itself) and do not cross threads. While one listens to
a site, that site computes its weights explicitly instead of through a fused kernel.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import TracebackType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.errors import UserError


@dataclass(frozen=True)
class Site:
    """A place where a network attends: a stable name, and what looks at what."""

    name: str
    query_stream: str
    key_stream: str
    num_heads: int = 1
    predicts: bool = False
    """Row i of the queries reads word i and predicts word i + 1, as in a decoder."""
    calls: int = 1
    """How often it speaks in one pass of the network: the reasoning steps of MAC."""


class Part(NamedTuple):
    """Which rows and columns of a joint sequence are which stream."""

    stream: str
    start: int
    end: int


@dataclass(frozen=True)
class AttentionRecord:
    """One use of one site."""

    site: Site
    call: int
    """How often this site has spoken to this tape before: reasoning steps, decoding steps, batches."""
    weights: Float[Tensor, "b h q k"]
    query_mask: Bool[Tensor, "b q"]
    """Queries that exist; padding is False."""
    key_mask: Bool[Tensor, "b #q k"]
    """Keys that a query was allowed to attend to."""
    value: Float[Tensor, "b h k v"]
    context: Float[Tensor, "b h q v"]
    """What went on into the network, before output projections."""
    parts: tuple[Part, ...] = ()
    """Where several streams attend as one sequence: which of its positions, as rows and as columns, belong to which."""

    def part(self, stream: str) -> slice:
        """The positions of one stream of a joint sequence."""
        for name, start, end in self.parts:
            if name == stream:
                return slice(start, end)
        known = ", ".join(part.stream for part in self.parts) or "none, it is not joint"
        raise KeyError(f"The record of {self.site.name!r} has no part {stream!r}. Parts: {known}.")

    def detached(self) -> "AttentionRecord":
        return AttentionRecord(
            self.site,
            self.call,
            self.weights.detach(),
            self.query_mask,
            self.key_mask,
            self.value.detach(),
            self.context.detach(),
            self.parts,
        )


Listener = Callable[[AttentionRecord], None]

_ACTIVE: ContextVar[tuple["AttentionTape", ...]] = ContextVar("lit_attn_active_tapes", default=())


class AttentionTape:
    """Hears the attention of `net` at the sites that match `sites` (shell patterns).

    Args:
        net: The network to listen to; its sites must match at least once.
        sites: One pattern or several.
        gradients: Keep records in the autograd graph, and leave inference mode for the duration; see `gradients_of`.
        listener: Called with each record, which is then dropped: memory stays bounded however much is heard.
    """

    def __init__(
        self,
        net: nn.Module,
        sites: str | Sequence[str] = "*",
        *,
        gradients: bool = False,
        listener: Listener | None = None,
    ) -> None:
        self.patterns = (sites,) if isinstance(sites, str) else tuple(sites)
        self.known = {site.name: site for site in sites_of(net)}
        self.chosen = {name for name in self.known if any(fnmatchcase(name, p) for p in self.patterns)}
        if not self.chosen:
            raise UserError(f"No attention site matches {sites!r}. Known sites: {', '.join(self.known) or 'none'}.")
        self.keeps_gradients = gradients
        self.listener = listener
        self.records: list[AttentionRecord] = []
        self._calls: Counter[str] = Counter()
        self._modes = ExitStack()

    def __enter__(self) -> "AttentionTape":
        if self.keeps_gradients:
            self._modes.enter_context(torch.inference_mode(False))
            self._modes.enter_context(torch.enable_grad())
        _ACTIVE.set((*_ACTIVE.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not by restoring what was there before: tapes of two callbacks end in the order they began.
        _ACTIVE.set(tuple(tape for tape in _ACTIVE.get() if tape is not self))
        self._modes.close()
        if kind is None and not self._calls:
            raise RuntimeError(
                f"The tape heard nothing at {', '.join(sorted(self.chosen))}. Was the network run inside the `with` "
                f"block, uncompiled? Known sites: {', '.join(self.known)}."
            )

    def hears(self, site: Site) -> bool:
        return site.name in self.chosen

    def _hear(self, site: Site, parts: tuple[Part, ...], *tensors: Tensor) -> None:
        record = AttentionRecord(site, self._calls[site.name], *tensors, parts)  # type: ignore[arg-type, call-arg]
        self._calls[site.name] += 1
        if not self.keeps_gradients:
            record = record.detached()
        if self.listener is not None:
            self.listener(record)
        else:
            self.records.append(record)

    def __getitem__(self, site: str) -> list[AttentionRecord]:
        """All calls of one site, in order."""
        if site not in self.chosen:
            raise KeyError(f"{site!r} is not on this tape. On it: {', '.join(sorted(self.chosen))}.")
        return [record for record in self.records if record.site.name == site]

    def __iter__(self) -> Iterator[AttentionRecord]:
        return iter(self.records)

    def gradients_of(self, target: Float[Tensor, ""]) -> list[Float[Tensor, "b h q k"]]:
        """d target / d weights for each record; zeros where the target does not depend on it.

        No parameter receives a gradient and no distributed reducer wakes. The graph is kept for further targets.
        """
        if not self.keeps_gradients:
            raise UserError("This tape keeps no gradients. Open it with AttentionTape(net, gradients=True).")
        maps = [record.weights for record in self.records]
        grads = torch.autograd.grad(target, maps, retain_graph=True, allow_unused=True)
        if all(gradient is None for gradient in grads):
            raise RuntimeError("The target depends on none of the recorded weights. Was it computed inside this tape?")
        return [torch.zeros_like(m) if g is None else g for m, g in zip(maps, grads, strict=True)]


def is_heard(site: Site) -> bool:
    """Whether any tape listens to this site now."""
    return any(tape.hears(site) for tape in _ACTIVE.get())


@contextmanager
def silence() -> Iterator[None]:
    """No tape hears what runs inside, such as the steps of decoding before the pass that is to be heard."""
    before = _ACTIVE.get()
    _ACTIVE.set(())
    try:
        yield
    finally:
        _ACTIVE.set(before)


_MUTED: ContextVar[frozenset[tuple[str, int]]] = ContextVar("lit_attn_muted_heads", default=frozenset())


@contextmanager
def muted(site: str, *heads: int) -> Iterator[None]:
    """Inside, these heads of a site attend to nothing: their weights and their context are 0, as if their part of the output
    projection were. Uses of it add up. The site must be one of multi-head attention; see `MultiHeadAttention`."""
    before = _MUTED.get()
    _MUTED.set(before | {(site, head) for head in heads})
    try:
        yield
    finally:
        _MUTED.set(before)


def muted_heads(site: Site) -> list[int]:
    """The heads of a site that are muted now."""
    return sorted(head for name, head in _MUTED.get() if name == site.name)


def speak(
    site: Site,
    *,
    weights: Float[Tensor, "b h q k"],
    query_mask: Bool[Tensor, "b q"],
    key_mask: Bool[Tensor, "b #q k"],
    value: Float[Tensor, "b h k v"],
    context: Float[Tensor, "b h q v"],
    parts: tuple[Part, ...] = (),
) -> None:
    """Tell every tape that listens what was attended to. Called by attention sites."""
    for tape in _ACTIVE.get():
        if tape.hears(site):
            tape._hear(site, parts, weights, query_mask, key_mask, value, context)


def sites_of(net: nn.Module) -> list[Site]:
    """The attention sites of a network, in the order of its modules: whatever module has a `site`."""
    found = (getattr(module, "site", None) for module in net.modules())
    sites = [site for site in found if isinstance(site, Site)]
    names = Counter(site.name for site in sites)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"Attention sites must have names of their own; used twice: {', '.join(twice)}.")
    return sites


def ordinary(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copies that autograd can use: tensors made in inference mode cannot enter a graph."""
    with torch.inference_mode(False):
        return [tensor.clone() for tensor in tensors]
