"""How are language models like Llama heard? Layers `layers.<i>.self_attn` over words that see the words before them.

SmolLM2 is one of them. Where several query heads share keys and values, each query head is a head.
"""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Site

FAMILIES = ("llama", "mistral", "qwen2")


@final
class CausalAdapter(Adapter):
    """Sites `decoder.<i>.self` over the stream `text`."""

    def __init__(self, model: nn.Module) -> None:
        heads = config_of(model).num_attention_heads
        spots = [
            Spot(name, (Site(f"decoder.{i}.self", "text", "text", heads, predicts=True),))
            for i, name in enumerate(layers(model, r"layers\.(\d+)\.self_attn"))
        ]
        super().__init__(model, spots, {"text": path_of(model, "embed_tokens")})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("text", "text", spot.sites[0].name),) for spot in self.spots)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None:
            raise UserError("A language model answers from every word. Name the one before it: plan(row=place).")
        return Target("text", row)

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)
