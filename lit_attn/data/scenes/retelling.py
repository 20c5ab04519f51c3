"""What is the grammar of a text that somebody else wrote about a room? The frames it was made from know their trees.

A sentence that the grammar can make gets the annotation that the teller would have given it: read backwards (see `parsing`), its
frame and the words of its slots are put together again. A phrase names all things of the scene of which its description is true,
and nothing if it is true of none. Of several readings the first is taken. A text with a sentence that is not understood has no
annotation.
"""

from collections.abc import Sequence
from itertools import product

from ...types import Annotation, joined
from .checking import END, sentences
from .fillings import Filling, Named, Placed, Related, Words, fixed_words, slot
from .frames import Frame, Item
from .grammar import Fragment, Link, Part, assemble, word
from .lexicon import LEXICON, NAMES, NUMBERS, RELATION_WORDS, VERBS, noun_phrase, room_phrase
from .meaning import Count, Description, SceneFacts
from .parsing import LONGEST_SENTENCE, Match, matches, read
from .telling import PLURAL_VERBS
from .world import KIND_OF_RELATION, Relation

_SAYINGS = 3


def annotated(text: str | Sequence[str], facts: SceneFacts) -> Annotation | None:
    """The text with its grammar; None if it is empty or one of its sentences is not understood."""
    words = text.split() if isinstance(text, str) else text
    found = []
    for number, sentence in enumerate(sentences(words)):
        ended = sentence[-1] == END
        match = _match(sentence if ended else (*sentence, END), first=not number)
        if match is None:
            return None
        annotation = _assembled(*match, sentence if ended else (*sentence, END), facts)
        found.append(annotation if ended else _without_last(annotation))
    return joined(found) if found else None


def _match(tokens: Words, first: bool) -> Match | None:
    if len(tokens) > LONGEST_SENTENCE:
        return None
    return next((match for match in matches(tokens, first) if read(*match, first) is not None), None)


def _assembled(frame: Frame, filled: Sequence[tuple[int, Filling]], tokens: Words, facts: SceneFacts) -> Annotation:
    parts: list[Part] = []
    relations: dict[int, Relation] = {}
    fillings, at = iter(filled), 0
    for i, item in enumerate(frame.items):
        dep = item.dep
        objects: tuple[int, ...] = ()
        if slot(item) is None:
            end = at + len(fixed_words(item))
            words = _fixed(item)
        else:
            end, value = next(fillings)
            words = _worded(item, value, tokens[at:end])
            objects = _things(value, item, facts)
            if isinstance(value, Related):
                relations[i] = value.relation
                dep = dep or ("advmod" if words.pos[words.head] == "ADV" else "prep")
        parts.append(Part(words, dep, item.parent, objects, item.completes))
        at = end
    links = [
        Link(tie.target_item, tie.item, tie.landmark_item, KIND_OF_RELATION[relations[tie.item]])
        for tie in frame.ties
        if tie.target_item >= 0 and tie.landmark_item >= 0
    ]
    return assemble(parts, links)


def _fixed(item: Item) -> Fragment:
    """The words of an item that has no slot."""
    if item.fragment is not None:
        return item.fragment
    if item.what == "other":
        return noun_phrase("the", ("other",), "one")
    if item.what == "verb":
        return word(*LEXICON[PLURAL_VERBS[item.form] if item.letter == "N" else item.form])
    return word(*LEXICON["they" if len(item.letter) > 1 else "it"])


def _worded(item: Item, value: Filling, tokens: Words) -> Fragment:
    """The words of a slot, with their tree."""
    if isinstance(value, Named):
        return _phrase(value.determiner, value.description, tokens)
    if isinstance(value, Count):
        return _phrase(NUMBERS[value.number], value.description, tokens, plural=True)
    if isinstance(value, Related):
        return next(way for way in RELATION_WORDS[value.relation] if way.tokens == tokens)
    if isinstance(value, Placed):
        wanted = slot(item)
        assert wanted is not None
        return next(words for (_, how), words in VERBS.items() if how == wanted[1] and words.tokens == tokens)
    if item.what == "room":
        return room_phrase(item.form, value)
    if item.what == "color":
        return word(value, value, "ADJ")
    return _phrase("the", Description(value), tokens)


def _phrase(determiner: str, told: Description, tokens: Words, plural: bool = False) -> Fragment:
    """The noun phrase with these very words."""
    assert told.kind is not None
    adjectives = tokens[1 : 1 + sum(one is not None for one in (told.size, told.color, told.material))]
    for name, saying in product(NAMES[told.kind], range(_SAYINGS)):
        found = noun_phrase(determiner, adjectives, name[plural], plural, told.word, saying)
        if found.tokens == tokens:
            return found
    raise AssertionError(f"No phrase of the grammar reads {' '.join(tokens)!r}.")


def _things(value: Filling, item: Item, facts: SceneFacts) -> tuple[int, ...]:
    """What a slot names."""
    if isinstance(value, Named | Count):
        told = value.description
    elif item.what == "again" and isinstance(value, str):
        told = Description(value)
    else:
        return ()
    fitting = facts.fitting(told)
    return tuple(i for i in range(facts.size) if fitting >> i & 1)


def _without_last(annotation: Annotation) -> Annotation:
    """Without the full stop that the text lacks: nothing hangs on it."""
    end = len(annotation) - 1
    return Annotation(
        annotation.tokens[:end], annotation.lemmas[:end], annotation.pos[:end], annotation.heads[:end],
        annotation.deps[:end], annotation.phrases, annotation.triples,
    )  # fmt: skip
