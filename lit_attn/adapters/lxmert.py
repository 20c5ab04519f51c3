"""How is LXMERT heard? Words and boxes in layers of their own, then in layers in which each reads the other.

The library returns neither what boxes read of words nor the self-attention inside the cross layers; all of it is heard
here. A cross layer has one module for both directions, which run in parallel from the old values: words read boxes in its
first call, boxes read words in its second. Then each stream attends to itself.

The library cannot run without boxes, which the last step of a perturbation test asks for. Here it can: whoever reads no
boxes gets a context of 0, as in the original code.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, final

import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor, nn

from lit_attn.adapters.adapter import Adapter, Arguments, Spot, named_arguments
from lit_attn.adapters.hugging_face import config_of, layers, path_of
from lit_attn.attribution.plan import Event, Target
from lit_attn.nn.tape import Site

STREAMS = {"language": "text", "visual": "image"}


@final
class LxmertAdapter(Adapter):
    """Streams `text` and `image`; sites `language.<i>.self`, `visual.<i>.self`, and in cross layers `cross.<i>.language`
    (words read boxes), `cross.<i>.visual`, `cross.<i>.language_self`, `cross.<i>.visual_self`."""

    def __init__(self, model: nn.Module) -> None:
        heads = config_of(model).num_attention_heads

        def site(name: str, query: str, key: str) -> Site:
            return Site(name, STREAMS[query], STREAMS[key], heads)

        spots = []
        for kind, folder in (("language", "layer"), ("visual", "r_layers")):
            for i, name in enumerate(layers(model, rf"encoder\.{folder}\.(\d+)\.attention\.self")):
                spots.append(Spot(name, (site(f"{kind}.{i}.self", kind, kind),)))
        singles = tuple(spot.sites[0] for spot in spots)
        crosses = layers(model, r"encoder\.x_layers\.(\d+)")
        for i, name in enumerate(crosses):
            both = (
                site(f"cross.{i}.language", "language", "visual"),
                site(f"cross.{i}.visual", "visual", "language"),
            )
            spots.append(Spot(f"{name}.visual_attention.att", both))
            for kind, module in (("language", "lang_self_att"), ("visual", "visn_self_att")):
                spots.append(Spot(f"{name}.{module}.self", (site(f"cross.{i}.{kind}_self", kind, kind),)))
        own = {
            "text": path_of(model, r"embeddings\.word_embeddings"),
            "image": path_of(model, r"encoder\.visn_fc"),
        }
        super().__init__(model, spots, own)
        self.singles, self.depth = singles, len(crosses)

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        single = [(Event(site.query_stream, site.key_stream, site.name),) for site in self.singles]
        crossed = [
            pair
            for i in range(self.depth)
            for pair in (
                (Event("text", "image", f"cross.{i}.language"), Event("image", "text", f"cross.{i}.visual")),
                (Event("text", "text", f"cross.{i}.language_self"), Event("image", "image", f"cross.{i}.visual_self")),
            )
        ]
        return (*single, *crossed)

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        return Target("text", 0 if row is None else row)

    def explicit(self) -> AbstractContextManager[None]:
        return nullcontext()  # it always is

    def known_masks(self, inputs: Arguments) -> dict[str, Bool[Tensor, "b n"]]:
        given = {"text": inputs.get("attention_mask"), "image": inputs.get("visual_attention_mask")}
        return {stream: mask != 0 for stream, mask in given.items() if mask is not None}

    def forward(self, *given: Any, **named: Any) -> Any:
        boxes = named_arguments(self.model.forward, given, named).get("visual_feats")
        with without_boxes(self.model) if boxes is not None and boxes.shape[1] == 0 else nullcontext():
            return super().forward(*given, **named)


@contextmanager
def without_boxes(model: nn.Module) -> Iterator[None]:
    """Inside, attention runs even where there is nothing to attend to."""
    with ExitStack() as stack:
        for module in model.modules():
            if type(module).__name__ == "LxmertAttention":
                module.forward = _attention_of(module)
                stack.callback(module.__dict__.pop, "forward")
        yield


def _attention_of(module: Any) -> Any:
    """The module's attention with sizes given in full: -1 stands for no size where there is nothing."""

    def split(features: Tensor) -> Tensor:
        return features.unflatten(-1, (module.num_attention_heads, module.attention_head_size)).transpose(1, 2)

    def forward(
        hidden_states: Tensor, context: Tensor, attention_mask: Tensor | None = None, output_attentions: bool = False
    ) -> tuple[Tensor, ...]:
        query, key, value = split(module.query(hidden_states)), split(module.key(context)), split(module.value(context))
        scores = query @ key.mT / module.attention_head_size**0.5
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = F.softmax(scores, dim=-1)
        read = (module.dropout(weights) @ value).transpose(1, 2).flatten(2)
        return (read, weights) if output_attentions else (read,)

    return forward
