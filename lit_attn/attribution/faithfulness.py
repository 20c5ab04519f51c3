"""How far can an explanation be trusted? Perturbation, rank correlation with blank-out, and agreement with the known cause.

One value per sample of a subject, for each method, stream and measure:

- `positive_auc`: area under the probability of the explained class while items are taken away, highest scores first; low
  is faithful. `negative_auc`: lowest first; high is faithful.
- `blank_out_spearman`: rank correlation with blank-out over the items of a stream, in [-1, 1].
- `mass`, `pointing`, `average_precision` against the known cause, over all items of the streams that may hold it, with the
  level of chance beside each; see `truth`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.attribution import truth
from lit_attn.attribution.importance import spearman
from lit_attn.attribution.perturbation import LXMERT_STEPS, perturbation
from lit_attn.attribution.scores import Scores
from lit_attn.attribution.subject import Subject, probability

TRUTH_MEASURES = ("mass", "pointing", "average_precision")
CAUSE = "cause"
"""Stands for all streams that may hold the cause."""
CHANCE = "_chance"


class Value(NamedTuple):
    """What one measure says of one method, sample by sample; NaN where it says nothing."""

    method: str
    stream: str
    measure: str
    values: Float[Tensor, " b"]


def perturbed(subject: Subject, scores: Mapping[str, Scores], steps: Sequence[float] = LXMERT_STEPS) -> list[Value]:
    """Areas under both curves, for every method and stream. A sample without an item in a stream has none."""
    found = []
    for method, own in scores.items():
        for stream, mask in subject.items.items():
            if stream not in own.streams:
                continue
            for test in ("positive", "negative"):
                curve = perturbation(
                    lambda kept, stream=stream: probability(subject, {stream: kept}).double(),  # type: ignore[misc]
                    own.streams[stream],
                    mask,
                    test,
                    steps=steps,
                )
                found.append(Value(method, stream, f"{test}_auc", torch.where(mask.any(-1), curve.area, torch.nan)))
    return found


def correlated(subject: Subject, scores: Mapping[str, Scores], blanked: Scores) -> list[Value]:
    """Rank correlation of each method with blank-out."""
    return [
        Value(
            method,
            stream,
            "blank_out_spearman",
            spearman(own.streams[stream].double(), blanked.streams[stream].double(), mask),
        )
        for method, own in scores.items()
        for stream, mask in subject.items.items()
        if stream in own.streams
    ]


def against_cause(subject: Subject, scores: Mapping[str, Scores]) -> list[Value]:
    """Agreement with the known cause; nothing where none is known."""
    if not subject.causes:
        return []
    streams = list(subject.causes)
    cause, mask = joined(subject.causes, streams), joined(subject.items, streams)
    chance = truth.chance(cause, mask)
    found = []
    for method, own in scores.items():
        if not set(streams) <= set(own.streams):
            continue
        values = torch.cat([own.streams[stream].double() for stream in streams], 1)
        for measure in TRUTH_MEASURES:
            found.append(Value(method, CAUSE, measure, getattr(truth, measure)(values, cause, mask)))
            found.append(Value(method, CAUSE, measure + CHANCE, chance[measure]))
    return found


def joined(masks: Mapping[str, Bool[Tensor, "b _n"]], streams: Sequence[str]) -> Bool[Tensor, "b n"]:
    """Several streams as one row of items."""
    return torch.cat([masks[stream] for stream in streams], 1)
