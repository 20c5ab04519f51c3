"""Which alignment function scores queries against keys? One final class per formula, chosen by name.

`--model.alignment NAME` takes one of ALIGNMENTS or the import path of a subclass of `Alignment`. A class owns only the
parameters of its own formula. Layout is always query-major: `b h q k`. Formulas stand in `ops.align`.
"""

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.errors import UserError, did_you_mean
from lit_attn.ops import align
from lit_attn.ops.align import Operands
from lit_attn.ops.normalize import masked_softmax


@dataclass(frozen=True)
class Setting:
    """What the surrounding network does with scores: it decides which functions are the same model there."""

    unit_length: bool = False
    """Queries and keys have unit length when they are scored."""
    scale_free: bool = False
    """Multiplying all scores by one positive number changes nothing."""
    shift_free: bool = True
    """Adding a constant to all scores of one query changes nothing, as under a softmax over keys."""
    elementwise: bool = False
    """Products are used one by one and not summed to a score, as in MAC."""


@dataclass(frozen=True)
class Description:
    """How a report names an alignment."""

    name: str
    equivalence: str
    """Rows of a table with the same value are mathematically the same family of models."""
    parameters: int


class Alignment(nn.Module, ABC):
    """A score for every pair of query and key. Subclasses say how operands are transformed; the rest follows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < 1:
            raise UserError(f"The width of an alignment must be positive, got dim={dim}.")
        self.dim = dim

    @abstractmethod
    def transform(self, query: Tensor, key: Tensor) -> Operands:
        """The linear part: transformed query, transformed key, scale of their product."""

    def activate(self, scores: Tensor) -> Tensor:
        """Applied to finished scores, before any mask. Whoever overrides it also sets `linear` to False."""
        return scores

    linear: bool = True
    """Whether scores are products of transformed operands, so that fused kernels can compute them."""

    def equivalence(self, setting: Setting) -> str:
        """Name of the class of models that are mathematically this one in the given network."""
        return name_of(type(self))

    def forward(self, query: align.Query, key: align.Key) -> align.Scores:
        """Scores of all pairs, query-major, unmasked."""
        return self.activate(align.pairwise(*self.transform(query, key)))

    def scores(
        self, query: align.Query, key: align.Key, mask: Bool[Tensor, "*#batch #q k"] | None = None
    ) -> align.Scores:
        """Scores with -inf where `mask` is False: activation first, mask second."""
        scores = self(query, key)
        return scores if mask is None else scores.masked_fill(~mask, float("-inf"))

    def elementwise(
        self, query: Float[Tensor, "*batch e"], key: Float[Tensor, "*batch k e"]
    ) -> Float[Tensor, "*batch k e"]:
        """Products of one query with many keys before they are summed. Without activation they sum to the scores."""
        return self.activate(align.elementwise(*self.transform(query, key)))

    def attend(
        self,
        query: align.Query,
        key: align.Key,
        value: Float[Tensor, "*batch k v"],
        mask: Bool[Tensor, "*#batch #q k"] | None = None,
        dropout: float = 0.0,
        temperature: float = 1.0,
        bias: Float[Tensor, "*#batch #q k"] | None = None,
    ) -> tuple[Float[Tensor, "*batch q v"], align.Scores]:
        """Context and weights by the explicit path. Weights are those before dropout; `bias` adds to finished scores."""
        scores = self(query, key)
        if temperature != 1.0:
            scores = scores * temperature
        weights = masked_softmax(scores if bias is None else scores + bias, mask)
        return F.dropout(weights, dropout, self.training) @ value, weights

    def attend_fused(
        self,
        query: align.Query,
        key: align.Key,
        value: Float[Tensor, "*batch k v"],
        mask: Bool[Tensor, "*#batch #q k"] | None = None,
        dropout: float = 0.0,
        temperature: float = 1.0,
        bias: Float[Tensor, "*#batch #q k"] | None = None,
    ) -> Float[Tensor, "*batch q v"]:
        """Context alone, through `scaled_dot_product_attention` when the function is linear."""
        if not self.linear:
            return self.attend(query, key, value, mask, dropout, temperature, bias)[0]
        query, key, scale = self.transform(query, key)
        drop = dropout if self.training else 0.0
        added = mask
        if bias is not None:
            added = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        context = F.scaled_dot_product_attention(query, key, value, added, drop, scale=scale * temperature)
        # Kernels differ on rows without any key (zeros or NaN): ours are zero.
        return context if mask is None else context.masked_fill(~mask.any(-1, keepdim=True), 0.0)

    def describe(self, setting: Setting) -> Description:
        return Description(
            name_of(type(self)), self.equivalence(setting), sum(parameter.numel() for parameter in self.parameters())
        )


@final
class Cosine(Alignment):
    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.cosine(query, key)

    def equivalence(self, setting: Setting) -> str:
        return "dot" if setting.unit_length and not setting.elementwise else "cosine"


@final
class Dot(Alignment):
    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.dot(query, key)


@final
class ScaledDot(Alignment):
    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.scaled_dot(query, key)

    def equivalence(self, setting: Setting) -> str:
        return "dot" if setting.scale_free else "scaled_dot"


@final
class GeneralQuery(Alignment):
    """k . (W q): the papers' general*."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.proj = nn.Linear(dim, dim, bias=False)

    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.general_query(query, key, self.proj.weight)

    def equivalence(self, setting: Setting) -> str:
        return "general_query" if setting.elementwise else "general"


