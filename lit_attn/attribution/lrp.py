"""How relevant is each weight by LRP, and what follows from it? Partial LRP and T-Attr.

Source: Chefer, Gur and Wolf (2021), "Transformer Interpretability Beyond Attention Visualization". While `lrp(net)` is open,
every operation of the network runs with a rule of `lrp_rules`: calls of torch are caught one by one, and modules that
normalise or activate are taken as a whole. No network is rewritten; ours and those of `adapters` work as they are, as long
as their attention is explicit. The relevance of a map is then what `AttentionTape.gradients_of` returns.

T-Attr multiplies I + mean over heads of (gradient * relevance)+ over layers. The authors' code divides rows by their sums
for BERT alone. In float32 LRP deviates by up to 3e-3: compare it in float64.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lit_attn.attribution.heard import Heard, Map
from lit_attn.attribution.layers import added, averaged, backwards
from lit_attn.attribution.lrp_rules import multiplied, passed, scaled, seen, summed, weighed
from lit_attn.attribution.raw import of_last_maps
from lit_attn.attribution.relevance import positive_relevance
from lit_attn.errors import UserError, did_you_mean

PICTURE_CHANNELS = 3
WHOLE = ("Norm", "GELU", "Activation")
"""Parts of the names of modules through which relevance passes as it is."""


def partial_lrp(heard: Heard) -> Float[Tensor, "b n"]:
    """The target's row of the positive relevance of the last map onto each stream."""
    return of_last_maps(heard, positive_lrp)


def positive_lrp(one: Map) -> Float[Tensor, "b q k"]:
    """Mean over heads of the positive relevance."""
    return one.needed_relevance().clamp_min(0).mean(1)


def transformer_attribution(heard: Heard, *, start: int = 0, normalize: bool = False) -> Float[Tensor, "b n"]:
    """T-Attr: the target's row of the product over groups from `start` on.

    Args:
        normalize: Divide rows by their sums, as the authors' code does for BERT.
    """
    if not 0 <= start < len(heard.groups):
        raise UserError(f"T-Attr cannot start at group {start}: the plan has groups 0 to {len(heard.groups) - 1}.")
    layers = averaged(heard, positive_relevance) if normalize else added(heard, positive_relevance)
    return backwards(layers[start:], heard.one_hot())


@contextmanager
def lrp(net: nn.Module, alpha: float = 1.0, constants: Sequence[str] = ()) -> Iterator[None]:
    """Inside, the network's operations pass relevance back instead of gradients.

    Parameters must require gradients, so that tensors know that they depend on the network; `capture` sees to it.

    Args:
        constants: Modules or parameters by name that count as constants. Learned positions else take their share of what
            they are added to; the authors' DETR code gives none to `query_position_embeddings`.
    """

    def whole(module: nn.Module, inputs: tuple[Any, ...], outcome: Any) -> Any:
        return passed(inputs[0], outcome.detach())

    with ExitStack() as stack:
        for parameter in _named(net, constants):
            stack.callback(parameter.requires_grad_, parameter.requires_grad)
            parameter.requires_grad_(False)
        for module in net.modules():
            if isinstance(module, nn.RNNBase):
                raise UserError(
                    f"LRP has no rule for {type(module).__name__}, through which inputs of this network pass. Leave out "
                    "t_attr and partial_lrp."
                )
            if any(word in type(module).__name__ for word in WHOLE):
                stack.callback(module.register_forward_hook(whole).remove)
        stack.enter_context(_Rules(alpha))
        yield


def _named(net: nn.Module, names: Sequence[str]) -> list[nn.Parameter]:
    """Parameters whose path holds one of the names."""
    paths = {path: path.split(".") for path, _ in net.named_parameters()}
    known = {part for parts in paths.values() for part in parts}
    for name in names:
        if name not in known:
            raise UserError(
                f"{type(net).__name__} has no parameters called {name!r}.{did_you_mean(name, sorted(known))} Name a part of "
                "a path in `named_parameters()`."
            )
    return [parameter for path, parameter in net.named_parameters() if not set(names).isdisjoint(paths[path])]


