"""How well does a caption match a picture? SCAN, stacked cross attention (Lee et al. 2018), with any alignment.

Deviations from the published code: all pairs at once instead of a loop over captions (see `ops.scan`); padding is
excluded everywhere; only the chosen alignment's parameters exist. `paper_layout_bug` reproduces an error of the
published alignment study and is off by default.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Description, Setting, build_alignment
from lit_attn.nn.encoders import RegionProjection, WordGru
from lit_attn.nn.tape import Site, is_heard, speak
from lit_attn.ops import scan
from lit_attn.ops.normalize import NORMALIZERS, SCALE_FREE

Direction = Literal["text_to_image", "image_to_text"]
NormalizerName = Literal["clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "softmax", "clipped", "no_norm"]
Pooling = Literal["mean", "sum", "max", "lse"]

CAPTIONS_AT_ONCE = 64
"""Captions of one length that are scored together: enough for an efficient product, few enough for the cache."""

SCRAMBLED = frozenset({"general_key", "biased_query", "biased_key", "activated"})
"""Functions that the published study computes in the wrong layout."""


class StackedCrossAttention(nn.Module):
    """Similarity of picture and caption from their word and region vectors."""

    def __init__(
        self,
        dim: int,
        alignment: str,
        direction: Direction,
        normalizer: NormalizerName,
        temperature: float,
        pooling: Pooling,
        sharpness: float,
        paper_layout_bug: bool,
        chunk_elements: int,
    ) -> None:
        super().__init__()
        if paper_layout_bug and direction != "text_to_image":
            raise UserError("paper_layout_bug exists for direction=text_to_image only; the study ran no other.")
        self.text_asks = direction == "text_to_image"
        self.site = Site("match", "words", "regions") if self.text_asks else Site("match", "regions", "words")
        self.alignment = build_alignment(alignment, dim)
        self.normalizer = NORMALIZERS[normalizer]
        self.setting = Setting(unit_length=True, scale_free=normalizer in SCALE_FREE, shift_free=False)
        self.temperature = temperature
        self.pooling = pooling
        self.sharpness = sharpness
        self.scrambled = paper_layout_bug and alignment in SCRAMBLED
        self.chunk_elements = chunk_elements

    def aligned(
        self,
        words: Float[Tensor, "c t d"],
        word_mask: Bool[Tensor, "c t"],
        regions: Float[Tensor, "c r d"],
        region_mask: Bool[Tensor, "c r"],
    ) -> Float[Tensor, " c"]:
        """Similarity of caption i with picture i by the explicit path; tells the tape what was attended to."""
        if self.text_asks:
            query, query_mask, key, key_mask = words, word_mask, regions, region_mask
        else:
            query, query_mask, key, key_mask = regions, region_mask, words, word_mask
        exists = query_mask.unsqueeze(-1) & key_mask.unsqueeze(-2)
        scores = self.alignment(query, key)
        # The recorded tensor is the one that is used, with its axis of heads: gradients reach nothing made after use.
        weights = self._weights(scores, exists, query_mask.sum(-1), query_axis=-2).unsqueeze(1)
        context = weights @ key.unsqueeze(1)
        if is_heard(self.site):
            speak(
                self.site,
                weights=weights,
                query_mask=query_mask,
                key_mask=key_mask.unsqueeze(1),
                value=key.unsqueeze(1),
                context=context,
            )
        return scan.pool(scan.relevance(query, context.squeeze(1)), query_mask, self.pooling, self.sharpness)

    def forward(
        self,
        words: Float[Tensor, "n d"],
        lengths: Int[Tensor, " c"],
        regions: Float[Tensor, "b r d"],
        region_mask: Bool[Tensor, "b r"],
    ) -> Float[Tensor, "b c"]:
        """Similarities of all pairs. The words of all captions follow each other without padding.

        Captions of the same length are scored together, against as many pictures at a time as `chunk_elements` allows.
        """
        aligned_words, aligned_regions, scale = self._transform(words, regions)
        same = aligned_words is words and aligned_regions is regions
        region_gram = regions @ regions.transpose(1, 2)
        padded = None if bool(region_mask.all()) else region_mask
        starts = lengths.cumsum(0) - lengths
        columns, order = [], []
        for length in lengths.unique().tolist():
            for chosen in (lengths == length).nonzero()[:, 0].split(CAPTIONS_AT_ONCE):
                position = starts[chosen, None] + torch.arange(length, device=words.device)
                own_words = words[position]
                own_aligned = None if same else aligned_words[position]
                pictures = max(1, self.chunk_elements // (position.numel() * regions.shape[1]))
                rows = []
                for i in range(0, len(regions), pictures):
                    part = slice(i, i + pictures)
                    products = self._products(own_words, regions[part])
                    scores = products if own_aligned is None else self._products(own_aligned, aligned_regions[part])
                    rows.append(
                        self._similarity(
                            products,
                            self.alignment.activate(scores if scale == 1.0 else scores * scale),
                            (own_words if self.text_asks else regions[part]).norm(dim=-1),
                            region_gram[part] if self.text_asks else own_words @ own_words.transpose(1, 2),
                            None if padded is None else padded[part],
                        )
                    )
                columns.append(torch.cat(rows))
                order.append(chosen)
        return torch.cat(columns, 1)[:, torch.cat(order).argsort()]

    def _products(self, words: Float[Tensor, "c t d"], regions: Float[Tensor, "b r d"]) -> Float[Tensor, "a q m k"]:
        """Dot products of all pairs, by who asks: `c t b r` or `b r c t`."""
        query, key = (words, regions) if self.text_asks else (regions, words)
        return (query.flatten(0, 1) @ key.flatten(0, 1).T).view(*query.shape[:2], *key.shape[:2])

    def _similarity(
        self,
        products: Float[Tensor, "a q m k"],
        scores: Float[Tensor, "a q m k"],
        query_norm: Float[Tensor, "a q"],
        key_gram: Float[Tensor, "m k k"],
        region_mask: Bool[Tensor, "b r"] | None,
    ) -> Float[Tensor, "b c"]:
        """All pairs of some captions of equal length and some pictures."""
        exists = query_mask = None
        if region_mask is not None and self.text_asks:
            exists = region_mask.expand(scores.shape)
        elif region_mask is not None:
            query_mask = region_mask[..., None]
            exists = query_mask[..., None].expand(scores.shape)
        weights = self._weights(scores, exists, None, query_axis=1)
        relevance = scan.relevance_from_gram(weights, products, query_norm, key_gram)
        similarity = scan.pool(relevance, query_mask, self.pooling, self.sharpness, query_axis=1)
        return similarity.T if self.text_asks else similarity

    def _weights(self, scores: Tensor, exists: Tensor | None, lengths: Tensor | None, query_axis: int) -> Tensor:
        if not self.scrambled:
            return scan.cross_attention(scores, exists, self.normalizer, self.temperature, query_axis)
        scores = scores.movedim(query_axis, -2)
        if lengths is None:
            lengths = torch.tensor(scores.shape[-2], device=scores.device)
        return scan.scrambled_attention(scores, lengths, self.normalizer, self.temperature).movedim(-2, query_axis)

    def _transform(self, words: Tensor, regions: Tensor) -> tuple[Tensor, Tensor, float]:
        if self.text_asks:
            return self.alignment.transform(words, regions)
        aligned_regions, aligned_words, scale = self.alignment.transform(regions, words)
        return aligned_words, aligned_regions, scale


class Scan(nn.Module):
    """Pictures as detected regions, captions as words, one similarity for every pair."""

    def __init__(
        self,
        *,
        vocab_size: int,
        region_dim: int = 2048,
        dim: int = 1024,
        word_dim: int = 300,
        alignment: str = "cosine",
        direction: Direction = "text_to_image",
        normalizer: NormalizerName = "clipped_l2norm",
        temperature: float = 9.0,
        pooling: Pooling = "mean",
        sharpness: float = 6.0,
        paper_layout_bug: bool = False,
        chunk_elements: int = 2**22,
    ) -> None:
        """Args:
        temperature: Factor on scores before the softmax over keys (λ; published: 9 text-to-image, 4 image-to-text).
        sharpness: Of `lse` pooling (μ; published: 6 text-to-image; image-to-text 5 on Flickr30K, 20 on COCO).
        paper_layout_bug: Reproduce the published study's mixed-up weights for the four functions it affects.
        chunk_elements: Word-region scores held at a time; bounds memory, changes no result.
        """
        super().__init__()
        self.image_encoder = RegionProjection(region_dim, dim)
        self.text_encoder = WordGru(vocab_size, word_dim, dim)
        self.matcher = StackedCrossAttention(
            dim, alignment, direction, normalizer, temperature, pooling, sharpness, paper_layout_bug, chunk_elements
        )

    def embed(
        self,
        regions: Float[Tensor, "b r f"],
        region_mask: Bool[Tensor, "b r"],
        tokens: Int[Tensor, "c t"],
        token_mask: Bool[Tensor, "c t"],
        owner: Int[Tensor, " c"] | None = None,
    ) -> tuple[Float[Tensor, "b r d"], Float[Tensor, "c t d"]]:
        """Region and word vectors. While a tape listens, it hears each caption attend to its own picture (`owner`)."""
        pictures = self.image_encoder(regions)
        words = self.text_encoder(tokens, token_mask)
        if owner is not None and is_heard(self.matcher.site):
            self.matcher.aligned(words, token_mask, pictures[owner], region_mask[owner])
        return pictures, words

    def forward(
        self,
        regions: Float[Tensor, "b r f"],
        region_mask: Bool[Tensor, "b r"],
        tokens: Int[Tensor, "c t"],
        token_mask: Bool[Tensor, "c t"],
        owner: Int[Tensor, " c"] | None = None,
    ) -> Float[Tensor, "b c"]:
        """Similarities of all pairs of pictures and captions."""
        pictures, words = self.embed(regions, region_mask, tokens, token_mask, owner)
        return self.matcher(words[token_mask], token_mask.sum(-1), pictures, region_mask)

    def describe(self) -> Description:
        """Name, equivalence class and size of the alignment in this network."""
        return self.matcher.alignment.describe(self.matcher.setting)
