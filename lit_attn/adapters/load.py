"""Which foreign networks can be explained, and how are they named? As objects, as folders, or as ids of a hub.

    adapt(model)                      # an object
    load("hf:path/to/folder")         # config.json and model.safetensors of Hugging Face
    load("hf:google-bert/bert-base-uncased")
    load("timm:vit_tiny_patch16_224")

Nothing that is downloaded runs as code: networks are built by the installed libraries, Hugging Face weights of a hub are read
from safetensors alone, and timm reads weights only. Weights must be complete; what is missing would be random.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from lit_attn.adapters import causal, encoder, vit
from lit_attn.adapters.adapter import Adapter
from lit_attn.adapters.causal import CausalAdapter
from lit_attn.adapters.detr import DetrAdapter
from lit_attn.adapters.encoder import EncoderAdapter
from lit_attn.adapters.gpt2 import Gpt2Adapter
from lit_attn.adapters.lxmert import LxmertAdapter
from lit_attn.adapters.multihead import MultiheadAdapter, Streams
from lit_attn.adapters.timm_vit import TimmVitAdapter
from lit_attn.adapters.visual_bert import VisualBertAdapter
from lit_attn.adapters.vit import VitAdapter
from lit_attn.attribution.capture import bare_net
from lit_attn.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

HUGGING_FACE: dict[str, Callable[[nn.Module], Adapter]] = {
    **dict.fromkeys(encoder.FAMILIES, EncoderAdapter),
    **dict.fromkeys(vit.PREFIXES, VitAdapter),
    "visual_bert": VisualBertAdapter,
    "lxmert": LxmertAdapter,
    "detr": DetrAdapter,
    "gpt2": Gpt2Adapter,
    **dict.fromkeys(causal.FAMILIES, CausalAdapter),
}
"""By the `model_type` of a network's config."""

WINDOWS = (
    "attends within windows that shift from layer to layer: a map of all positions does not exist, so that rollout and its "
    "kind mean nothing"
)
POINTS = "attends to a few sampled points between cells: weights on cells do not exist, so that rollout and its kind mean nothing"
REFUSED = {
    **dict.fromkeys(("swin", "swinv2", "swin2sr", "maskformer-swin", "donut-swin"), WINDOWS),
    **dict.fromkeys(("deformable_detr", "rt_detr", "rt_detr_v2", "d_fine", "grounding-dino", "mask2former"), POINTS),
    **dict.fromkeys(("mm-grounding-dino", "oneformer", "omdet-turbo", "lw_detr", "rf_detr", "deta"), POINTS),
}
"""Families without weights between all positions, and why that is."""
ELSE = "Explain it by input gradients or perturbation instead."


@dataclass(frozen=True)
class Loaded:
    """A network that can be explained, and what prepares its inputs."""

    net: Adapter
    processor: Any = None
    """The tokenizer, image processor or transform that came with it; None if there was none."""


def adapt(model: nn.Module, *, streams: Streams | None = None) -> Adapter:
    """A foreign network as one that speaks to tapes and has a plan.

    Args:
        streams: For `nn.MultiheadAttention` outside of `nn.Transformer`; see `multihead`.
    """
    bare = bare_net(model)
    if isinstance(bare, Adapter):
        return bare
    kind, name = _model_type(bare), type(bare).__name__
    _refuse(kind or name, name)
    if streams is not None and (kind is not None or _is_timm_vit(bare)):
        raise UserError(f"{name} has known streams; `streams` is for networks with nn.MultiheadAttention.")
    if kind is not None:
        if kind not in HUGGING_FACE:
            raise UserError(_unknown(kind))
        return HUGGING_FACE[kind](bare)
    if _is_timm_vit(bare):
        return TimmVitAdapter(bare)
    if any(isinstance(module, nn.MultiheadAttention) for module in bare.modules()):
        return MultiheadAdapter(bare, streams)
    raise UserError(
        f"{name} is no network whose attention can be heard. Adapted are timm's VisionTransformer, whatever contains "
        f"nn.MultiheadAttention, and of Hugging Face {', '.join(HUGGING_FACE)}. {ELSE}"
    )


