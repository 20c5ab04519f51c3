"""How far does a word's subtree reach? Walks over the heads of an annotation."""

from collections.abc import Container, Sequence

from lit_attn.errors import UserError
from lit_attn.types import Annotation, Phrase, Span, SpatialTriple


def children(annotation: Annotation) -> list[list[int]]:
    """Of every token those that hang on it, from left to right."""
    below: list[list[int]] = [[] for _ in annotation.tokens]
    for i, head in enumerate(annotation.heads):
        if head != i:
            below[head].append(i)
    return below


def reach(annotation: Annotation, cut: Container[str] = ()) -> list[Span]:
    """Of every token the span from the leftmost to the rightmost token of its subtree.

    A branch whose label is in `cut` belongs to no subtree but its own.
    """
    left, right = list(range(len(annotation))), list(range(len(annotation)))
    for i in range(len(annotation)):
        at = i
        for _ in range(len(annotation)):  # a tree is never deeper than it has tokens
            head = annotation.heads[at]
            if head == at or annotation.deps[at] in cut:
                break
            left[head], right[head] = min(left[head], i), max(right[head], i)
            at = head
    return [(a, b + 1) for a, b in zip(left, right, strict=True)]


def conjuncts(annotation: Annotation, first: int) -> list[int]:
    """The token and whatever is coordinated with it, directly or through another conjunct, from left to right."""
    found = [first]
    below = children(annotation)
    for token in found:  # grows while it is walked
        found += [i for i in below[token] if annotation.deps[i] == "conj" and i not in found]
    return sorted(found)


def kept(annotation: Annotation, positions: Sequence[int]) -> Annotation:
    """The annotation without the other tokens. What hung on one of those hangs on the next token above that is kept.

    Phrases lose their dropped words, and vanish with their heads; triples that lose a whole part vanish.
    """
    if len(positions) == len(annotation):
        return annotation
    new = {old: i for i, old in enumerate(positions)}
    starts = [sum(p < i for p in positions) for i in range(len(annotation) + 1)]

    def head(token: int) -> int:
        at = token
        for _ in annotation.tokens:
            above = annotation.heads[at]
            if above == at:
                break
            if above in new:
                return new[above]
            at = above
        return new[token]

    def moved(span: Span) -> Span:
        return starts[span[0]], starts[span[1]]

    def picked(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(values[i] for i in positions)

    phrases = (Phrase(moved(p.span), new[p.head], p.objects) for p in annotation.phrases if p.head in new)
    triples = (SpatialTriple(moved(t.target), moved(t.relation), moved(t.landmark), t.kind) for t in annotation.triples)
    return Annotation(
        picked(annotation.tokens),
        picked(annotation.lemmas),
        picked(annotation.pos),
        tuple(head(i) for i in positions),
        picked(annotation.deps),
        tuple(phrases),
        tuple(t for t in triples if all(a < b for a, b in (t.target, t.relation, t.landmark))),
    )


def check_heads(heads: Sequence[int], where: str) -> None:
    """Every head must be a token of the text, and every token must hang on a root."""
    for i, head in enumerate(heads):
        if not 0 <= head < len(heads):
            raise UserError(f"{where}: word {i + 1} hangs on word {head + 1}, and there are {len(heads)} words.")
    for i in range(len(heads)):
        at = i
        for _ in heads:
            at = heads[at]
        if heads[at] != at:
            raise UserError(f"{where}: word {i + 1} hangs on itself through other words; a sentence needs a root.")
