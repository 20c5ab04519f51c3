"""How well do the regions of a picture match the words of a caption? The formulas of DAMSM.

Source: Xu et al. 2018, "AttnGAN: Fine-Grained Text to Image Generation with Attentional Generative Adversarial Networks".
A region shares itself out over the words of a caption (softmax over words), then a word looks at the regions (softmax over
regions). As in the published code and unlike the paper, the pooled similarity is not divided by γ2. Deviation: all pairs at
once instead of a loop over captions. A caption without any word has no similarity: whoever makes batches refuses it.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.ops.align import NORM_FLOOR
from lit_attn.ops.normalize import masked_softmax


class MatchLoss(NamedTuple):
    """Cross-entropy of finding each picture's own caption, and each caption's own picture."""

    image_to_text: Float[Tensor, ""]
    text_to_image: Float[Tensor, ""]


def word_maps(
    regions: Float[Tensor, "b d y x"],
    words: Float[Tensor, "b t d"],
    word_mask: Bool[Tensor, "b t"],
    attention_sharpness: float = 4.0,
) -> Float[Tensor, "b t y x"]:
    """Where each word of caption i looks in picture i: sums to 1 over the picture, 0 on padding."""
    scores = words @ regions.flatten(2)  # b t r
    weights = _double_softmax(scores, word_mask, attention_sharpness)
    return torch.where(word_mask.unsqueeze(-1), weights, 0.0).unflatten(-1, regions.shape[2:])


def word_similarity(
    regions: Float[Tensor, "n d y x"],
    words: Float[Tensor, "c t d"],
    word_mask: Bool[Tensor, "c t"],
    attention_sharpness: float = 4.0,
    word_sharpness: float = 5.0,
    pair_sharpness: float = 10.0,
) -> Float[Tensor, "n c"]:
    """Logits of all pairs of pictures and captions by their words.

    Args:
        attention_sharpness: γ1, of the softmax over regions.
        word_sharpness: γ2, how much the best matched words of a caption count.
        pair_sharpness: γ3, of the finished logits.
    """
    flat = regions.flatten(2)  # n d r
    scores = torch.einsum("ctd,ndr->nctr", words, flat)
    weights = _double_softmax(scores, word_mask, attention_sharpness)
    context = weights.flatten(1, 2) @ flat.transpose(1, 2)  # n (c t) d
    # The product of a word with its context is the weighted mean of its products with the regions.
    product = (weights * scores).sum(-1)  # n c t
    lengths = words.norm(dim=-1) * context.norm(dim=-1).unflatten(1, words.shape[:2])
    cosine = product / lengths.clamp_min(NORM_FLOOR)
    return pair_sharpness * (word_sharpness * cosine).masked_fill(~word_mask, float("-inf")).logsumexp(-1)


def _double_softmax(
    scores: Float[Tensor, "*pairs c t r"], word_mask: Bool[Tensor, "c t"], sharpness: float
) -> Float[Tensor, "*pairs c t r"]:
    shares = masked_softmax(scores.transpose(-1, -2), word_mask.unsqueeze(-2))  # over words, for each region
    return masked_softmax(sharpness * shares.transpose(-1, -2))


def sentence_similarity(
    images: Float[Tensor, "n d"], sentences: Float[Tensor, "c d"], pair_sharpness: float = 10.0
) -> Float[Tensor, "n c"]:
    """Logits of all pairs of pictures and captions by their codes: γ3 times the cosine."""
    lengths = images.norm(dim=-1)[:, None] * sentences.norm(dim=-1)[None]
    return pair_sharpness * (images @ sentences.T) / lengths.clamp_min(NORM_FLOOR)


def match_loss(logits: Float[Tensor, "b b"], class_id: Int[Tensor, " b"] | None = None) -> MatchLoss:
    """Both cross-entropies of a square matrix whose diagonal holds the true pairs.

    With class ids, other samples of the same class are no wrong answers: they are left out.
    """
    own = torch.arange(len(logits), device=logits.device)
    if class_id is not None:
        same = (class_id[:, None] == class_id[None]) & (own[:, None] != own[None])
        logits = logits.masked_fill(same, float("-inf"))
    return MatchLoss(F.cross_entropy(logits, own), F.cross_entropy(logits.T, own))
