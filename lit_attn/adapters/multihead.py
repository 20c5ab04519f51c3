"""How is `nn.MultiheadAttention` heard, alone, in `nn.Transformer` or anywhere else? By computing it in the open.

torch computes it in one call, which nobody can overhear, and the weights that it returns are made after use: no gradient
passes through them. So while a tape listens, the same projections, masks and products run one by one, and the fast path is
off. Outputs agree to rounding, with one exception: a query that may see no key has a context of 0, where torch gives NaN
if it was asked for weights.

Layers of `nn.Transformer` say what they read. Elsewhere a module attends to itself if its query is its key; where one
sequence reads another, give `streams`: `adapt(net, streams={"*.reader": ("words", "cells")})`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.adapters.adapter import Adapter, Spot, named_arguments
from lit_attn.adapters.overhear import HIDDEN, Overheard
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Site

Streams = Mapping[str, tuple[str, str]]
"""Shell pattern of module paths to the streams of query and key; the first that matches counts."""
ITSELF = ("tokens", "tokens")


@final
class MultiheadAdapter(Adapter):
    """Any network with `nn.MultiheadAttention`.

    Layers of `nn.Transformer` have the sites `encoder.<i>.self`, `decoder.<i>.self` and `decoder.<i>.cross` over the
    streams `source` and `target`; other modules are named by their path, over the stream `tokens`. Modules attend in the
    order in which the network holds them.

    Args:
        streams: Of modules by path, in place of the above.
    """

    def __init__(self, model: nn.Module, streams: Streams | None = None) -> None:
        spots, self_only = [], set()
        found = {name: module for name, module in model.named_modules() if isinstance(module, nn.MultiheadAttention)}
        for pattern in streams or {}:
            if not any(fnmatchcase(name, pattern) for name in found):
                raise UserError(f"No nn.MultiheadAttention is at {pattern!r}. They are at: {', '.join(found)}.")
        for name, module in found.items():
            if module.bias_k is not None or module.add_zero_attn:
                raise UserError(
                    f"The attention at {name!r} has keys that are no inputs (add_bias_kv or add_zero_attn), so that its "
                    "weights cannot be followed. Use a network without them."
                )
            site_name, usual = _described(model, name)
            own = next((pair for pattern, pair in (streams or {}).items() if fnmatchcase(name, pattern)), usual)
            if own is None:
                self_only.add(name)
            spots.append(Spot(name, (Site(site_name, *(own or ITSELF), module.num_heads),)))
        super().__init__(model, spots, {})
        self.self_only = self_only

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        sites = [spot.sites[0] for spot in self.spots]
        return tuple((Event(site.query_stream, site.key_stream, site.name),) for site in sites)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None:
            raise UserError("Which row does this network answer from? Name it: plan(row=position).")
        return Target(self.spots[-1].sites[0].query_stream, row)

    @contextmanager
    def explicit(self) -> Iterator[None]:
        before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(before)

    def attend(
        self, spot: Spot, module: nn.Module, original: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, Overheard, Bool[Tensor, "b _q k"]]:
        assert isinstance(module, nn.MultiheadAttention)
        arguments = named_arguments(original, given, named)
        if spot.module in self.self_only and arguments["query"] is not arguments["key"]:
            raise UserError(
                f"The attention at {spot.module!r} reads something other than its query. Say which streams they are: "
                f"streams={{{spot.module!r}: (query, key)}}."
            )
        return attention(module, **arguments)


def attention(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[tuple[Tensor, Tensor | None], Overheard, Bool[Tensor, "b _q k"]]:
    """What the module computes, step by step. `is_causal` only describes the mask, which is used."""
    batched = query.dim() == 3
    if not batched:
        query, key, value = (x.unsqueeze(0) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    elif not module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    q, k, v = _projected(module, query, key, value)
    added, hidden = _masks(q, k, key_padding_mask, attn_mask)
    scores = q * module.head_dim**-0.5 @ k.mT
    if added is not None:
        scores = scores + added
    weights = F.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(hidden, 0.0)
    context = F.dropout(weights, module.dropout, module.training) @ v
    output = module.out_proj(context.transpose(1, 2).flatten(2))
    returned = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
    if not batched:
        output, returned = output.squeeze(0), None if returned is None else returned.squeeze(0)
    elif not module.batch_first:
        output = output.transpose(0, 1)
    seen = (~hidden).any(1).expand(len(q), -1, k.shape[2])
    return (output, returned), Overheard(weights, v, context), seen


def _projected(module: nn.MultiheadAttention, *inputs: Float[Tensor, "b _n _d"]) -> list[Float[Tensor, "b h _n e"]]:
    if module._qkv_same_embed_dim:
        matrices = module.in_proj_weight.chunk(3)
    else:
        matrices = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return [
        F.linear(x, matrix, bias).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for x, matrix, bias in zip(inputs, matrices, biases, strict=True)
    ]


def _masks(
    q: Float[Tensor, "b h q e"], k: Float[Tensor, "b h k e"], padding: Tensor | None, pairs: Tensor | None
) -> tuple[Tensor | None, Bool[Tensor, "_b _h _q k"]]:
    """What is added to scores, and which keys are hidden from which queries. torch's bool masks are True where hidden."""
    masks = []
    if padding is not None:
        masks.append(padding[:, None, None])
    if pairs is not None:
        masks.append(pairs.unflatten(0, q.shape[:2]) if pairs.dim() == 3 else pairs[None, None])
    hidden = torch.zeros(1, 1, 1, k.shape[2], dtype=torch.bool, device=q.device)
    added = None
    for mask in masks:
        if mask.dtype == torch.bool:
            hidden = hidden | mask
            continue
        own = mask <= HIDDEN
        hidden = hidden | own
        visible = mask.masked_fill(own, 0.0)
        added = visible if added is None else added + visible
    return added, hidden


def _described(model: nn.Module, path: str) -> tuple[str, tuple[str, str] | None]:
    """A site's name and usual streams; None: only itself."""
    layer, _, kind = path.rpartition(".")
    parent = model.get_submodule(layer)
    if isinstance(parent, nn.TransformerEncoderLayer):
        return _numbered(layer, "encoder", "self"), ("source", "source")
    if isinstance(parent, nn.TransformerDecoderLayer):
        if kind == "self_attn":
            return _numbered(layer, "decoder", "self"), ("target", "target")
        return _numbered(layer, "decoder", "cross"), ("target", "source")
    return path or "attention", None


def _numbered(layer: str, stack: str, kind: str) -> str:
    """`encoder.layers.3` to `encoder.3.self`; a stack or layer by itself gets the name of its kind."""
    short = re.sub(r"(^|\.)layers\.", r"\1", layer)
    if not short or short.isdigit():
        short = f"{stack}.{short or 0}"
    return f"{short}.{kind}"
