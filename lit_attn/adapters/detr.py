"""How is DETR heard? Cells of the picture attend to each other, then object queries to each other and to the cells."""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Site


@final
class DetrAdapter(Adapter):
    """Streams `image`, cells row by row, and `queries`; sites `encoder.<i>.self`, `decoder.<i>.self`,
    `decoder.<i>.cross`."""

    def __init__(self, model: nn.Module) -> None:
        config = config_of(model)
        spots = [
            Spot(name, (Site(f"encoder.{i}.self", "image", "image", config.encoder_attention_heads),))
            for i, name in enumerate(layers(model, r"encoder\.layers\.(\d+)\.self_attn"))
        ]
        for i, name in enumerate(layers(model, r"decoder\.layers\.(\d+)")):
            for kind, key, module in (("self", "queries", "self_attn"), ("cross", "image", "encoder_attn")):
                site = Site(f"decoder.{i}.{kind}", "queries", key, config.decoder_attention_heads)
                spots.append(Spot(f"{name}.{module}", (site,)))
        super().__init__(model, spots, {"image": path_of(model, "input_projection")})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        sites = [spot.sites[0] for spot in self.spots]
        return tuple((Event(site.query_stream, site.key_stream, site.name),) for site in sites)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None:
            raise UserError("DETR answers from every query. Name one: plan(row=query), such as the surest one.")
        return Target("queries", row)

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)
