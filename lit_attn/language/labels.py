"""How does a tree in Universal style become one of the papers' style? Here and nowhere else.

The papers' probes were made for the labels of spaCy's English pipelines (ClearNLP: `prep`, `pobj`, `dobj`, `attr` …). Universal
Dependencies hang function words on content words: "on" is the `case` of "table". So more than names must change:

1. Copulas: "the box is red": "is" becomes the head, "red" its `acomp` (a noun: `attr`); what belongs to the clause goes along,
   but what an adjective governs stays ("full of books").
2. Prepositions: "on" takes the place of "table" as a `prep`, and "table" becomes its `pobj`. Several ("out of") make a chain; the
   "'s" of a possessor stays `case`; the "by" of a passive becomes `agent`. In "capable of asking", which has no subject of its
   own, "of" becomes a `prep` and the verb its `pcomp`.
3. Names: in "Ada Lovelace" (`flat`) the last word becomes the head and the others its `compound`.
4. All other labels are renamed; a label without a counterpart becomes `dep`.

`papers_tree` does all of it, and leaves trees alone that are in the papers' style already.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Style = Literal["universal", "papers"]

NOMINAL = frozenset(("NOUN", "PROPN", "PRON", "NUM", "SYM"))
RENAMED = {
    "root": "ROOT", "obj": "dobj", "iobj": "dative", "obl": "npadvmod", "nsubj:pass": "nsubjpass", "csubj:pass": "csubjpass",
    "aux:pass": "auxpass", "compound:prt": "prt", "acl:relcl": "relcl", "det:predet": "predet", "cc:preconj": "preconj",
    "nmod:poss": "poss", "discourse": "intj", "vocative": "npadvmod", "fixed": "dep", "flat": "compound", "cop": "ROOT",
    "nmod:desc": "compound", "nmod:npmod": "npadvmod", "nmod:tmod": "npadvmod", "nmod:unmarked": "npadvmod",
}  # fmt: skip
SHARED = frozenset(
    (
        *(
            "nsubj",
            "csubj",
            "ccomp",
            "xcomp",
            "expl",
            "advcl",
            "advmod",
            "aux",
            "mark",
            "nmod",
            "appos",
            "nummod",
            "acl",
            "amod",
        ),
        *("det", "case", "conj", "cc", "compound", "parataxis", "punct", "dep"),
    )
)
"""Labels of both styles."""
ONLY_UNIVERSAL = frozenset(
    ("obj", "iobj", "obl", "fixed", "flat", "cop", "root", "discourse", "vocative", "list", "orphan")
)
ONLY_PAPERS = frozenset(
    (
        "ROOT",
        "dobj",
        "pobj",
        "prep",
        "attr",
        "acomp",
        "nsubjpass",
        "auxpass",
        "relcl",
        "poss",
        "agent",
        "npadvmod",
        "pcomp",
    )
)
STAYS_WITH_PREDICATE = frozenset(
    ("det", "amod", "nummod", "compound", "nmod", "acl", "case", "appos", "flat", "fixed", "goeswith")
)
"""Dependents of a predicate that belong to it, and not to the clause."""


def style_of(labels: Sequence[str]) -> Style:
    """The style that labels are in, by those that only one of the two has."""
    plain = [label.partition(":")[0] for label in labels]
    universal = sum(label in ONLY_UNIVERSAL for label in plain) + sum(":" in label for label in labels)
    return "universal" if universal > sum(label in ONLY_PAPERS for label in plain) else "papers"


def papers_tree(
    heads: Sequence[int], labels: Sequence[str], pos: Sequence[str], style: Style | None = None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Heads and labels in the papers' style. The root's head is itself. Without `style`, the labels tell."""
    if (style or style_of(labels)) == "papers":
        return tuple(heads), tuple(labels)
    tree = _Tree(list(heads), list(labels), list(pos))
    tree.raise_copulas()
    tree.raise_prepositions()
    tree.raise_prepositions_of_verbs()
    tree.end_names()
    return tuple(tree.heads), tuple(_renamed(label) for label in tree.labels)


def _renamed(label: str) -> str:
    plain = label.partition(":")[0]
    if label in RENAMED or plain in RENAMED:
        return RENAMED.get(label, RENAMED.get(plain, "dep"))
    return plain if plain in SHARED or plain in ONLY_PAPERS else "dep"


