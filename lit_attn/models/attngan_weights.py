"""How are the published weights of AttnGAN and DAMSM called here? Names of both sides, and sizes.

Published files come from `taoxugit/AttnGAN`: one for the generator, one for each encoder. Files of old versions of torch
have no step counters of batch norm; ours then begin at 0, as torch's own loading does.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.models.attngan import START_SIDE

Kind = Literal["generator", "text", "image"]
MARKS: dict[str, Kind] = {"ca_net.fc.weight": "generator", "encoder.weight": "text", "emb_features.weight": "image"}
"""A tensor that only this kind of file has."""

_NORM = r"(weight|bias|running_mean|running_var|num_batches_tracked)"
_RULES: dict[Kind, tuple[tuple[str, str], ...]] = {
    "generator": (
        (r"ca_net\.fc\.(weight|bias)", r"condition.proj.\1"),
        (r"h_net1\.fc\.0\.weight", r"first.proj.weight"),
        (rf"h_net1\.fc\.1\.{_NORM}", r"first.norm.\1"),
        (r"h_net1\.upsample(\d+)\.1\.weight", r"first.doublings.<\1-1>.gated.conv.weight"),
        (rf"h_net1\.upsample(\d+)\.2\.{_NORM}", r"first.doublings.<\1-1>.gated.norm.\2"),
        (r"h_net(\d+)\.att\.conv_context\.weight", r"later.<\1-2>.attention.proj.weight"),
        (r"h_net(\d+)\.residual\.(\d+)\.block\.0\.weight", r"later.<\1-2>.residuals.\2.gated.conv.weight"),
        (rf"h_net(\d+)\.residual\.(\d+)\.block\.1\.{_NORM}", r"later.<\1-2>.residuals.\2.gated.norm.\3"),
        (r"h_net(\d+)\.residual\.(\d+)\.block\.3\.weight", r"later.<\1-2>.residuals.\2.conv.weight"),
        (rf"h_net(\d+)\.residual\.(\d+)\.block\.4\.{_NORM}", r"later.<\1-2>.residuals.\2.norm.\3"),
        (r"h_net(\d+)\.upsample\.1\.weight", r"later.<\1-2>.doubling.gated.conv.weight"),
        (rf"h_net(\d+)\.upsample\.2\.{_NORM}", r"later.<\1-2>.doubling.gated.norm.\2"),
        (r"img_net(\d+)\.img\.0\.weight", r"pictures.<\1-1>.weight"),
    ),
    "text": (
        (r"encoder\.weight", r"embed.weight"),
        (r"rnn\.((?:weight|bias)_(?:ih|hh)_l0(?:_reverse)?)", r"lstm.\1"),
    ),
    "image": (
        (r"emb_features\.weight", r"to_regions.weight"),
        (r"emb_cnn_code\.(weight|bias)", r"to_image.\1"),
        (r"((?:Conv2d|Mixed)_\w+\..+)", r"trunk.\1"),
    ),
}
"""Published name to ours; `<n-1>` is counted down: they number from 1, and stages with attention from 2."""

_WRAPPED = "module."
"""Before every name of a network that was saved inside DataParallel."""


def kind_of(published: Mapping[str, Tensor]) -> Kind:
    """Which network a published file holds."""
    names = [name.removeprefix(_WRAPPED) for name in published]
    found = [kind for mark, kind in MARKS.items() if mark in names]
    if len(found) != 1:
        listed = ", ".join(names[:3]) or "nothing"
        raise UserError(
            "This is neither a generator of AttnGAN nor an encoder of DAMSM, which have one of the tensors "
            f"{', '.join(MARKS)}. It begins with {listed}."
        )
    return found[0]


def our_name(kind: Kind, published: str) -> str:
    """Our name of a published tensor inside its network."""
    for pattern, ours in _RULES[kind]:
        if match := re.fullmatch(pattern, published):
            return re.sub(r"<(\d+)-(\d+)>", lambda pair: str(int(pair[1]) - int(pair[2])), match.expand(ours))
    raise UserError(f"The tensor {published!r} is not one of a published {_described(kind)}.")


def convert(published: Mapping[str, Tensor]) -> tuple[Kind, dict[str, Tensor]]:
    """Which network it is, and its tensors by our names."""
    kind = kind_of(published)
    found = {our_name(kind, name.removeprefix(_WRAPPED)): tensor for name, tensor in published.items()}
    for name in list(found):
        if name.endswith(".attention.proj.weight"):  # a 1 x 1 convolution there
            found[name] = found[name].flatten(1)
        if name.endswith(".running_mean"):
            found.setdefault(name.replace("running_mean", "num_batches_tracked"), torch.tensor(0))
    return kind, found


def settings_of(kind: Kind, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Sizes and options that the shapes of converted weights tell."""
    try:
        match kind:
            case "generator":
                return _generator_settings(weights)
            case "text":
                vocab_size, word_dim = weights["embed.weight"].shape
                dim = 2 * weights["lstm.weight_hh_l0_reverse"].shape[1]
                return {"vocab_size": vocab_size, "word_dim": word_dim, "dim": dim}
            case "image":
                return {"dim": len(weights["to_image.weight"]), "encoder": "inception"}
    except KeyError as error:
        raise UserError(f"These are not all weights of a published {_described(kind)}: {error} is missing.") from error


def _generator_settings(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    pictures = _count(weights, r"pictures\.(\d+)\.")
    first = START_SIDE * 2 ** _count(weights, r"first\.doublings\.(\d+)\.")
    condition, text_dim = weights["condition.proj.weight"].shape
    width = weights["pictures.0.weight"].shape[1]
    return {
        "text_dim": text_dim,
        "z_dim": weights["first.proj.weight"].shape[1] - condition // 4,
        "condition_dim": condition // 4,
        "width": width,
        "sides": [first * 2**i for i in range(pictures)],
        "residuals": _count(weights, r"later\.0\.residuals\.(\d+)\."),
        "alignment": "dot",
    }


def _count(weights: Mapping[str, Tensor], pattern: str) -> int:
    return 1 + max((int(match[1]) for name in weights if (match := re.match(pattern, name))), default=-1)


def _described(kind: Kind) -> str:
    return "generator of AttnGAN" if kind == "generator" else f"{kind} encoder of DAMSM"
