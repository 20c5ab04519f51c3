"""Tiny random networks of every family that is adapted, with inputs of different sizes in one batch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import timm
import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

VOCABULARY = 29
SMALL = {
    "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17,
    "vocab_size": VOCABULARY, "max_position_embeddings": 40, "pad_token_id": 0,
}  # fmt: skip


@dataclass
class World:
    """A network, a batch of three samples, and how to run one sample alone."""

    net: nn.Module
    inputs: dict[str, Tensor]
    sites: list[str]
    streams: set[str]
    row: int | tuple[int, ...] | None
    read: Callable[[Any], Tensor]
    """The output to scores `b v`, or `b n v` of which the row is meant."""
    cut: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Inputs that end earlier along axis 1 when a sample stands alone, and where."""
    shared: tuple[str, ...] = ()
    """Inputs that are the same for all samples."""
    maps: Callable[[Any], list[Tensor]] | None = None
    """The maps that the network itself returns, in the order of `mapped`."""
    mapped: list[str] = field(default_factory=list)

    def alone(self, sample: int) -> dict[str, Tensor]:
        """One sample's inputs without padding."""
        own = {k: v if k in self.shared else v[sample : sample + 1] for k, v in self.inputs.items()}
        return {k: v[:, : self.cut[k][sample]] if k in self.cut else v for k, v in own.items()}

    def row_of(self, sample: int) -> int | tuple[int, ...] | None:
        return (self.row[sample],) if isinstance(self.row, tuple) else self.row

    def scores(self, output: Any, sample: int | None = None) -> Tensor:
        """Scores `b v` at the row that is asked about."""
        scores = self.read(output)
        row = self.row if sample is None else self.row_of(sample)
        if scores.dim() == 2:
            return scores
        return scores[torch.arange(len(scores)), torch.as_tensor(row).expand(len(scores))]


LENGTHS = (7, 3, 5)
BOXES = (4, 4, 2)


