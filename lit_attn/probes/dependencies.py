"""Does a word attend to the word that it depends on, or that depends on it? Paper (a): the later word looks at the earlier one.

For det, compound and nummod the head looks at its dependent ("man" at "a"), for pobj and prep the dependent at its head ("table"
at "on", "with" at "bathroom"); prep is also split by whether that head is a noun or a verb. Pairs in the reverse order are
skipped. `rows` divides by all attention on words of the rows that have such a pair, `all` by that of all rows.
"""

from collections.abc import Mapping

import torch
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import table
from lit_attn.probes.probe import Probe
from lit_attn.probes.text import Align, Text, attention_of, concerns, text_of
from lit_attn.types import Annotation

FROM_HEAD = ("det", "compound", "nummod")
FROM_DEPENDENT = ("pobj", "prep")
SPLIT = {"NOUN": "prep_noun", "VERB": "prep_verb"}
RELATIONS = (*FROM_HEAD, *FROM_DEPENDENT, *SPLIT.values())


def pairs_of(annotation: Annotation, words: int) -> list[tuple[str, int, int]]:
    """Relation, later word, earlier word, among the first words of a text."""
    found = []
    for dependent, (head, label) in enumerate(zip(annotation.heads, annotation.deps, strict=True)):
        if max(dependent, head) >= words:
            continue
        if label in FROM_HEAD and dependent < head:
            found.append((label, head, dependent))
        if label in FROM_DEPENDENT and head < dependent:
            found.append((label, dependent, head))
            if label == "prep" and annotation.pos[head] in SPLIT:
                found.append((SPLIT[annotation.pos[head]], dependent, head))
    return found


class Dependencies(Probe):
    """`dep_det` and its like (denominator `rows`) and `dep_det_all` (denominator `all`), with their chance levels.

    Args:
        align: Where rows predict the next word, `predict` asks of the word being produced, `input` of the word just read.
    """

    def __init__(self, align: Align = "predict") -> None:
        self.align = align

    def metrics(self, site: Site) -> dict[str, Metric]:
        if not concerns(site, "words"):
            return {}
        rows, everything = [f"dep_{r}" for r in RELATIONS], [f"dep_{r}_all" for r in RELATIONS]
        return {
            "rows": HeadShares(site.num_heads, rows),
            "all": HeadShares(site.num_heads, everything, quiet=everything),
        }

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        pairs, rows = _listed(text)
        group, at = pairs[:, 0], pairs[:, 1:]
        usable = found.rows[at[:, 0], at[:, 1]]
        part = shares.summed(shares.at_pairs(found.weights, at[usable]), group[usable], len(RELATIONS))
        counts = torch.bincount(group[usable], minlength=len(RELATIONS)).double().unsqueeze(1)
        whole = found.on_all
        own = rows[found.rows[rows[:, 1], rows[:, 2]]]
        of_rows = shares.summed(whole[own[:, 1], :, own[:, 2]], own[:, 0], len(RELATIONS))
        metrics["rows"].update(part, of_rows, counts)
        metrics["all"].update(part, whole.sum((0, 2)).expand_as(part), counts)


def _listed(text: Text) -> tuple[torch.Tensor, torch.Tensor]:
    """Relation, text, later and earlier word of all pairs; and relation, text, word of the rows that have some."""
    if "dependencies" not in text.kept:
        pairs = [
            (RELATIONS.index(name), c, i, j)
            for c, annotation in enumerate(text.annotations)
            if annotation is not None
            for name, i, j in pairs_of(annotation, text.lengths[c])
        ]
        rows, device = sorted({pair[:3] for pair in pairs}), text.word_of.device
        text.kept["dependencies"] = table(pairs, 4, device), table(rows, 3, device)
    kept = text.kept["dependencies"]
    assert isinstance(kept, tuple)
    return kept
