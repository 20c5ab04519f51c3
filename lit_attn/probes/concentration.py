"""How concentrated is attention at any site?"""

from collections.abc import Mapping

import torch
from torchmetrics import Metric

from lit_attn.metrics.head_mean import HeadMean
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import distribution
from lit_attn.probes.probe import Probe
from lit_attn.probes.rows import chosen_rows, existing


class Concentration(Probe):
    """At any site, means over the rows that exist:

    `entropy`: over the log of the number of allowed keys, in [0, 1]: 0 one key, 1 even. Rows with a single key are left out.
    `entropy_nats`: not divided by anything, from 0 to the log of the number of keys; rows with a single key count as 0.
    `effective_keys`: exp(entropy_nats), the number of keys that share the attention, from 1 to the number of keys.
    `largest_weight`: of the strongest key, in [0, 1].
    `padding_mass`: weight on keys that were not allowed. Anything but 0 is a bug in a mask.
    `head_diversity`, with several heads: mean Jensen-Shannon divergence from the other heads, in [0, 1]: 0 all agree.
    """

    def metrics(self, site: Site) -> dict[str, Metric]:
        names = ["entropy", "entropy_nats", "effective_keys", "largest_weight", "padding_mass", "head_diversity"]
        return {"rows": HeadMean(site.num_heads, names if site.num_heads > 1 else names[:-1])}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        rows = existing(record)
        if rows is None:
            weights, allowed = record.weights, record.key_mask.unsqueeze(1)
        else:
            weights, by_row = chosen_rows(record, rows)
            allowed = by_row.unsqueeze(1)
        entropy, keys = distribution.entropy(weights), allowed.sum(-1)
        largest = distribution.largest_weight(weights)
        nats = torch.where(largest > 0, entropy, torch.nan)  # an empty row has none
        found = [
            distribution.normalized(entropy, keys),
            nats,
            distribution.effective_keys(nats),
            largest,
            torch.zeros_like(entropy) if keys.eq(allowed.shape[-1]).all() else distribution.mass(weights, ~allowed),
        ]
        if record.site.num_heads > 1:
            found.append(distribution.head_divergence(weights, entropy))
        metrics["rows"].update(torch.stack(found))