def ids(*lengths: int) -> dict[str, Tensor]:
    """Random tokens, padded, and which of them exist."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return {
        "input_ids": torch.randint(5, VOCABULARY, mask.shape).where(mask, 0),
        "attention_mask": mask.long(),
    }


def spread(net: nn.Module) -> nn.Module:
    """Weights large enough that attention is not uniform; float64, evaluation."""
    for parameter in net.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.4)
    return net.double().eval()


def names(*kinds: str, layers: int = 2) -> list[str]:
    return [f"{kind.split('.')[0]}.{i}.{kind.split('.')[1]}" for i in range(layers) for kind in kinds]


def first(output: Any) -> Tensor:
    """Features of the first row."""
    return output[0][:, 0]


TEXT = {"input_ids": LENGTHS, "attention_mask": LENGTHS}


def text(kind: str) -> World:
    """A relative of BERT without a head."""
    config = AutoConfig.for_model(kind)
    for name, value in SMALL.items():
        setattr(config, name, value)
    if kind in ("albert", "electra"):
        config.embedding_size = 8
    if kind == "albert":
        config.num_hidden_layers, config.num_hidden_groups, config.inner_group_num = 4, 2, 1
    if kind == "xmod":
        config.default_language = config.languages[0]
    layers = config.num_hidden_layers
    sites = names("encoder.self", layers=layers)
    return World(
        spread(AutoModel.from_config(config)), ids(*LENGTHS), sites, {"text"}, None, first, TEXT,
        maps=lambda output: list(output.attentions), mapped=sites,
    )  # fmt: skip


def distilbert() -> World:
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=12, n_heads=3, n_layers=2, hidden_dim=17, max_position_embeddings=20
    )
    sites = names("encoder.self")

    return World(
        spread(transformers.DistilBertForMaskedLM(config)), ids(*LENGTHS), sites, {"text"}, (4, 1, 2),
        lambda output: output.logits, TEXT, maps=lambda output: list(output.attentions), mapped=sites,
    )  # fmt: skip


def gpt2() -> World:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=12, n_head=3, n_layer=2, n_positions=20)
    sites = names("decoder.self")

    return World(
        spread(transformers.GPT2LMHeadModel(config)), ids(*LENGTHS), sites, {"text"}, (6, 2, 4),
        lambda output: output.logits, TEXT, maps=lambda output: list(output.attentions), mapped=sites,
    )  # fmt: skip


def vit(kind: str) -> World:
    config = AutoConfig.for_model(kind)
    for name, value in {**SMALL, "image_size": 12, "patch_size": 4}.items():
        setattr(config, name, value)
    heads = {"vit": "ViT", "deit": "DeiT", "vit_msn": "ViTMSN"}
    net = spread(getattr(transformers, heads[kind] + "ForImageClassification")(config))
    sites = names("encoder.self")
    return World(
        net, {"pixel_values": torch.randn(3, 3, 12, 12).double()}, sites, {"class", "patches"}, None,
        lambda output: output.logits, maps=lambda output: list(output.attentions), mapped=sites,
    )  # fmt: skip


def timm_vit() -> World:
    net = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=12,
        patch_size=4,
        embed_dim=12,
        depth=2,
        num_heads=3,
        num_classes=5,
        reg_tokens=1,
    )
    images = {"x": torch.randn(3, 3, 12, 12).double()}
    return World(spread(net), images, names("encoder.self"), {"class", "patches"}, None, lambda output: output)


def visual_bert() -> World:
    config = transformers.VisualBertConfig(**SMALL, visual_embedding_dim=11, num_labels=5)
    words = ids(*LENGTHS)
    boxes = torch.arange(4) < torch.tensor(BOXES)[:, None]
    inputs = {
        **words,
        "visual_embeds": torch.randn(3, 4, 11).double(),
        "visual_attention_mask": boxes.long(),
        "token_type_ids": torch.zeros(3, 7, dtype=torch.long),
    }
    net = spread(transformers.VisualBertForQuestionAnswering(config))
    cut = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), LENGTHS)
    cut |= dict.fromkeys(("visual_embeds", "visual_attention_mask"), BOXES)
    sites = names("encoder.self")
    return World(
        net, inputs, sites, {"text", "image"}, (5, 1, 3), lambda output: output.logits, cut,
        maps=lambda output: list(output.attentions), mapped=sites,
    )  # fmt: skip


def lxmert() -> World:
    config = transformers.LxmertConfig(
        vocab_size=VOCABULARY, hidden_size=12, num_attention_heads=3, intermediate_size=17, num_qa_labels=5,
        visual_feat_dim=11, l_layers=2, r_layers=1, x_layers=2, max_position_embeddings=20,
    )  # fmt: skip
    boxes = torch.arange(4) < torch.tensor(BOXES)[:, None]
    inputs = {
        **ids(*LENGTHS),
        "token_type_ids": torch.zeros(3, 7, dtype=torch.long),
        "visual_feats": torch.randn(3, 4, 11).double(),
        "visual_pos": torch.rand(3, 4, 4).double(),
        "visual_attention_mask": boxes.long(),
    }
    cut = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), LENGTHS)
    cut |= dict.fromkeys(("visual_feats", "visual_pos", "visual_attention_mask"), BOXES)
    crossed = ("language", "visual", "language_self", "visual_self")
    sites = [
        "language.0.self",
        "language.1.self",
        "visual.0.self",
        *(f"cross.{i}.{k}" for i in range(2) for k in crossed),
    ]
    mapped = ["language.0.self", "language.1.self", "visual.0.self", "cross.0.language", "cross.1.language"]
    return World(
        spread(transformers.LxmertForQuestionAnswering(config)), inputs, sites, {"text", "image"}, None,
        lambda output: output.question_answering_score, cut,
        maps=lambda output: [
            *output.language_attentions, *output.vision_attentions, *output.cross_encoder_attentions
        ],
        mapped=mapped,
    )  # fmt: skip


def detr() -> World:
    backbone = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 5, 6, 7], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        backbone_config=backbone, num_queries=5,
        d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
        encoder_ffn_dim=17, decoder_ffn_dim=17, num_labels=4,
    )  # fmt: skip
    pixel_mask = torch.ones(3, 64, 96, dtype=torch.long)
    pixel_mask[1, :, 64:] = 0
    pixel_mask[2, 32:] = 0
    sites = [*names("encoder.self"), *names("decoder.self", "decoder.cross")]
    mapped = [*names("encoder.self"), *names("decoder.self"), *names("decoder.cross")]
    return World(
        spread(transformers.DetrForObjectDetection(config)),
        {"pixel_values": torch.randn(3, 3, 64, 96).double(), "pixel_mask": pixel_mask}, sites, {"image", "queries"},
        (2, 0, 4),
        lambda output: output.logits,
        maps=lambda output: [*output.encoder_attentions, *output.decoder_attentions, *output.cross_attentions],
        mapped=mapped,
    )  # fmt: skip


def transformer() -> World:
    net = nn.Transformer(12, 2, 2, 2, 17, batch_first=True, norm_first=True)
    mask = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
    inputs = {
        "src": torch.randn(3, 7, 12).double(),
        "tgt": torch.randn(3, 4, 12).double(),
        "src_key_padding_mask": ~mask,
        "memory_key_padding_mask": ~mask,
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64),
    }
    sites = [*names("encoder.self"), *names("decoder.self", "decoder.cross")]
    cut = dict.fromkeys(("src", "src_key_padding_mask", "memory_key_padding_mask"), LENGTHS)
    return World(spread(net), inputs, sites, {"source", "target"}, 3, lambda output: output, cut, ("tgt_mask",))


WORLDS: dict[str, Callable[[], World]] = {
    "bert": lambda: text("bert"), "roberta": lambda: text("roberta"), "electra": lambda: text("electra"),
    "albert": lambda: text("albert"), "distilbert": distilbert, "gpt2": gpt2, "vit": lambda: vit("vit"),
    "deit": lambda: vit("deit"), "vit_msn": lambda: vit("vit_msn"), "timm": timm_vit,
    "visual_bert": visual_bert, "lxmert": lxmert, "detr": detr,
    "transformer": transformer,
}  # fmt: skip
