"""What is minimised? Losses as pure functions of scores.

Sources: SCAN (Lee et al. 2018) and VSE++ (Faghri et al. 2018) for the hinge with hardest negatives; Szegedy et al. (2016)
for smoothed labels; Rennie et al. (2017) for the reward loss; M4C (Hu et al. 2020) for answers with several right tokens.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def matching_hinge(scores: Float[Tensor, "n n"], margin: float = 0.2, hardest: bool = True) -> Float[Tensor, ""]:
    """Hinge loss of a square score matrix whose diagonal holds the true pairs, summed over rows and columns.

    Every other entry of a row or column is a negative; with `hardest`, only the largest violation of each counts.
    """
    own = scores.diagonal()
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    by_row = (margin + scores - own[:, None]).clamp_min(0).masked_fill(diagonal, 0)
    by_column = (margin + scores - own[None, :]).clamp_min(0).masked_fill(diagonal, 0)
    if hardest:
        return by_row.amax(1).sum() + by_column.amax(0).sum()
    return by_row.sum() + by_column.sum()


def next_word_loss(
    logprobs: Float[Tensor, "c t v"],
    target: Int[Tensor, "c t"],
    mask: Bool[Tensor, "c t"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Cross-entropy over the words in `mask`; with smoothing, the divergence from labels that share it out.

    The right word keeps 1 - smoothing, all others share the rest evenly; the entropy of these labels is subtracted.
    """
    right = logprobs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    loss = -right
    if smoothing:
        others = logprobs.shape[-1] - 1
        share = smoothing / others
        label_entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(share)
        loss = -(1 - smoothing) * right - share * (logprobs.sum(-1) - right) - label_entropy
    return torch.where(mask, loss, 0.0).sum() / mask.sum()


def reward_loss(
    logprobs: Float[Tensor, "n t"], tokens: Int[Tensor, "n t"], reward: Float[Tensor, "n #t"]
) -> Float[Tensor, ""]:
    """Policy gradient: minus reward times log-probability, the mean over all drawn words and their ENDs (id 0)."""
    drawn = torch.cat([torch.ones_like(tokens[:, :1], dtype=torch.bool), tokens[:, :-1] > 0], 1)
    return -torch.where(drawn, logprobs * reward, 0.0).sum() / drawn.sum()


def multilabel_decoding(
    scores: Float[Tensor, "b s n"], targets: Float[Tensor, "b s n"], step_mask: Bool[Tensor, "b s"]
) -> Float[Tensor, ""]:
    """Binary cross-entropy of every token at every step, summed over tokens, the mean over the steps in `step_mask`.

    A token that scores -inf does not exist and costs nothing. Without any step the loss is 0.
    """
    counts = step_mask.unsqueeze(-1) & (scores != float("-inf"))
    # Masked before the cross-entropy: 0 times infinity would be NaN, in the loss or in its gradient.
    losses = F.binary_cross_entropy_with_logits(scores.masked_fill(~counts, 0.0), targets, reduction="none")
    return torch.where(counts, losses, 0.0).sum() / step_mask.sum().clamp_min(1)


def cross_entropy_with_set(
    weights: Float[Tensor, "c k"], wanted: Bool[Tensor, "c k"], rest: float = 0.0
) -> Float[Tensor, ""]:
    """Cross-entropy of attention with an even share for each wanted key, the mean over rows that want any; in nats.

    All other keys together have `rest` times the share of one wanted key, evenly: then what is left for them tells how many
    keys are wanted, and a row that wants none has its say, too. 0 if no row has one. A weight of exactly 0 counts as the
    smallest positive number.
    """
    others = (~wanted).sum(-1, keepdim=True).clamp_min(1).to(weights.dtype)
    shares = torch.where(wanted, torch.ones_like(others), rest / others)
    chosen = shares.sum(-1) > 0
    logs = weights[chosen].clamp_min(torch.finfo(weights.dtype).tiny).log()
    rows = -(logs * shares[chosen]).sum(-1) / shares[chosen].sum(-1)
    return rows.sum() / chosen.sum().clamp_min(1)
