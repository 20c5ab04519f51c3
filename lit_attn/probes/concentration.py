"""How concentrated is attention at any site?"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.concentration import EffectiveKeys, HeadDiversity, LargestWeight, NormalizedEntropy, PaddingMass
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.probe import Probe


class Concentration(Probe):
    """Entropy, effective number of keys, largest weight, mass on padding and, with several heads, their diversity."""

    def metrics(self, site: Site) -> dict[str, Metric]:
        found: dict[str, Metric] = {
            "entropy": NormalizedEntropy(site.num_heads),
            "effective_keys": EffectiveKeys(site.num_heads),
            "largest_weight": LargestWeight(site.num_heads),
            "padding_mass": PaddingMass(site.num_heads),
        }
        if site.num_heads > 1:
            found["head_diversity"] = HeadDiversity(site.num_heads)
        return found

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        weights, exists, allowed = _existing(record)
        entropy = distribution.entropy(weights)
        for metric in metrics.values():
            metric.update(weights, exists, allowed, entropy)


def _existing(
    record: AttentionRecord,
) -> tuple[Float[Tensor, "b h q k"], Bool[Tensor, "b q"], Bool[Tensor, "b #q k"]]:
    """Weights and masks; rows of padding are dropped where there are some, and the others become samples of one row."""
    if record.query_mask.all():
        return record.weights, record.query_mask, record.key_mask
    weights = record.weights.transpose(1, 2)[record.query_mask].unsqueeze(2)
    allowed = record.key_mask.expand(-1, record.query_mask.shape[1], -1)[record.query_mask].unsqueeze(1)
    return weights, torch.ones_like(allowed[..., 0]), allowed
