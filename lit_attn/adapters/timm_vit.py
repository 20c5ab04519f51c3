"""How is timm's ViT heard? Its blocks attend over patches and the tokens that stand before them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Arguments, Spot
from lit_attn.attribution.plan import Event, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Part, Site

ATTENTION = ("Attention", "AttentionRope")
"""timm's attention modules with one softmax over all tokens."""


@final
class TimmVitAdapter(Adapter):
    """Sites `encoder.<i>.self` over the stream `image` with parts `class` (and registers) and `patches`, row by row."""

    def __init__(self, model: nn.Module) -> None:
        spots, blocks = [], model.blocks
        assert isinstance(blocks, nn.Sequential)
        for i, block in enumerate(blocks):
            attention: Any = getattr(block, "attn", None)
            if type(attention).__name__ not in ATTENTION:
                raise UserError(
                    f"Block {i} of {type(model).__name__} is {type(block).__name__} with attention "
                    f"{type(attention).__name__}, which is not adapted. Adapted: {', '.join(ATTENTION)}."
                )
            site = Site(f"encoder.{i}.self", "image", "image", attention.num_heads)
            spots.append(Spot(f"blocks.{i}.attn", (site,), mask="attn_mask"))
        super().__init__(model, spots, {"patches": "patch_embed"})

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("image", "image", spot.sites[0].name),) for spot in self.spots)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        if row is None and self.model.global_pool != "token":
            raise UserError(
                f"This ViT pools its patches ({self.model.global_pool!r}), so no row is the output's own. Name a token: "
                "plan(row=token)."
            )
        return Target("image", 0 if row is None else row)

    @contextmanager
    def explicit(self) -> Iterator[None]:
        modules: list[Any] = [self.model.get_submodule(spot.module) for spot in self.spots]
        fused = [module.fused_attn for module in modules]
        for module in modules:
            module.fused_attn = False
        try:
            yield
        finally:
            for module, before in zip(modules, fused, strict=True):
                module.fused_attn = before

    def parts(self, inputs: Arguments, length: int) -> tuple[Part, ...]:
        network: Any = self.model
        before = network.num_prefix_tokens
        own = (Part("class", 0, before),) if before else ()
        return (*own, Part("patches", before, length))
