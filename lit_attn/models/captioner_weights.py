"""How are the published weights of the object-relation transformer called here? Names of both sides, and sizes.

Published files come from `yahoo/object_relation_transformer`. Nothing in them tells whether the extra skip was on.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lit_attn.errors import UserError

_STACKS = {"encoder": ("attn_norm", "feed_norm"), "decoder": ("attn_norm", "cross_norm", "feed_norm")}
_ATTENTION = {"self_attn": "attn", "src_attn": "cross_attn"}
_LINEARS = ("query", "key", "value", "output")
_NORM = {"a_2": "weight", "b_2": "bias"}
_WHOLE = {
    "model.tgt_embed.0.lut.weight": "embed.weight",
    "model.generator.proj.weight": "generator.weight",
    "model.generator.proj.bias": "generator.bias",
}
_DROPPED = frozenset({"model.tgt_embed.1.pe"})
"""The table of positions, which is computed."""

_LAYER = re.compile(r"model\.(encoder|decoder)\.layers\.(\d+)\.(.+)")
_GATE = re.compile(r"self_attn\.WGs\.(\d+)\.(weight|bias)")


def our_name(published: str) -> str | None:
    """Our name of a published tensor; None for one that is dropped, or a gate, which is stacked with its fellows."""
    if published in _DROPPED:
        return None
    if published in _WHOLE:
        return _WHOLE[published]
    if published.startswith("att_embed."):
        return "project." + published.removeprefix("att_embed.")
    if match := re.fullmatch(r"model\.(encoder|decoder)\.norm\.(a_2|b_2)", published):
        return f"{match[1]}_norm.{_NORM[match[2]]}"
    if match := _LAYER.fullmatch(published):
        stack, layer, rest = match[1], match[2], match[3]
        inner = _name_in_layer(stack, rest)
        return None if inner is None else f"{stack}.{layer}.{inner}"
    raise UserError(f"The tensor {published!r} is not one of an object-relation transformer.")


def _name_in_layer(stack: str, rest: str) -> str | None:
    if stack == "encoder" and _GATE.fullmatch(rest):
        return None
    if match := re.fullmatch(r"(self_attn|src_attn)\.linears\.([0-3])\.(weight|bias)", rest):
        return f"{_ATTENTION[match[1]]}.{_LINEARS[int(match[2])]}.{match[3]}"
    if match := re.fullmatch(r"feed_forward\.w_([12])\.(weight|bias)", rest):
        return f"feed_forward.{0 if match[1] == '1' else 3}.{match[2]}"
    if match := re.fullmatch(r"sublayer\.(\d)\.norm\.(a_2|b_2)", rest):
        return f"{_STACKS[stack][int(match[1])]}.{_NORM[match[2]]}"
    raise UserError(f"The tensor {rest!r} of an {stack} layer is not one of an object-relation transformer.")


def convert(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Published tensors by our names, the gates of a layer's heads stacked."""
    found: dict[str, Tensor] = {}
    gates: dict[str, dict[int, Tensor]] = {}
    for name, tensor in published.items():
        ours = our_name(name)
        if ours is not None:
            found[ours] = tensor
        elif (match := _LAYER.fullmatch(name)) and (gate := _GATE.fullmatch(match[3])):
            gates.setdefault(f"encoder.{match[2]}.gate.proj.{gate[2]}", {})[int(gate[1])] = tensor
    for name, heads in gates.items():
        found[name] = torch.cat([heads[h] for h in sorted(heads)])
    return found


def settings_of(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Sizes and options that the shapes of converted weights tell: all but `legacy_extra_skip`."""
    layers = {stack: 1 + max(_layers(weights, stack), default=-1) for stack in _STACKS}
    before = "project.0.running_mean" in weights
    linear = "project.1.weight" if before else "project.0.weight"
    try:
        heads, geometry_dim = weights["encoder.0.gate.proj.weight"].shape
        dim, region_dim = weights[linear].shape
        return {
            "vocab_size": len(weights["embed.weight"]),
            "region_dim": region_dim,
            "dim": dim,
            "num_heads": heads,
            "hidden": len(weights["encoder.0.feed_forward.0.weight"]),
            "encoder_layers": layers["encoder"],
            "decoder_layers": layers["decoder"],
            "geometry": "raw" if geometry_dim == 4 else "trigonometric",
            "batch_norm": "none" if not before else "both" if "project.4.running_mean" in weights else "before",
            "norm": "unbiased",
        }
    except KeyError as error:
        raise UserError(f"These are not all weights of an object-relation transformer: {error} is missing.") from error


def _layers(weights: Mapping[str, Tensor], stack: str) -> list[int]:
    return [int(match[1]) for name in weights if (match := re.match(rf"{stack}\.(\d+)\.", name))]
