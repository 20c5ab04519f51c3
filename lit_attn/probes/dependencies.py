"""Does a word attend to the word that it depends on, or that depends on it? Paper (a): the later word looks at the earlier one.

For det, compound and nummod the head looks at its dependent ("man" at "a"), for pobj and prep the dependent at its head ("table"
at "on", "with" at "bathroom"); prep is also split by whether that head is a noun or a verb. Pairs in the reverse order are
skipped. `rows` divides by all attention on words of the rows that have such a pair, `all` by that of all rows.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from lit_attn.metrics.head_shares import HeadShares
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops import shares
from lit_attn.probes.places import joined, table
from lit_attn.probes.probe import Probe
from lit_attn.probes.text import Text, text_of
from lit_attn.probes.words import Align, WordAttention, attention_of, concerns
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
        return {"shares": HeadShares(site.num_heads, rows + everything, quiet=everything)}

    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        text = text_of(batch)
        found = attention_of(record, text, self.align, "words")
        told = found.shared("told dependencies", lambda: _told(text, found.rows))

        def part(attention: WordAttention) -> Float[Tensor, "g h"]:
            return shares.summed(shares.at_pairs(attention.weights, told.pairs), told.relation, len(RELATIONS))

        def whole(attention: WordAttention) -> Float[Tensor, "g h"]:
            on_all = attention.on_all[told.rows[:, 0], told.rows[:, 1]]
            return shares.summed(on_all, told.row_relation, len(RELATIONS))

        parts = found.with_even("dependencies", part)
        rows = found.with_even("rows of dependencies", whole)
        everything = found.with_even("on all", lambda attention: attention.on_all.sum((0, 1))).expand_as(parts)
        metrics["shares"].update(torch.cat([parts, parts]), torch.cat([rows, everything]), told.counts.repeat(2, 1))


class _Told(NamedTuple):
    """The pairs whose later word has a row: text, later and earlier word; the rows that have some: text and word; the relation
    of each, and how many pairs there are of every relation."""

    pairs: Int[Tensor, "p 3"]
    relation: Int[Tensor, " p"]
    rows: Int[Tensor, "x 2"]
    row_relation: Int[Tensor, " x"]
    counts: Float[Tensor, "g 1"]


def _told(text: Text, has_row: Bool[Tensor, "c n"]) -> _Told:
    pairs, rows = (listed[has_row[listed[:, 0], listed[:, 2]]] for listed in _listed(text))
    counts = torch.bincount(pairs[:, 1], minlength=len(RELATIONS)).double().unsqueeze(1)
    return _Told(pairs[:, [0, 2, 3]], pairs[:, 1], rows[:, [0, 2]], rows[:, 1], counts)


def _listed(text: Text) -> tuple[Int[Tensor, "p 4"], Int[Tensor, "x 3"]]:
    """Text, relation, later and earlier word of all pairs; and text, relation, word of the rows that have some."""

    def own(c: int, annotation: Annotation) -> tuple[Int[np.ndarray, "p 3"], Int[np.ndarray, "x 2"]]:
        pairs = [(RELATIONS.index(name), i, j) for name, i, j in pairs_of(annotation, text.lengths[c])]
        return table(pairs, 3), table(sorted({pair[:2] for pair in pairs}), 2)

    def made() -> tuple[Int[Tensor, "p 4"], Int[Tensor, "x 3"]]:
        pairs, rows = zip(*text.each(own), strict=True)
        return torch.from_numpy(joined(pairs, 3)).to(text.device), torch.from_numpy(joined(rows, 2)).to(text.device)

    return text.table("dependencies", made)