def load(name: str) -> Loaded:
    """A network by name: `hf:FOLDER`, `hf:HUB_ID`, `timm:FOLDER` or `timm:NAME`."""
    library, colon, rest = name.partition(":")
    loaders = {"hf": _from_hugging_face, "timm": _from_timm}
    if not colon or not rest or library not in loaders:
        raise UserError(f"{name!r} names no network. Expected hf:FOLDER, hf:HUB_ID, timm:FOLDER or timm:NAME.")
    return loaders[library](rest)


def _from_hugging_face(name: str) -> Loaded:
    import transformers

    folder = Path(name).expanduser()
    local = folder.is_dir()
    source = str(folder) if local else name
    try:
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(_unreachable("hf", name, "config.json and model.safetensors", error)) from error
    _refuse(config.model_type, config.model_type)
    if config.model_type not in HUGGING_FACE:
        raise UserError(_unknown(config.model_type))
    kind = _network_class(config)
    safe = not local or any(folder.glob("*.safetensors"))
    try:
        model, report = kind.from_pretrained(
            source, attn_implementation="eager", use_safetensors=safe, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        raise UserError(_unreachable("hf", name, "config.json and model.safetensors", error)) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(
            f"The weights of {name!r} lack {', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}, which would be "
            "random. Use a network that was trained as a whole, or adapt(model) for one in memory."
        )
    return Loaded(adapt(model.eval()), _processor(source, folder if local else None, config.model_type))


def _network_class(config: Any) -> Any:
    """The class that the weights were saved from, or the network without a head."""
    import transformers

    for name in config.architectures or ():
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    return transformers.AutoModel


def _processor(source: str, folder: Path | None, kind: str) -> Any:
    import transformers

    sees = kind in vit.PREFIXES or kind == "detr"
    files = (
        ("preprocessor_config.json",)
        if sees
        else ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json")
    )
    if folder is not None and not any((folder / file).exists() for file in files):
        return None
    reader = transformers.AutoImageProcessor if sees else transformers.AutoTokenizer
    try:
        return reader.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        log.warning("No tokenizer or image processor could be read from %s: %s", source, error)
        return None


def _from_timm(name: str) -> Loaded:
    import timm

    folder = Path(name).expanduser()
    local = folder.is_dir()
    if local and not (folder / "model.safetensors").exists():
        raise UserError(f"The folder {name!r} holds no model.safetensors, and other files are not read.")
    if not local and not name.startswith("hf-hub:") and not timm.is_model(name):
        raise UserError(f"timm has no network {name!r}.{did_you_mean(name, timm.list_models())}")
    _refuse(name, name)
    try:
        model = timm.create_model(f"local-dir:{folder}" if local else name, pretrained=True)
    except (OSError, RuntimeError) as error:
        raise UserError(_unreachable("timm", name, "config.json and model.safetensors", error)) from error
    return Loaded(adapt(model.eval()), _transform(model))


def _transform(model: nn.Module) -> Any:
    """How pictures were prepared in training, without chance."""
    data: Any = import_module("timm.data")
    return data.create_transform(**data.resolve_model_data_config(model), is_training=False)


def _model_type(model: nn.Module) -> str | None:
    kind = getattr(getattr(model, "config", None), "model_type", None)
    return kind if isinstance(kind, str) and kind else None


def _is_timm_vit(model: nn.Module) -> bool:
    return any(
        base.__name__ == "VisionTransformer" and base.__module__.startswith("timm.") for base in type(model).__mro__
    )


def _refuse(kind: str, name: str) -> None:
    reason = REFUSED.get(kind)
    if reason is None and "swin" in kind.lower():
        reason = WINDOWS
    if reason is None and "deformable" in kind.lower():
        reason = POINTS
    if reason is not None:
        raise UserError(f"{name} {reason}. {ELSE}")


def _unknown(kind: str) -> str:
    return (
        f"Networks of type {kind!r} are not adapted.{did_you_mean(kind, HUGGING_FACE)} "
        f"Adapted: {', '.join(HUGGING_FACE)}. {ELSE}"
    )


def _unreachable(library: str, name: str, files: str, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return (
        f"{name!r} cannot be loaded: {first} Without a network, name a local folder that holds {files}: "
        f"{library}:path/to/folder."
    )
