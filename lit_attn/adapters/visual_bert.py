"""How is VisualBERT heard? Words and boxes attend as one sequence; records say which positions are which."""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Arguments, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Part, Site


@final
class VisualBertAdapter(Adapter):
    """Sites `encoder.<i>.self` over the stream `joint` with parts `text` and `image`."""

    def __init__(self, model: nn.Module) -> None:
        config = config_of(model)
        if config.bypass_transformer:
            raise UserError(
                "VisualBERT with bypass_transformer adds pictures after its layers, which its plan does not know. Use a "
                "model without it."
            )
        names = layers(model, r"encoder\.layer\.(\d+)\.attention\.self")
        sites = [Site(f"encoder.{i}.self", "joint", "joint", config.num_attention_heads) for i in range(len(names))]
        spots = [Spot(name, (site,)) for name, site in zip(names, sites, strict=True)]
        own = {"text": "word_embeddings", "image": "visual_projection"}
        super().__init__(model, spots, {part: path_of(model, rf"embeddings\.{name}") for part, name in own.items()})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("joint", "joint", spot.sites[0].name),) for spot in self.spots)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None and type(self.model).__name__.endswith("ForQuestionAnswering"):
            raise UserError(
                "This VisualBERT answers from the last but one token of each question. Name it: "
                "plan(row=(length - 2, …)), one number per sample."
            )
        return Target("joint", 0 if row is None else row, part="text")

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)

    def parts(self, inputs: Arguments, length: int) -> tuple[Part, ...]:
        pictures = inputs.get("visual_embeds")
        words = length if pictures is None else length - pictures.shape[1]
        return Part("text", 0, words), Part("image", words, length)
