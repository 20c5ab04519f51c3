"""What does M4C look at when it writes a word of an answer? The decoder's rows of the joint sequence, step by step.

How a row splits over the question, the objects, the OCR tokens and what is written already; its entropy; and, where they
are known, the weight on the objects and tokens that cause the answer, and the place of the right OCR token.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.step_mean import StepMean
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.probe import Probe
from lit_attn.probes.reasoning import against_causes
from lit_attn.types import ReadingBatch

PARTS = ("question", "objects", "ocr", "decoded")
SPLIT = {part: f"{part}_mass" for part in PARTS}
CAUSES = ("cause_mass", "cause_mass_chance", "cause_pointing", "cause_pointing_chance")
RANKS = ("ocr_rank", "ocr_rank_chance")


class ReadingAttention(Probe):
    """By decoding step, kind of question and head:

    `question_mass`, `objects_mass`, `ocr_mass`, `decoded_mass`: how a row splits; they sum to 1. `step_entropy`.
    `cause_mass`: weight on the objects and OCR tokens that cause the answer. `cause_pointing`: whether the strongest of all
    objects and OCR tokens is one of them. `ocr_rank`: place, from 1, of the best right OCR token among all OCR tokens, at
    the first step; right are those that some answer begins with. Each with its chance level.

    Args:
        kinds: Kinds of question that are told apart.
        steps: Decoding steps that are told apart; later ones are left out.
    """

    def __init__(self, kinds: Sequence[str] = (), steps: int = 3) -> None:
        self.kinds = tuple(kinds)
        self.steps = steps

    def metrics(self, site: Site) -> dict[str, Metric]:
        if site.query_stream != "joint":
            return {}
        names = (*SPLIT.values(), "step_entropy", *CAUSES, *RANKS)
        return {name: StepMean(site.num_heads, self.steps, self.kinds) for name in names}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, ReadingBatch)
        written = record.part("decoded")
        weights = record.weights[:, :, written]  # b h s k
        allowed = record.key_mask.expand(-1, record.weights.shape[2], -1)[:, written].unsqueeze(1)  # b 1 s k
        exists = record.query_mask[:, None, written]
        values = {name: weights[..., record.part(part)].sum(-1) for part, name in SPLIT.items()}
        values["step_entropy"] = distribution.normalized_entropy(weights, allowed)
        causes = _seen_causes(record, batch)
        if causes is not None:
            values |= _causes(weights, causes, allowed, _seen(record, weights))
        values |= _ranks(weights[..., record.part("ocr")], batch)
        steps = torch.arange(weights.shape[2], device=weights.device)
        kinds = batch.kind or ("",) * len(batch)
        for name, rows in values.items():
            metrics[name].update(torch.where(exists, rows, torch.nan), steps, kinds)


def _seen(record: AttentionRecord, weights: Float[Tensor, "b h s k"]) -> Bool[Tensor, " k"]:
    """Columns of what is in the picture: objects and OCR tokens."""
    seen = torch.zeros(weights.shape[-1], dtype=torch.bool, device=weights.device)
    for part in ("objects", "ocr"):
        seen[record.part(part)] = True
    return seen


def _seen_causes(record: AttentionRecord, batch: ReadingBatch) -> Bool[Tensor, "b 1 1 k"] | None:
    if batch.region_causes is None or batch.ocr_causes is None:
        return None
    causes = torch.zeros(len(batch), record.weights.shape[-1], dtype=torch.bool, device=record.weights.device)
    causes[:, record.part("objects")] = batch.region_causes
    causes[:, record.part("ocr")] = batch.ocr_causes
    return causes[:, None, None]


def _causes(
    weights: Float[Tensor, "b h s k"],
    causes: Bool[Tensor, "b 1 1 k"],
    allowed: Bool[Tensor, "b 1 s k"],
    seen: Bool[Tensor, " k"],
) -> dict[str, Float[Tensor, "b h s"]]:
    """Mass among all columns, pointing among what is in the picture."""
    pictured = against_causes(weights.masked_fill(~seen, 0.0), causes, allowed & seen)
    return against_causes(weights, causes, allowed) | {
        name: rows for name, rows in pictured.items() if name.startswith("cause_pointing")
    }


def _ranks(weights: Float[Tensor, "b h s o"], batch: ReadingBatch) -> dict[str, Float[Tensor, "b h s"]]:
    """At the first step; later ones depend on what was written, so that no token is right for all answers."""
    tokens = weights.shape[-1]
    if not tokens:
        return {}
    right = batch.targets[:, 0, -tokens:] > 0
    rank = distribution.rank_of(weights, right[:, None, None], batch.ocr_mask[:, None, None])
    chance = distribution.chance_rank(right, batch.ocr_mask)[:, None, None].expand(rank.shape)
    first = torch.arange(weights.shape[2], device=weights.device) == 0
    return {name: torch.where(first, rows, torch.nan) for name, rows in zip(RANKS, (rank, chance), strict=True)}
