"""Do words attend to words for objects or to words for relations? Paper (b), question 2, and whether heads do one or the other.

The mean over words of their attention on earlier words with a tag of either set. The published maps do not say whether START
counts in the denominator, so both are given: `object_words` without it, `object_words_start` with it.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops.correlation import pearson
from lit_attn.probes.part_of_speech import members
from lit_attn.probes.probe import Finding, HeadValue, Probe, stack_of
from lit_attn.probes.text import text_of
from lit_attn.probes.words import Align, WordAttention, attention_of, concerns

SETS = {"object_words": ("DET", "ADJ", "NOUN"), "relation_words": ("VERB", "ADP")}
START = "_start"


class ObjectWords(Probe):
    """`object_words`, `relation_words`, the same with `_start` and with `_micro` (ratio of sums), each with its chance level; and
    the correlation of the two over all heads.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
    """

    def __init__(self, align: Align = "predict") -> None:
        self.align = align

    def metrics(self, site: Site) -> dict[str, Metric]:
        if not concerns(site, "words"):
            return {}
        macro = [*SETS, *(name + START for name in SETS)]
        micro = [f"{name}_micro" for name in macro]
        return {"shares": HeadShares(site.num_heads, macro + micro, quiet=macro[len(SETS) :] + micro)}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        found = attention_of(record, text_of(batch), self.align, "words")
        mean, counts, parts, wholes = found.with_even("object words", _asked)
        seen = found.sees.sum().double().expand_as(counts)
        metrics["shares"].update(torch.cat([mean, parts]), torch.cat([counts, wholes]), torch.cat([counts, seen]))

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        found = []
        for one, two in (tuple(SETS), tuple(name + START for name in SETS)):
            for stack in dict.fromkeys(stack_of(site) for site in metrics):
                x, y = (_heads(values, name, stack, metrics) for name in (one, two))
                found.append(Finding(f"{one}, {two}", stack, *pearson(x, y)))
        return found


def _asked(found: WordAttention) -> Float[Tensor, "4 g h"]:
    """Over all words that see a word: sums of their shares, counts of these, sums of parts and of wholes; without START, then
    with it."""
    rows = found.by_tag[found.sees]  # x t h
    part = members(found.text.tags[0], tuple(SETS.values()), rows) @ rows[:, :-1]  # x g h
    whole = torch.stack([rows[:, -1], found.total.transpose(1, 2)[found.sees].double()]).unsqueeze(2)  # start x 1 h
    each = (part / whole).nan_to_num(nan=0.0)  # nothing of nothing
    sums = [each.sum(1), (whole > 0).sum(1), part.sum(0).expand(2, -1, -1), whole.sum(1)]
    return torch.stack([one.expand_as(sums[0]).flatten(0, 1) for one in sums])


def _heads(values: Sequence[HeadValue], name: str, stack: str, sites: Mapping[str, object]) -> list[float]:
    return [v.value for v in values if v.metric == name and v.site in sites and stack_of(v.site) == stack]
