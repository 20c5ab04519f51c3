"""Which noun phrases does a text have? Of every noun its whole subtree, or its base: the words up to the noun.

"A window with white lace curtains" has two nested phrases: all of it, and "white lace curtains"; its base phrases are "a window"
and "white lace curtains". Nouns that modify another (compounds and the like) and pronouns have none. Two departures from plain
subtrees: what is coordinated with a noun is a phrase of its own and no part of this one ("a lamp" and "a chair", not "a lamp and
a chair"), unless `conjuncts` asks for spaCy's `left_edge` to `right_edge`; and punctuation at either end is left off.

Ilinykh and Dobnik (2022) leave out phrases that name places in the picture. The body of the paper skips phrases that contain a
listed word (`contains`, which also drops "the left wall"), its appendix the listed phrases themselves (`exact`).
"""

from typing import Literal

from lit_attn.language.trees import children, reach
from lit_attn.types import Annotation, Phrase, Span

Kind = Literal["nested", "base"]
Exclude = Literal["contains", "exact", "nothing"]

NOUNS = frozenset(("NOUN", "PROPN"))
MODIFIERS = frozenset(("compound", "nmod", "amod", "nummod", "quantmod", "npadvmod", "advmod", "predet", "flat"))
"""Labels of nouns that only say more about another word."""
CLAUSAL = frozenset(("nsubj", "nsubjpass", "csubj", "expl", "aux", "auxpass", "mark", "intj"))
"""Labels of what hangs on a noun that makes a sentence ("there's a lamp", in one word), and is no part of its phrase."""
PLACES = frozenset(
    (
        "right",
        "left",
        "top",
        "bottom",
        "back",
        "front",
        "far",
        "close",
        "side",
        "background",
        "foreground",
        "middle",
        "corner",
    )
)
PLACE_PHRASES = frozenset(
    (
        *("right", "a right", "the right", "left", "a left", "the left", "top", "the top", "bottom", "the bottom"),
        *("back", "the back", "front", "the front", "far", "the far", "close", "the close", "side", "each side"),
        *("background", "the background", "foreground", "the foreground", "middle", "the middle"),
        *("corner", "a corner", "the corner"),
    )
)


def noun_phrases(
    annotation: Annotation, kind: Kind = "nested", exclude: Exclude = "exact", conjuncts: bool = False
) -> tuple[Phrase, ...]:
    """The phrases in the order of their heads, linked to nothing yet."""
    cut = () if conjuncts else ("conj", "cc", "preconj")
    spans, label_of = reach(annotation, cut), annotation.deps
    below = children(annotation)
    found = []
    for head, (tag, label) in enumerate(zip(annotation.pos, annotation.deps, strict=True)):
        if tag not in NOUNS or label in MODIFIERS:
            continue
        own = [spans[i] for i in below[head] if label_of[i] not in CLAUSAL and label_of[i] not in cut]
        start, end = min((a for a, _ in own), default=head), max((b for _, b in own), default=head)
        start, end = min(start, head), head + 1 if kind == "base" else max(end, head + 1)
        span = _without_marks(annotation, (start, end), head)
        if not is_excluded(annotation, span, exclude):
            found.append(Phrase(span, head, ()))
    return tuple(found)


def is_excluded(annotation: Annotation, span: Span, exclude: Exclude) -> bool:
    """Whether a phrase names a place in the picture, by one of the two rules."""
    words = [token.lower() for token in annotation.tokens[slice(*span)]]
    if exclude == "contains":
        return not PLACES.isdisjoint(words)
    return exclude == "exact" and " ".join(words) in PLACE_PHRASES


def _without_marks(annotation: Annotation, span: Span, head: int) -> Span:
    """Without punctuation and coordinating words at either end, and without a possessive mark at the end."""
    start, end = span
    while start < head and annotation.pos[start] in ("PUNCT", "CCONJ", "SPACE"):
        start += 1
    while end > head + 1 and (annotation.pos[end - 1] in ("PUNCT", "SPACE") or annotation.deps[end - 1] == "case"):
        end -= 1
    return start, end
