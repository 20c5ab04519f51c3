"""How is GPT-2 heard? Layers over words that see the words before them; the row of word i predicts word i + 1.

Records say what each word may see, so that methods know attention to be causal. A pass over a whole text is heard, not
its generation word by word.
"""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of, refuse_cross_attention
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Site


@final
class Gpt2Adapter(Adapter):
    """Sites `decoder.<i>.self` over the stream `text`."""

    def __init__(self, model: nn.Module) -> None:
        refuse_cross_attention(model)
        heads = config_of(model).num_attention_heads
        spots = [
            Spot(name, (Site(f"decoder.{i}.self", "text", "text", heads, predicts=True),))
            for i, name in enumerate(layers(model, r"h\.(\d+)\.attn"))
        ]
        super().__init__(model, spots, {"text": path_of(model, "wte")})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("text", "text", spot.sites[0].name),) for spot in self.spots)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None:
            raise UserError("GPT-2 answers from every word. Name the one before the word in question: plan(row=place).")
        return Target("text", row)

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)
