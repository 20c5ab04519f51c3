"""How are BERT and its relatives heard? Layers over one stream of text, each of which attends to itself.

The first token is the one that classifiers read, so it is the row that plans ask about unless told otherwise. A masked
language model answers from the row of the mask: `plan(row=position)`.

Relatives with other attention are not here: DeBERTa adds scores of content and position, ConvBERT mixes convolutions,
Longformer and BigBird see windows, Nystromformer and its kind only approximate their weights.
"""

from contextlib import AbstractContextManager
from typing import final

from torch import nn

from lit_attn.adapters.adapter import Adapter, Spot
from lit_attn.adapters.hugging_face import config_of, eager, layers, path_of, refuse_cross_attention
from lit_attn.attribution.plan import Event, Target
from lit_attn.nn.tape import Site

BERT_LIKE = (
    *("bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "megatron-bert", "roberta-prelayernorm"),
    *("data2vec-text", "layoutlm", "markuplm", "rembert", "roc_bert", "splinter", "xlm-roberta-xl", "xmod"),
    *("bert-generation", "tapas"),
)
"""Families whose layers are `encoder.layer.<i>.attention.self`."""
PATHS = {
    **dict.fromkeys(BERT_LIKE, r"encoder\.layer\.(\d+)\.attention\.self"),
    "distilbert": r"transformer\.layer\.(\d+)\.attention",
    "mpnet": r"encoder\.layer\.(\d+)\.attention\.attn",
}
FAMILIES = (*PATHS, "albert")


@final
class EncoderAdapter(Adapter):
    """Sites `encoder.<i>.self` over the stream `text`."""

    def __init__(self, model: nn.Module) -> None:
        refuse_cross_attention(model)
        spots = _albert(model) if config_of(model).model_type == "albert" else _stack(model)
        super().__init__(model, spots, {"text": path_of(model, r"(?:.*embeddings\.)word_embeddings")})
        self.depth = sum(len(spot.sites) for spot in spots)

    def groups(self) -> tuple[tuple[Event, ...], ...]:
        return tuple((Event("text", "text", f"encoder.{i}.self"),) for i in range(self.depth))

    def target(self, row: int | tuple[int, ...] | None) -> Target:
        return Target("text", 0 if row is None else row)

    def explicit(self) -> AbstractContextManager[None]:
        return eager(self.model)


def _site(model: nn.Module, layer: int) -> Site:
    return Site(f"encoder.{layer}.self", "text", "text", config_of(model).num_attention_heads)


def _stack(model: nn.Module) -> list[Spot]:
    names = layers(model, PATHS[config_of(model).model_type])
    return [Spot(name, (_site(model, i),)) for i, name in enumerate(names)]


def _albert(model: nn.Module) -> list[Spot]:
    """ALBERT runs the same few modules again and again."""
    config = config_of(model)
    top = path_of(model, "albert_layer_groups")
    turns: dict[str, list[Site]] = {}
    for layer in range(config.num_hidden_layers):
        group = layer * config.num_hidden_groups // config.num_hidden_layers
        for inner in range(config.inner_group_num):
            name = f"{top}.{group}.albert_layers.{inner}.attention"
            turns.setdefault(name, []).append(_site(model, layer * config.inner_group_num + inner))
    return [Spot(name, tuple(sites)) for name, sites in turns.items()]
