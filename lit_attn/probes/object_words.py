"""Do words attend to words for objects or to words for relations? Paper (b), question 2, and whether heads do one or the other.

The mean over words of their attention on earlier words with a tag of either set. The published maps do not say whether START
counts in the denominator, so both are given: `object_words` without it, `object_words_start` with it.
"""

from collections.abc import Mapping, Sequence

import torch
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.ops.correlation import pearson
from lit_attn.probes.part_of_speech import on_tags
from lit_attn.probes.probe import Finding, HeadValue, Probe
from lit_attn.probes.text import Align, attention_of, concerns, text_of

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
        return {
            "macro": HeadShares(site.num_heads, macro, quiet=macro[len(SETS) :]),
            "micro": HeadShares(site.num_heads, micro, quiet=micro),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        seen = found.sees.flatten()
        rows = on_tags(found, text, tuple(SETS.values())).permute(3, 0, 2, 1).flatten(1, 2)[:, seen]  # g x k
        wholes = [
            whole.double().transpose(1, 2).flatten(0, 1)[seen].expand_as(rows) for whole in (found.on_all, found.total)
        ]
        macro, micro = metrics["macro"], metrics["micro"]
        assert isinstance(macro, HeadShares)
        macro.add_items(torch.cat([shares.ratio(rows, whole) for whole in wholes]))
        sums = torch.cat([whole.sum(1) for whole in wholes])
        micro.update(rows.sum(1).repeat(2, 1), sums, seen.sum().double().expand(len(sums), 1))

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        found = []
        for one, two in (tuple(SETS), tuple(name + START for name in SETS)):
            for stack in dict.fromkeys(stack_of(site) for site in metrics):
                x, y = (_heads(values, name, stack, metrics) for name in (one, two))
                found.append(Finding(f"{one}, {two}", stack, *pearson(x, y)))
        return found


def stack_of(site: str) -> str:
    """`decoder.*.self` for `decoder.3.self`."""
    return ".".join("*" if part.isdigit() else part for part in site.split("."))


def _heads(values: Sequence[HeadValue], name: str, stack: str, sites: Mapping[str, object]) -> list[float]:
    return [v.value for v in values if v.metric == name and v.site in sites and stack_of(v.site) == stack]
