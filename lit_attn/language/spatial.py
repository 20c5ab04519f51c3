"""What is where? Spatial triples (target, relation, landmark) by rules over the tree.

1. The relation is an indicator of the lexicon; its type is the lexicon's. "At" after a verb of looking, "in" after one of
   covering, and the "by" of a passive are none.
2. The landmark is the `pobj` under the indicator's last word. If that is a part of something ("in the corner of the room"),
   the part belongs to the relation, and the landmark is the something.
3. The target is the noun that the indicator hangs on, or, if that is a room or a place of the picture ("a lamp in the corner
   next to the bed"), what is there, or, if it is in or on something else ("a vase of flowers", "a picture of a dog"), that;
   else, by the verb: in "there is X" X, its object if it has one, for a participle or a relative clause the noun it modifies,
   else its subject.
4. Conjunctions are expanded on both sides, but not from a known landmark to a new thing ("above the fireplace and a plant").
   A noun's own prepositional phrase speaks of that noun alone ("a TV on a table and a shelf"), unless it follows all of the
   conjuncts.
5. Triples without a noun on either side, or with a place of the picture ("the left", "the far side") or no place at all ("in
   color") as landmark, are dropped.

Both ends are base phrases: the whole subtree of a target would hold the landmark as well.
"""

from collections.abc import Iterator

from lit_attn.language.indicators import PARTS, PLACES, SIDES, Indicator, find_indicators
from lit_attn.language.phrases import NOUNS, noun_phrases
from lit_attn.language.trees import children, conjuncts
from lit_attn.types import Annotation, SpatialTriple

_SUBJECTS = ("nsubj", "nsubjpass")
_OBJECTS = ("attr", "dobj", "oprd")
_LINKS = frozenset(("ADP", "ADV", "ADJ", "PART", "SCONJ"))
"""Between an indicator and the noun or verb that it says something about."""
_NO_PLACES = frozenset((
    "color", "colour", "style", "shape", "tone", "shade", "pattern", "line", "direction", "way", "use", "total", "addition",
    "fact", "case", "contrast", "time", "moment", "order", "size", "design", "general", "nature", "theme",
))  # fmt: skip
"""Lemmas of nouns that nothing can be at."""
_CARRIERS = frozenset((
    "picture", "painting", "photo", "photograph", "poster", "portrait", "drawing", "print", "image", "box", "bottle", "bowl",
    "vase", "cup", "glass", "basket", "bag", "pot", "jar", "plate", "stack", "pile", "bunch", "bouquet", "row", "group",
))  # fmt: skip
"""Lemmas of nouns that hold or show what follows "of"."""
_ROOMS = frozenset((
    "room", "kitchen", "bathroom", "bedroom", "hallway", "hall", "garage", "office", "restroom", "basement", "attic", "area",
    "space", "image", "photo", "scene",
))  # fmt: skip
_KNOWN, _NEW = frozenset(("the", "this", "that", "these", "those")), frozenset(("a", "an", "another"))
_STAND_INS = frozenset(
    ("it", "they", "he", "she", "that", "which", "who", "this", "these", "those", "both", "you", "we")
)
"""Subjects that stand for a noun above, or for nobody: "everything" and the like are neither."""
_LOOKING = frozenset(("look", "stare", "point", "gaze", "glance", "smile", "aim"))
_COVERING = frozenset((
    "cover", "drape", "dress", "wrap", "paint", "decorate", "clothe", "frame", "finish", "bathe", "coat", "do", "color",
))  # fmt: skip


def spatial_triples(annotation: Annotation) -> tuple[SpatialTriple, ...]:
    """All triples, in the order of their relations."""
    text = _Text(annotation)
    return tuple(
        SpatialTriple(text.spans[target], whole.span, text.spans[landmark], whole.kind)
        for indicator in find_indicators(annotation.tokens, annotation.deps)
        if text.is_spatial(indicator)
        for target in text.targets(indicator)
        for whole, landmark in text.landmarks(indicator)
        if target in text.spans and target != landmark
    )


