"""Which pairs of words stand in a relation of the papers? The later word attends to the earlier one.

Ilinykh and Dobnik (2021): from the head to its dependent for `det`, `compound` and `nummod` ("man" to "a"), from the dependent
to its head for `pobj` ("table" to "on") and `prep` ("with" to "bathroom"), the last also apart for heads that are nouns
and verbs. Pairs in the reverse order are left out: a causal model cannot see them.
"""

from lit_attn.types import Annotation

FROM_HEAD = ("det", "compound", "nummod")
FROM_DEPENDENT = ("pobj", "prep")
PREP_BY_HEAD = {"NOUN": "prep_noun", "VERB": "prep_verb"}
RELATIONS = (*FROM_HEAD, *FROM_DEPENDENT, *PREP_BY_HEAD.values())

Pair = tuple[int, int]
"""(row, column): the later word, which attends, and the earlier one."""


def relation_pairs(annotation: Annotation) -> dict[str, list[Pair]]:
    """The pairs of every relation, in the order of the text. Labels must be in the papers' style (`labels.papers_tree`)."""
    pairs: dict[str, list[Pair]] = {name: [] for name in RELATIONS}
    for dependent, (head, label) in enumerate(zip(annotation.heads, annotation.deps, strict=True)):
        if label in FROM_HEAD and dependent < head:
            pairs[label].append((head, dependent))
        elif label in FROM_DEPENDENT and head < dependent:
            pairs[label].append((dependent, head))
            if label == "prep" and annotation.pos[head] in PREP_BY_HEAD:
                pairs[PREP_BY_HEAD[annotation.pos[head]]].append((dependent, head))
    return pairs
