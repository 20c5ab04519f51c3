"""What does a picture show, in words? The object-relation transformer (Herdade et al. 2019), for captions and paragraphs.

Regions with their boxes go through an encoder whose attention knows how boxes lie to each other; a decoder writes words.
Id 0 is START, END and padding at once. Deviations from the published code: any alignment function at any site; every
size is an argument; layers start with biases of their own instead of copies; regions are encoded once for all captions of
a picture; a picture without regions is allowed.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Alignment, Description, Setting, build_alignment
from lit_attn.nn.attention import KeyValue
from lit_attn.nn.transformer import DecoderLayer, EncoderLayer, LayerSizes, NormName, build_norm, positions
from lit_attn.ops import boxes as box_ops

Geometry = Literal["trigonometric", "raw"]
Capture = Literal["used", "raw_residual"]
BatchNormPlace = Literal["none", "before", "both"]

GEOMETRY_DIM = {"trigonometric": 64, "raw": 4}


@dataclass(frozen=True)
class DecoderState:
    """What is known after some words of `w` beams per picture."""

    memory: tuple[KeyValue, ...]
    """Per layer, the regions as keys and values."""
    region_mask: Bool[Tensor, "b r"]
    words: tuple[KeyValue, ...]
    """Per layer, the words so far, a row per beam; empty before the first."""
    length: int = 0

    def reordered(self, parents: Int[Tensor, "b w"]) -> "DecoderState":
        """Beam i goes on from beam `parents[:, i]`; the number of beams may change."""
        if not self.words:
            return self
        pictures, old_beams = len(parents), len(self.words[0].key) // len(parents)
        offset = torch.arange(pictures, device=parents.device).unsqueeze(1) * old_beams
        rows = (parents + offset).flatten()
        words = tuple(KeyValue(own.key[rows], own.value[rows]) for own in self.words)
        return DecoderState(self.memory, self.region_mask, words, self.length)


class Captioner(nn.Module):
    """Regions in, log-probabilities of words out."""

    def __init__(
        self,
        *,
        vocab_size: int,
        region_dim: int = 2048,
        dim: int = 512,
        num_heads: int = 8,
        hidden: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        alignment: str = "scaled_dot",
        encoder_alignment: str | None = None,
        decoder_alignment: str | None = None,
        cross_alignment: str | None = None,
        dropout: float = 0.1,
        region_dropout: float = 0.5,
        norm: NormName = "unbiased",
        geometry: Geometry = "trigonometric",
        legacy_extra_skip: bool = False,
        batch_norm: BatchNormPlace = "none",
        capture: Capture = "used",
        max_positions: int = 5000,
    ) -> None:
        """Args:
        alignment: Of every site; `encoder_alignment`, `decoder_alignment` and `cross_alignment` override it for one kind.
        dropout: In layers, on attention weights and on embedded words.
        region_dropout: On projected regions.
        norm: `unbiased` is the published layer norm, needed for published weights.
        legacy_extra_skip: The released self-critical weights were trained with it; nothing in a file tells.
        batch_norm: Around the projection of regions.
        capture: `raw_residual` adds sites `raw.…`, attention as the published probing code captured it.
        """
        super().__init__()
        if vocab_size < 2:
            raise UserError(f"A captioner needs END and at least one word, got vocab_size={vocab_size}.")
        if dim % 2:
            raise UserError(f"The width of a captioner must be even, got dim={dim}.")
        self.geometry = geometry
        self.num_heads = num_heads
        self.alignments = {
            "encoder": encoder_alignment or alignment,
            "decoder": decoder_alignment or alignment,
            "cross": cross_alignment or alignment,
        }
        sizes = LayerSizes(dim, num_heads, hidden, dropout, norm, capture == "raw_residual")
        before = [nn.BatchNorm1d(region_dim)] if batch_norm != "none" else []
        after = [nn.BatchNorm1d(dim)] if batch_norm == "both" else []
        self.project = nn.Sequential(*before, nn.Linear(region_dim, dim), nn.ReLU(), nn.Dropout(region_dropout), *after)
        self.encoder = nn.ModuleList(
            EncoderLayer(i, sizes, self.alignments["encoder"], GEOMETRY_DIM[geometry], legacy_extra_skip)
            for i in range(encoder_layers)
        )
        self.encoder_norm = build_norm(norm, dim)
        self.embed = nn.Embedding(vocab_size, dim)
        self.register_buffer("positions", positions(max_positions, dim), persistent=False)
        self.embed_drop = nn.Dropout(dropout)
        self.decoder = nn.ModuleList(
            DecoderLayer(i, sizes, self.alignments["decoder"], self.alignments["cross"]) for i in range(decoder_layers)
        )
        self.decoder_norm = build_norm(norm, dim)
        self.generator = nn.Linear(dim, vocab_size)
        for module in (self.encoder, self.decoder, self.embed, self.generator):
            for parameter in module.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)

    positions: Tensor

    @property
    def _decoder(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.decoder))

    def encode(
        self, regions: Float[Tensor, "b r f"], boxes: Float[Tensor, "b r 4"], region_mask: Bool[Tensor, "b r"]
    ) -> Float[Tensor, "b r d"]:
        """What the decoder sees of each picture. Boxes are embedded once for all layers."""
        x = regions.new_zeros(*regions.shape[:2], self.embed.embedding_dim)
        x = x.masked_scatter(region_mask.unsqueeze(-1), self.project(regions[region_mask]))
        geometry = box_ops.pair_geometry(boxes.masked_fill(~region_mask.unsqueeze(-1), 0.0))
        if self.geometry == "trigonometric":
            geometry = box_ops.sinusoids(geometry)
        for layer in self.encoder:
            x = layer(x, geometry, region_mask)
        return self.encoder_norm(x)

    def forward(
        self,
        regions: Float[Tensor, "b r f"],
        boxes: Float[Tensor, "b r 4"],
        region_mask: Bool[Tensor, "b r"],
        tokens: Int[Tensor, "c t"],
        owner: Int[Tensor, " c"],
    ) -> Float[Tensor, "c s v"]:
        """Log-probabilities of every next word: row i, of `s = t - 1`, has read words 0 to i and predicts word i + 1.

        Caption c belongs to picture `owner[c]`. Tokens are `[0, words, 0, padding]`.
        """
        memory = self.encode(regions, boxes, region_mask)[owner]
        read = tokens[:, :-1]
        word_mask = read > 0
        word_mask[:, 0] = True  # START shares its id with padding
        length = read.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        x = self._embed(read, self.positions[:length])
        for layer in self.decoder:
            x = layer(x, memory, word_mask, causal & word_mask.unsqueeze(1), region_mask[owner])
        return self._predict(x)

    def start(
        self, regions: Float[Tensor, "b r f"], boxes: Float[Tensor, "b r 4"], region_mask: Bool[Tensor, "b r"]
    ) -> DecoderState:
        """The state before the first word."""
        memory = self.encode(regions, boxes, region_mask)
        return DecoderState(tuple(layer.cross_attn.project(memory) for layer in self._decoder), region_mask, ())

    def step(self, last: Int[Tensor, "b w"], state: DecoderState) -> tuple[Float[Tensor, "b w v"], DecoderState]:
        """Log-probabilities of the next word after the last one of each beam."""
        x = self._embed(last, self.positions[state.length])
        words = []
        for i, layer in enumerate(self._decoder):
            before = state.words[i] if state.words else None
            x, own = layer.step(x, before, state.memory[i], state.region_mask)
            words.append(own)
        return self._predict(x), DecoderState(state.memory, state.region_mask, tuple(words), state.length + 1)

    def _embed(self, tokens: Int[Tensor, "c t"], place: Float[Tensor, "*t d"]) -> Float[Tensor, "c t d"]:
        return self.embed_drop(self.embed(tokens) * math.sqrt(self.embed.embedding_dim) + place)

    def _predict(self, x: Float[Tensor, "c t d"]) -> Float[Tensor, "c t v"]:
        return F.log_softmax(self.generator(self.decoder_norm(x)), dim=-1)

    def describe(self) -> Description:
        """Names, equivalence classes and size of the alignments; one word where all kinds of site have the same."""
        width = self.embed.embedding_dim // self.num_heads
        described = {kind: build_alignment(name, width).describe(Setting()) for kind, name in self.alignments.items()}
        total = sum(p.numel() for m in self.modules() if isinstance(m, Alignment) for p in m.parameters())
        return Description(
            _joined({kind: one.name for kind, one in described.items()}),
            _joined({kind: one.equivalence for kind, one in described.items()}),
            total,
        )


def _joined(names: dict[str, str]) -> str:
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return ", ".join(f"{kind} {name}" for kind, name in names.items())