class _Rules(TorchFunctionMode):
    """Catches calls of torch and runs them with their rule."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _IN_PLACE or kwargs.pop("inplace", False):
            own, *others = args
            return own.copy_(self.__torch_function__(_IN_PLACE.get(func, func), types, (own.clone(), *others), kwargs))
        if func is torch.addmm and not kwargs and args[2].is_leaf:  # a linear layer whose matrix is transposed
            bias, x, weight = args
            return self._weigh(_affine, x, weight, bias)
        if func in _REFUSED:
            raise UserError(
                f"LRP has no rule for {getattr(func, '__name__', func)}. Use explicit attention: softmax and products."
            )
        if func in _WEIGHING:
            return self._weigh(func, *args, **kwargs)
        outcome = func(*args, **kwargs)
        if not isinstance(outcome, Tensor) or not outcome.requires_grad:
            return outcome
        if func in _PASSING:
            return passed(args[0], outcome.detach())
        if func in _PAIRED and kwargs.keys() <= {"other", "alpha"}:  # division with rounding has no rule
            return _pair(_PAIRED[func], outcome, *args, **kwargs)
        return outcome

    def _weigh(
        self, func: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        outcome = func(x, weight, bias, *args, **kwargs)
        if not outcome.requires_grad:
            return outcome

        def apply(value: Tensor, part: Tensor) -> Tensor:
            return func(value, part, None, *args, **kwargs)

        if func in _CONVOLUTIONS and x.shape[1] == PICTURE_CHANNELS:
            return seen(x, weight, outcome.detach(), apply)
        return weighed(x, weight, outcome.detach(), apply, self.alpha)


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`torch.addmm` as a linear layer: its inputs first, and perhaps without a bias."""
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def _pair(
    rule: Callable[[Tensor, Tensor], Tensor], outcome: Tensor, a: Any, other: Any, *, alpha: float | int = 1
) -> Any:
    """The rule of two operands, where both depend on the network; a constant one takes no relevance.

    Args:
        alpha: What torch multiplies the other one by before it adds it.
    """
    depends = [isinstance(one, Tensor) and one.requires_grad for one in (a, other)]
    if all(depends):
        return rule(a, other if alpha == 1 else passed(other, alpha * other.detach()))
    if rule is _product:
        return outcome  # a matrix of constants moves relevance as it moves values
    own = a if depends[0] else other
    return passed(own.expand_as(outcome), outcome.detach())


def _sum(a: Tensor, b: Tensor) -> Any:
    return summed(*torch.broadcast_tensors(a, b))


def _difference(a: Tensor, b: Tensor) -> Any:
    return _sum(a, passed(b, -b.detach()))


def _elements(a: Tensor, b: Tensor) -> Any:
    return scaled(*torch.broadcast_tensors(a, b))


def _quotient(a: Tensor, b: Tensor) -> Any:
    return _elements(a, passed(b, 1 / b.detach()))


def _product(a: Tensor, b: Tensor) -> Any:
    return multiplied(a, b)


_CONVOLUTIONS = {F.conv1d, F.conv2d}
_WEIGHING = {F.linear, *_CONVOLUTIONS}
_REFUSED = {torch.einsum, F.scaled_dot_product_attention, torch.addmm, torch.baddbmm}
_PASSING = {
    *(F.gelu, F.relu, F.elu, F.silu, F.leaky_relu, F.tanh, F.sigmoid, F.softmax, F.log_softmax, F.layer_norm),
    *(torch.relu, torch.tanh, torch.sigmoid, torch.softmax, torch.log_softmax, torch.neg, torch.layer_norm),
    *(Tensor.relu, Tensor.tanh, Tensor.sigmoid, Tensor.softmax, Tensor.log_softmax, Tensor.neg, Tensor.__neg__),
}
_PAIRED: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    **dict.fromkeys((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__), _sum),
    **dict.fromkeys((torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__), _difference),
    **dict.fromkeys((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), _elements),
    **dict.fromkeys((torch.div, Tensor.div, Tensor.__truediv__, Tensor.__rtruediv__), _quotient),
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm), _product),
}
_IN_PLACE = {
    **{getattr(Tensor, f"{name}_"): getattr(torch, name) for name in ("add", "sub", "mul", "div", "neg")},
    **{
        getattr(one, f"{name}_"): getattr(torch, name)
        for name in ("relu", "tanh", "sigmoid")
        for one in (torch, Tensor)
    },
    Tensor.__iadd__: torch.add,
    Tensor.__isub__: torch.sub,
    Tensor.__imul__: torch.mul,
    Tensor.__itruediv__: torch.div,
}
"""What changes its first operand, and what computes the same without: its rule needs the old value too."""