class _Tree:
    """A tree under change."""

    def __init__(self, heads: list[int], labels: list[str], pos: list[str]) -> None:
        self.heads, self.labels, self.pos = heads, labels, pos

    def below(self, token: int) -> list[int]:
        return [i for i, head in enumerate(self.heads) if head == token and i != token]

    def plain(self, token: int) -> str:
        return self.labels[token].partition(":")[0]

    def take_place(self, new: int, old: int) -> None:
        """`new` hangs where `old` did, under its label, and `old` on `new`."""
        self.heads[new] = new if self.heads[old] == old else self.heads[old]
        self.labels[new] = self.labels[old]
        self.heads[old] = new

    def raise_copulas(self) -> None:
        for copula in [i for i in range(len(self.heads)) if self.plain(i) == "cop"]:
            predicate = self.heads[copula]
            dependents = self.below(predicate)
            if self.plain(copula) != "cop":  # a second copula of the same predicate
                continue
            self.take_place(copula, predicate)
            self.labels[predicate] = "attr" if self.pos[predicate] in NOMINAL else "acomp"
            for i in dependents:
                if i != copula and self._belongs_to_clause(i):
                    self.heads[i] = copula
                    if self.plain(i) == "cop":
                        self.labels[i] = "aux"

    def _belongs_to_clause(self, token: int) -> bool:
        if self.labels[token] == "conj":
            return any(self.plain(i) in ("nsubj", "csubj", "cop") for i in self.below(token))
        if self.labels[token] == "advmod":  # "very red": words right before the predicate are about it
            return token > self.heads[token] or not self._is_near(token)
        if self.plain(token) == "obl" and token > self.heads[token]:
            return self.pos[self.heads[token]] != "ADJ"
        return self.plain(token) not in STAYS_WITH_PREDICATE

    def _is_near(self, token: int) -> bool:
        between = range(token + 1, self.heads[token])
        return all(self.heads[i] == self.heads[token] and self.plain(i) in STAYS_WITH_PREDICATE for i in between)

    def raise_prepositions(self) -> None:
        for noun in range(len(self.heads)):
            marks = [i for i in self.below(noun) if self.plain(i) == "case" and self.pos[i] != "PART"]
            marks = [i for i in marks if i < noun]
            if not marks or self.labels[noun] == "nmod:poss":
                continue
            chain = [i for mark in marks for i in (mark, *(j for j in self.below(mark) if self.plain(j) == "fixed"))]
            first, label = chain[0], self.labels[noun]
            self.take_place(first, noun)
            if label not in ("conj", "root"):
                self.labels[first] = "agent" if label == "obl:agent" else "prep"
            for above, mark in pairwise(chain):
                self.heads[mark], self.labels[mark] = above, "prep"
            self.heads[noun], self.labels[noun] = chain[-1], "pobj"
            self._leave_conjuncts(first, noun)

    def raise_prepositions_of_verbs(self) -> None:
        for verb in range(len(self.heads)):
            around = {self.plain(i): i for i in self.below(verb)}
            mark = around.get("mark", verb)
            bare = not around.keys() & {"nsubj", "csubj", "expl", "aux", "cop"}
            if mark < verb and bare and self.pos[mark] in ("ADP", "SCONJ") and self.plain(verb) in ("acl", "advcl"):
                self.take_place(mark, verb)
                self.labels[mark], self.labels[verb] = "prep", "pcomp"

    def _leave_conjuncts(self, preposition: int, noun: int) -> None:
        """In "on the bed and under the table" the second preposition is coordinated with the first, not with "bed"."""
        for i in self.below(noun):
            marked = any(self.plain(j) == "case" and self.pos[j] != "PART" for j in self.below(i))
            if self.plain(i) == "conj" and marked:
                self.heads[i] = preposition

    def end_names(self) -> None:
        for first in range(len(self.heads)):
            rest = [i for i in self.below(first) if self.plain(i) == "flat" and self.pos[i] in NOMINAL]
            if not rest or self.pos[first] not in NOMINAL:
                continue
            last = rest[-1]
            others = [i for i in self.below(first) if i not in rest]
            self.take_place(last, first)
            for i in (first, *rest[:-1]):
                self.heads[i], self.labels[i] = last, "compound"
            for i in others:
                self.heads[i] = last
