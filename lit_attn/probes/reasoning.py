"""Where does each reasoning step look, by kind of question? MAC's control, read and self-attention, step by step.

Entropy at every site; where cells of the picture are attended to and the batch knows what its answers rest on, the weight
on the causing cells and whether the strongest cell is one of them, with what uniform attention would score.
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
from lit_attn.types import QUESTION_KINDS, QuestionBatch


class Reasoning(Probe):
    """`step_entropy`, and at cells `cause_mass` and `cause_pointing` with their chance levels; by step and kind.

    Questions that nothing in the picture causes (a "no" to "is there …") have no part in the last four.

    Args:
        kinds: Kinds of question that are told apart.
    """

    def __init__(self, kinds: Sequence[str] = QUESTION_KINDS) -> None:
        self.kinds = tuple(kinds)

    def metrics(self, site: Site) -> dict[str, Metric]:
        if site.query_stream != "steps":
            return {}
        names = ["step_entropy"]
        if site.key_stream == "cells":
            names += ["cause_mass", "cause_mass_chance", "cause_pointing", "cause_pointing_chance"]
        return {name: StepMean(site.num_heads, site.calls, self.kinds) for name in names}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        assert isinstance(batch, QuestionBatch)
        weights, allowed = record.weights, record.key_mask.unsqueeze(1)
        steps = torch.tensor([record.call % record.site.calls], device=weights.device)
        values = {"step_entropy": distribution.normalized_entropy(weights, allowed)}
        if "cause_mass" in metrics and batch.causes is not None:
            values |= against_causes(weights, batch.causes[:, None, None], allowed)
        for name, rows in values.items():
            metrics[name].update(rows, steps, batch.kind)


def against_causes(
    weights: Float[Tensor, "b h q k"], causes: Bool[Tensor, "b 1 1 k"], allowed: Bool[Tensor, "b 1 #q k"]
) -> dict[str, Float[Tensor, "b h q"]]:
    """Mass on the causes and whether the strongest key is one, with what uniform attention scores; NaN without causes."""
    right = (causes & allowed).expand(weights.shape)
    caused = right.any(-1)
    chance = right.sum(-1).double() / allowed.sum(-1).clamp_min(1)
    found = {
        "cause_mass": distribution.mass(weights, right),
        "cause_mass_chance": chance,
        "cause_pointing": distribution.points_at(weights, right),
        "cause_pointing_chance": chance,
    }
    return {name: torch.where(caused, rows, torch.nan) for name, rows in found.items()}