@final
class GeneralKey(Alignment):
    """q . (W k): the papers' general†. With W transposed it is general*, unless products are used one by one."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.proj = nn.Linear(dim, dim, bias=False)

    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.general_key(query, key, self.proj.weight)

    def equivalence(self, setting: Setting) -> str:
        return "general_key" if setting.elementwise else "general"


@final
class BiasedQuery(Alignment):
    """k . (W q + b): the papers' biased general*. The bias gives every key a score of its own."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.proj = nn.Linear(dim, dim)

    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.general_query(query, key, self.proj.weight, self.proj.bias)


@final
class BiasedKey(Alignment):
    """q . (W k + b): the papers' biased general†. A softmax over keys cancels the bias."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.proj = nn.Linear(dim, dim)

    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.general_key(query, key, self.proj.weight, self.proj.bias)

    def equivalence(self, setting: Setting) -> str:
        return "general" if setting.shift_free and not setting.elementwise else "biased_key"


@final
class Activated(Alignment):
    """activation(q . (W k + b)), with ReLU as in the paper's text; published code also used the sigmoid."""

    linear = False

    def __init__(self, dim: int, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__(dim)
        self.proj = nn.Linear(dim, dim)
        self.activation = activation

    def transform(self, query: Tensor, key: Tensor) -> Operands:
        return align.general_key(query, key, self.proj.weight, self.proj.bias)

    def activate(self, scores: Tensor) -> Tensor:
        return self.activation(scores)


ALIGNMENTS: dict[str, type[Alignment]] = {
    "cosine": Cosine,
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general_query": GeneralQuery,
    "general_key": GeneralKey,
    "biased_query": BiasedQuery,
    "biased_key": BiasedKey,
    "activated": Activated,
}


def name_of(cls: type[Alignment]) -> str:
    """The name a recipe uses for this class: short for ours, the import path for a user's."""
    for name, known in ALIGNMENTS.items():
        if known is cls:
            return name
    return f"{cls.__module__}.{cls.__qualname__}"


def alignment_class(name: str) -> type[Alignment]:
    """The class for a name of ALIGNMENTS or for an import path."""
    if name in ALIGNMENTS:
        return ALIGNMENTS[name]
    if "." not in name:
        known = ", ".join(ALIGNMENTS)
        raise UserError(
            f"Unknown alignment {name!r}.{did_you_mean(name, ALIGNMENTS)} "
            f"Known: {known}; or the import path of an Alignment subclass."
        )
    module_name, _, class_name = name.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"Cannot import the alignment {name!r}: {error}.") from error
    if not (inspect.isclass(cls) and issubclass(cls, Alignment) and not inspect.isabstract(cls)):
        raise UserError(f"The alignment {name!r} is not a concrete subclass of lit_attn.nn.alignment.Alignment.")
    return cls


def build_alignment(name: str, dim: int) -> Alignment:
    """A fresh alignment module of the given width."""
    return alignment_class(name)(dim)
