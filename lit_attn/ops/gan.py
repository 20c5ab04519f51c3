"""What do generator and discriminators of AttnGAN minimise? Their losses on logits, and the divergence of the condition.

Source: Xu et al. 2018, AttnGAN; Zhang et al. 2017, StackGAN, for the condition. The published code takes logarithms of
probabilities; logits give the same numbers and stay finite in half precision.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from lit_attn.errors import UserError

Logits = Float[Tensor, " b"]


class Mismatched(NamedTuple):
    """Pictures with captions of other pictures."""

    features: Float[Tensor, "m f y x"]
    sentence: Float[Tensor, "m d"]


def mismatched(features: Float[Tensor, "b f y x"], sentence: Float[Tensor, "b d"]) -> Mismatched:
    """Picture i with caption i + 1; the last picture has none. So one sample alone has no mismatch, and is refused."""
    if len(sentence) < 2:
        raise UserError(
            "A discriminator also learns from wrong captions, which are those of the next sample: a batch needs at least "
            f"2 samples, got {len(sentence)}. Raise batch_size, or drop the short last batch."
        )
    return Mismatched(features[:-1], sentence[1:])


def discriminator_loss(
    *,
    real: Logits,
    real_matched: Logits,
    real_mismatched: Float[Tensor, " m"],
    fake: Logits,
    fake_matched: Logits,
) -> Float[Tensor, ""]:
    """Half of what real pictures cost, alone and with their captions, and a third of what must be refused."""
    accepted = _says(real, True) + _says(real_matched, True)
    refused = _says(fake, False) + _says(fake_matched, False) + _says(real_mismatched, False)
    return accepted / 2 + refused / 3


def generator_loss(*, fake: Logits, fake_matched: Logits) -> Float[Tensor, ""]:
    """What it costs that one discriminator is not fooled, by the picture alone and with its caption."""
    return _says(fake, True) + _says(fake_matched, True)


def _says(logits: Float[Tensor, " n"], real: bool) -> Float[Tensor, ""]:
    wanted = torch.full_like(logits, float(real))
    return F.binary_cross_entropy_with_logits(logits, wanted)


def condition_divergence(mu: Float[Tensor, "b n"], logvar: Float[Tensor, "b n"]) -> Float[Tensor, ""]:
    """KL divergence from the standard normal, the mean over samples and also over dimensions, as published; in nats."""
    return -0.5 * (1 + logvar - mu.square() - logvar.exp()).mean()
