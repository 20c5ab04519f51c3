"""What does foreign attention compute? Weights, values and context, overheard while the module runs as it is.

Explicit attention, whoever writes it, is a softmax, perhaps a cast, perhaps dropout, and a product with the values. While
a module runs, calls of torch are watched for that chain; nothing is computed twice or in another way, so that outputs stay
equal to the bit and weights are the very tensors through which gradients pass. Fused kernels cannot be overheard: whoever
listens must turn them off first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

HIDDEN = -9e3
"""Whatever adds less than this to a score hides the key. Libraries add -10000, the smallest number, or -inf."""


class Overheard(NamedTuple):
    """One use of attention."""

    weights: Float[Tensor, "b h q k"]
    """Before dropout."""
    value: Float[Tensor, "b h k v"]
    context: Float[Tensor, "b h q v"]


class Overhear(TorchFunctionMode):
    """Inside, finds every product of attention weights with values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Overheard] = []
        self._known: dict[int, tuple[Tensor, Tensor]] = {}
        """By identity of a tensor: itself, so that it lives, and the weights that it stands for."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if func in _SOFTMAX:
            self._known[id(outcome)] = outcome, outcome
        elif args and id(args[0]) in self._known:
            _, weights = self._known[id(args[0])]
            if func in _CASTS:
                self._known[id(outcome)] = outcome, outcome
            elif func is F.dropout:
                self._known[id(outcome)] = outcome, weights
            elif func in _PRODUCTS and weights.dim() == 4:
                self.found.append(Overheard(weights, args[1], outcome))
        return outcome


def visible(mask: Tensor | None, weights: Float[Tensor, "b h q k"], *, causal: bool = False) -> Bool[Tensor, "b _q k"]:
    """Keys that queries may attend to, from a mask that is bool (True: visible) or is added to scores.

    The axis of queries has length 1 where the mask does not depend on them.
    """
    b, _, q, k = weights.shape
    if mask is None:
        seen = torch.ones(b, 1, k, dtype=torch.bool, device=weights.device)
    else:
        seen = mask if mask.dtype == torch.bool else mask > HIDDEN
        seen = seen.view(*(1,) * (4 - seen.dim()), *seen.shape)[..., :k].any(1)  # a key that some head sees
        seen = seen.expand(b, -1, k)
    if causal:
        seen = seen & torch.ones(q, k, dtype=torch.bool, device=weights.device).tril(k - q)
    return seen


_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
_CASTS = {Tensor.to, Tensor.type, Tensor.type_as, Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16}
_PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm}
