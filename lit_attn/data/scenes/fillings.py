"""What can the next words stand for? Fillings of the slots of a frame, read with the words that the teller has for them.

Nothing here knows English: names, verbs, relation words and whole phrases come from the lexicon, turned round.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from .frames import Item
from .grammar import Fragment
from .lexicon import (
    LEXICON,
    NAMES,
    NUMBERS,
    RELATION_WORDS,
    SIZE_WORDS,
    VERBS,
    article,
    noun_phrase,
    postures,
    room_phrase,
)
from .meaning import Count, Description
from .telling import PLURAL_VERBS
from .world import COLORS, KINDS, MATERIALS, ROOMS, WORDS, Relation

Words = tuple[str, ...]
Slot = tuple[str, str]
"""What stands there, and in which form."""
ALL_KINDS = frozenset(KINDS)
T = TypeVar("T")

_SIZES = {word: size for size, words in SIZE_WORDS.items() for word in words}
_COLORS = {color: color for color in COLORS}
_MATERIALS = {material: material for material in MATERIALS}
_COUNTS = {word: number for number, word in enumerate(NUMBERS) if number > 1}
_SINGULARS: dict[Words, str] = {tuple(one.split()): kind for kind, names in NAMES.items() for one, _ in names}
_PLURALS: dict[Words, str] = {tuple(many.split()): kind for kind, names in NAMES.items() for _, many in names}
_SAYINGS = 3
_LONGEST_ENTRY = 6
"""In words: "with the word tea on it"."""


class Named(NamedTuple):
    """One thing: `a` (or an), `another` or `the`, and what is said about it."""

    determiner: str
    description: Description


class Related(NamedTuple):
    """A relation, and the kinds of landmarks that its words are for."""

    relation: Relation
    landmarks: frozenset[str]


class Placed(NamedTuple):
    """A posture: the kinds of things that are placed like this."""

    kinds: frozenset[str]


Filling = Named | Count | Related | Placed | str
"""What fills a slot; a string is a colour, a room or the kind of a thing that is named again."""
Filled = tuple[int, Filling]
"""Where it ends, and what it is."""


def slot(item: Item) -> Slot | None:
    """What an item of a frame may be filled with; None if its words are fixed."""
    if item.what == "thing":
        return ("several" if item.letter == "N" else "one"), ""
    if item.what == "verb":
        many = item.letter == "N" or item.form == "stand"
        how = "ing" if item.form == "standing" else "many" if many else "one"
        return None if item.form in PLURAL_VERBS else ("posture", how)
    if item.what == "room":
        return "room", item.form
    return (item.what, "") if item.what in ("relation", "color", "again") else None


def fixed_words(item: Item) -> Words:
    """The words of an item without a slot."""
    if item.fragment is not None:
        return item.fragment.tokens
    if item.what == "verb":
        return (LEXICON[PLURAL_VERBS[item.form] if item.letter == "N" else item.form].form,)
    if item.what == "other":
        return noun_phrase("the", ("other",), "one").tokens
    return (LEXICON["they" if len(item.letter) > 1 else "it"].form,)


def fillings(wanted: Slot, tokens: Words, at: int) -> Iterator[Filled]:
    """All that the words from `at` on may be in this slot."""
    if wanted[0] == "one":
        return _one(tokens, at)
    return _several(tokens, at) if wanted[0] == "several" else _prefixes(_words_for(wanted), tokens, at)


def _prefixes(table: Mapping[Words, T], tokens: Words, at: int) -> Iterator[tuple[int, T]]:
    for end in range(at + 1, min(at + _LONGEST_ENTRY, len(tokens)) + 1):
        if tokens[at:end] in table:
            yield end, table[tokens[at:end]]


def _one(tokens: Words, at: int) -> Iterator[tuple[int, Named]]:
    """ "a small red cup that says tea", "another chair", "the black desk"."""
    determiner = "a" if tokens[at] == "an" else tokens[at]
    if determiner not in ("a", "another", "the") or at + 1 == len(tokens):
        return
    if determiner == "a" and article(tokens[at + 1]) != tokens[at]:
        return
    size, start = _adjective(_SIZES, tokens, at + 1)
    color, start = _adjective(_COLORS, tokens, start)
    material, start = _adjective(_MATERIALS, tokens, start)
    for end, kind in _prefixes(_SINGULARS, tokens, start):
        yield end, Named(determiner, Description(kind, color, size, material))
        for last, printed in _prefixes(_printed(), tokens, end):
            yield last, Named(determiner, Description(kind, color, size, material, printed))


def _several(tokens: Words, at: int) -> Iterator[tuple[int, Count]]:
    """ "two red cups"."""
    if tokens[at] in _COUNTS:
        color, start = _adjective(_COLORS, tokens, at + 1)
        for end, kind in _prefixes(_PLURALS, tokens, start):
            yield end, Count(Description(kind, color), _COUNTS[tokens[at]])


def _adjective(meanings: Mapping[str, str], tokens: Words, at: int) -> tuple[str | None, int]:
    """What the adjective means, if there is one of this sort, and where the phrase goes on."""
    found = meanings.get(tokens[at]) if at < len(tokens) else None
    return found, at + (found is not None)


@lru_cache(maxsize=1)
def _printed() -> dict[Words, str]:
    bare = noun_phrase(None, (), "sign").tokens
    ways = [(word, saying) for word in WORDS for saying in range(_SAYINGS)]
    return {noun_phrase(None, (), "sign", False, *way).tokens[len(bare) :]: way[0] for way in ways}


@lru_cache(maxsize=64)
def _words_for(wanted: Slot) -> dict[Words, Filling]:
    """Words for a slot other than a thing's, with what they mean."""
    what, form = wanted
    if what == "posture":
        verbs = {verb: words.tokens for (verb, how), words in VERBS.items() if how == form}
        return {words: Placed(frozenset(k for k in KINDS if verb in postures(k))) for verb, words in verbs.items()}
    if what == "relation":
        return {way.tokens: _related(relation, way) for relation, ways in RELATION_WORDS.items() for way in ways}
    if what == "room":
        return {room_phrase(form, room).tokens: room for room in ROOMS}
    if what == "color":
        return {(color,): color for color in COLORS}
    return {noun_phrase("the", (), " ".join(name)).tokens: kind for name, kind in _SINGULARS.items()}


def _related(relation: Relation, way: Fragment) -> Related:
    choosy = relation is Relation.ON and way.tokens != RELATION_WORDS[relation][0].tokens
    return Related(relation, frozenset(k.name for k in KINDS.values() if k.surface == 0.0) if choosy else ALL_KINDS)
