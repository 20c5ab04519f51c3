"""How concentrated is attention at any site?"""

from collections.abc import Mapping

import torch
from torchmetrics import Metric

from lit_attn.metrics.concentration import EffectiveKeys, HeadDiversity, LargestWeight, NormalizedEntropy, PaddingMass
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.probe import Probe
from lit_attn.probes.rows import chosen_rows


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
        if record.query_mask.all():
            weights, allowed = record.weights, record.key_mask
        else:
            weights, allowed = chosen_rows(record, record.query_mask)
        exists = torch.ones(len(weights), weights.shape[2], dtype=torch.bool, device=weights.device)
        entropy = distribution.entropy(weights)
        for metric in metrics.values():
            metric.update(weights, exists, allowed, entropy)
