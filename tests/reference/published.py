"""The golden object-relation transformers as ours."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lit_attn.models.captioner import Captioner
from lit_attn.models.captioner_weights import convert, settings_of

GOLDEN = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[3] / "shared")) / "golden" / "ort"


def golden_file(name: str) -> Path:
    """A file of the golden folder; skips when it is absent."""
    file = GOLDEN / name
    if not file.exists():
        pytest.skip(f"{file} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
    return file


def published_net(name: str, *, dtype: torch.dtype = torch.float64, **options: object) -> Captioner:
    """`model_<name>.safetensors` in eval mode."""
    weights = convert(load_file(golden_file(f"model_{name}.safetensors")))
    settings = json.loads((GOLDEN / "model_settings.json").read_text())
    skip = settings.get(name, {}).get("legacy_extra_skip", False)
    net = Captioner(**(settings_of(weights) | {"legacy_extra_skip": skip} | options))
    net.load_state_dict(weights, strict=True)
    return net.to(dtype).eval()
