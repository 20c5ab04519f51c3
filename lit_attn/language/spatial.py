"""What is where? Spatial triples (target, relation, landmark) by rules over the tree.

1. The relation is an indicator of the lexicon; its type is the lexicon's.
2. The landmark is the `pobj` under the indicator's last word.
3. The target is the noun that the indicator hangs on; else, by the verb: in "there is X" X, for "have" its object, for a
   participle or a relative clause the noun it modifies, else its subject, or its object
   where the subject is a pronoun ("you see X").
4. Conjunctions are expanded on both sides. A noun's own prepositional phrase speaks of that noun alone ("a TV on a table and a
   shelf"), unless it follows all of the conjuncts.
5. Triples without a noun on either side, or with a place of the picture as landmark ("the left"), are dropped.

Both ends are base phrases: the whole subtree of a target would hold the landmark as well.
"""

from lit_attn.language.indicators import find_indicators
from lit_attn.language.phrases import NOUNS, is_excluded, noun_phrases
from lit_attn.language.trees import children, conjuncts
from lit_attn.types import Annotation, Span, SpatialTriple

_SUBJECTS = ("nsubj", "nsubjpass")
_OBJECTS = ("attr", "dobj", "oprd")
_LINKS = frozenset(("ADP", "ADV", "ADJ", "PART", "SCONJ"))
"""Between an indicator and the noun or verb that it says something about."""


def spatial_triples(annotation: Annotation) -> tuple[SpatialTriple, ...]:
    """All triples, in the order of their relations."""
    below = children(annotation)
    spans = {phrase.head: phrase.span for phrase in noun_phrases(annotation, "base", "nothing")}
    found = []
    for indicator in find_indicators(annotation.tokens, annotation.deps):
        start, end = indicator.span
        landmarks = [
            i
            for first in below[end - 1]
            if annotation.deps[first] == "pobj"
            for i in conjuncts(annotation, first)
            if i in spans and not is_excluded(annotation, spans[i], "exact")
        ]
        targets = _targets(annotation, below, indicator.span) if landmarks else []
        found += [
            SpatialTriple(spans[target], (start, end), spans[landmark], indicator.kind)
            for target in targets
            for landmark in landmarks
            if target in spans and target != landmark
        ]
    return tuple(found)


def _targets(annotation: Annotation, below: list[list[int]], span: Span) -> list[int]:
    """Heads of what the indicator is about; empty if the rules find none."""
    top = span[1] - 1
    for _ in annotation.tokens:
        if (
            annotation.pos[top] == "VERB"
            or not span[0] <= annotation.heads[top] < span[1]
            or annotation.heads[top] == top
        ):
            break
        top = annotation.heads[top]
    at = top if annotation.pos[top] == "VERB" else _climbed(annotation, top)
    if at is None:
        return []
    if annotation.pos[at] in NOUNS:
        joint = conjuncts(annotation, at)
        return [i for i in joint if i == at or max(joint) < span[0]]
    noun = _of_verb(annotation, below, at, span)
    return [] if noun is None else conjuncts(annotation, noun)


def _climbed(annotation: Annotation, token: int) -> int | None:
    """The first noun or verb above."""
    at = token
    for _ in annotation.tokens:
        if annotation.heads[at] == at:
            return None
        at = annotation.heads[at]
        if annotation.pos[at] not in _LINKS:
            return at
    return None


def _of_verb(annotation: Annotation, below: list[list[int]], verb: int, span: Span) -> int | None:
    """The noun that a verb puts somewhere."""
    at = verb
    for _ in annotation.tokens:
        noun = _argument(annotation, below[at], annotation.lemmas[at], span)
        if noun is not None:
            return noun
        head = annotation.heads[at]
        if head == at:
            return None
        if annotation.deps[at] in ("acl", "relcl"):
            return head if annotation.pos[head] in NOUNS else None
        at = head  # "it is red and stands …": the subject is that of the verb above
        if annotation.pos[at] in NOUNS:
            return None
    return None


def _argument(annotation: Annotation, dependents: list[int], lemma: str, span: Span) -> int | None:
    def first(labels: tuple[str, ...]) -> int | None:
        nouns = (i for i in dependents if annotation.deps[i] in labels and annotation.pos[i] in NOUNS)
        return next((i for i in nouns if not span[0] <= i < span[1]), None)

    subject, thing = first(_SUBJECTS), first(_OBJECTS)
    existential = any(annotation.deps[i] == "expl" for i in dependents)
    if (existential or lemma == "have") and thing is not None:
        return thing
    return thing if subject is None else subject
