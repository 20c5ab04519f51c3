"""How are ViT and DeiT of Hugging Face heard? Patches and the tokens that stand before them attend as one sequence."""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Arguments, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of
from lit_attn.attribution.plan import Event, Target
from lit_attn.nn.tape import Part, Site

PREFIXES = {"vit": 1, "vit_msn": 1, "deit": 2}
"""Tokens before the patches: the class, and the teacher's class."""


@final
class VitAdapter(Adapter):
    """Sites `encoder.<i>.self` over the stream `image` with parts `class` and `patches`, row by row."""

    def __init__(self, model: nn.Module) -> None:
        heads = config_of(model).num_attention_heads
        spots = [
            Spot(name, (Site(f"encoder.{i}.self", "image", "image", heads),))
            for i, name in enumerate(layers(model, r"layers\.(\d+)\.attention"))
        ]
        super().__init__(model, spots, {"patches": path_of(model, r"embeddings\.patch_embeddings")})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("image", "image", spot.sites[0].name),) for spot in self.spots)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        return Target("image", 0 if row is None else row)

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)

    def parts(self, inputs: Arguments, length: int) -> tuple[Part, ...]:
        before = PREFIXES[config_of(self.model).model_type]
        return Part("class", 0, before), Part("patches", before, length)