class _Text:
    """A text under the rules."""

    def __init__(self, annotation: Annotation) -> None:
        self.of = annotation
        self.below = children(annotation)
        self.spans = {phrase.head: phrase.span for phrase in noun_phrases(annotation, "base", "nothing")}

    def is_spatial(self, indicator: Indicator) -> bool:
        """Whether the verb that the indicator hangs on, or its label, does not give it another sense."""
        start, end = indicator.span
        if end - start > 1:
            return True
        above = self.of.heads[start]
        verb = self.of.lemmas[above] if self.of.pos[above] == "VERB" else ""
        word = self.of.tokens[start].lower()
        looked_at, covered_in = word == "at" and verb in _LOOKING, word == "in" and verb in _COVERING
        return self.of.deps[start] != "agent" and not looked_at and not covered_in

    def landmarks(self, indicator: Indicator) -> Iterator[tuple[Indicator, int]]:
        """Every landmark, with the indicator as far as it reaches for it."""
        for first in self._objects(indicator.span[1] - 1):
            for noun in self._joined(first):
                yield from self._landmark(indicator, noun, noun == first)

    def _landmark(self, indicator: Indicator, noun: int, is_first: bool) -> Iterator[tuple[Indicator, int]]:
        lemma = self.of.lemmas[noun].lower()
        wholes = [(of, i) for of in self._of(noun) for one in self._objects(of) for i in self._joined(one)]
        if is_first and lemma in PARTS and wholes:
            span = indicator.span[0], wholes[0][0] + 1
            said = {word.lower() for word in self.of.tokens[slice(*span)]}
            kind = "direction" if said & SIDES else indicator.kind
            yield from ((Indicator(span, kind), i) for _, i in wholes if i in self.spans)
        elif noun in self.spans and lemma not in _NO_PLACES and not self._is_place(noun):
            yield indicator, noun

    def _joined(self, landmark: int) -> list[int]:
        """It and what is coordinated with it, but no new thing after a known one."""
        is_known = any(self.of.tokens[i].lower() in _KNOWN for i in self.below[landmark])
        return [i for i in conjuncts(self.of, landmark) if i == landmark or not (is_known and self._is_new(i))]

    def _is_new(self, noun: int) -> bool:
        """ "A plant" and "red flowers" are; "chairs" in "the table and chairs" are not."""
        told = {self.of.deps[i]: self.of.tokens[i].lower() for i in self.below[noun] if i < noun}
        return told["det"] in _NEW if "det" in told else bool({"amod", "nummod"} & told.keys())

    def _objects(self, preposition: int) -> list[int]:
        return [i for i in self.below[preposition] if self.of.deps[i] == "pobj"]

    def _of(self, noun: int) -> list[int]:
        return [i for i in self.below[noun] if self.of.tokens[i].lower() == "of" and i > noun]

    def targets(self, indicator: Indicator) -> list[int]:
        """Heads of what the indicator is about; empty if the rules find none."""
        start, end = indicator.span
        top = end - 1
        for _ in self.of.tokens:
            above = self.of.heads[top]
            if self.of.pos[top] == "VERB" or not start <= above < end or above == top:
                break
            top = above
        at = top if self.of.pos[top] == "VERB" else self._climbed(top)
        while at is not None and self._is_carried(at):
            at = self._climbed(self.of.heads[at])
        if at is None:
            return []
        if self.of.pos[at] in NOUNS:
            joint = conjuncts(self.of, at)
            return [i for i in joint if i == at or max(joint) < start]
        noun = self._of_verb(at, indicator)
        return [] if noun is None else conjuncts(self.of, noun)

    def _is_carried(self, token: int) -> bool:
        """Whether what is said of the word's place is said of the word above its preposition."""
        preposition = self.of.heads[token]
        if self.of.deps[token] != "pobj" or preposition > token or self.of.pos[token] not in NOUNS:
            return False
        above = self.of.lemmas[self.of.heads[preposition]].lower()
        is_there = self._is_place(token) or self.of.lemmas[token].lower() in _ROOMS
        return is_there or (self.of.tokens[preposition].lower() == "of" and above in _CARRIERS)

    def _is_place(self, noun: int) -> bool:
        """Whether it is a place of the picture: "the upper right hand corner" is, a "counter top" is not."""
        made_of = [self.of.lemmas[i].lower() for i in self.below[noun] if self.of.deps[i] == "compound"]
        is_noun = self.of.pos[noun] in NOUNS and self.of.lemmas[noun].lower() in PLACES
        return is_noun and all(lemma == "hand" or lemma in PLACES for lemma in made_of)

    def _climbed(self, token: int) -> int | None:
        """The first noun or verb above."""
        at = token
        for _ in self.of.tokens:
            if self.of.heads[at] == at:
                return None
            at = self.of.heads[at]
            if self.of.pos[at] not in _LINKS:
                return at
        return None

    def _of_verb(self, verb: int, indicator: Indicator) -> int | None:
        """The noun that a verb puts somewhere."""
        at = verb
        for _ in self.of.tokens:
            thing, is_told = self._argument(at, indicator)
            if is_told:
                return thing
            head = self.of.heads[at]
            if head == at:
                return None
            if self.of.deps[at] in ("acl", "relcl"):
                return head if self.of.pos[head] in NOUNS else None
            at = head  # "it is red and stands …": the subject is that of the verb above
            if self.of.pos[at] in NOUNS:
                return None
        return None

    def _argument(self, verb: int, indicator: Indicator) -> tuple[int | None, bool]:
        """What the verb itself says: a noun or, where it is about something that is no noun, nothing; and whether it says so."""
        start, end = indicator.span
        near = [i for i in self.below[verb] if not start <= i < end]
        things = [i for i in near if self.of.deps[i] in _OBJECTS]
        subjects = [i for i in near if self.of.deps[i] in _SUBJECTS]
        nouns = [i for i in things if self.of.pos[i] in NOUNS]
        if self.of.pos[verb] == "VERB" and any(i < start and self.of.deps[i] == "dobj" for i in things):
            return (nouns[0] if nouns else None), True
        existential = any(self.of.deps[i] == "expl" for i in self.below[verb])
        said = [i for i in subjects if self.of.pos[i] in NOUNS]
        ordered = nouns + said if existential else said + nouns
        stands_for = all(self.of.tokens[i].lower() in _STAND_INS for i in subjects)
        return (ordered[0], True) if ordered else (None, not stands_for)
