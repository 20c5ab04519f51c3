"""Which sentences of the grammar can a row of words be? Works backwards through the frames, with the words of the lexicon.

All frames stand in one tree of words and slots; a slot (a thing, a relation, a posture …) reads whatever the teller may
put there. Several readings are kept where several fit.

Strict on what no meaning records: a/an, posture verbs ("a table hangs" is no sentence), relations that a frame does not
take, "on top of" a bed, "a" for what a frame needs known, "the" in a first sentence. Wider than the teller in matters of
taste, where the meaning is clear and can be checked: any choice of size, colour and material, any of the names of a
kind, things of one kind where the teller avoids them, any kind where a frame asks for a movable one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from .caption_frames import CAPTION_FRAMES
from .fillings import ALL_KINDS, Filled, Named, Placed, Related, Slot, Words, fillings, fixed_words, slot
from .frames import Frame
from .meaning import Count, Description
from .paragraph_frames import CONTINUATIONS, OPENINGS
from .world import Relation

LONGEST_SENTENCE = 80
"""In words; no frame makes longer ones, so that they need no reading."""
_UNNAMED = {"focus": "it", "pair": "they", "twin": "other"}
"""How a frame speaks of a thing that it does not name, by what the listener knows of it."""


Match = tuple[Frame, tuple[Filled, ...]]
"""A frame, and what fills its slots, with where each filling ends."""


class Mention(NamedTuple):
    """How a sentence speaks of one of its things."""

    way: str
    """`a`, `another`, `the`; `it`, `they` (one of two) or `other` for a thing of an earlier sentence."""
    description: Description
    kinds: frozenset[str]
    """What kinds its verbs and relations allow."""


class Reading(NamedTuple):
    """What a sentence says if it was made from this frame. Mentions are in the order of the frame's single letters."""

    frame: Frame
    mentions: tuple[Mention, ...]
    relations: tuple[tuple[Relation, int, int], ...]
    counts: tuple[Count, ...]
    room: str | None


@dataclass
class _Node:
    words: dict[str, "_Node"] = field(default_factory=dict)
    slots: dict[Slot, "_Node"] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)


def readings(tokens: Words, first: bool) -> tuple[Reading, ...]:
    """All readings of a sentence that ends with a full stop; none if it is no sentence of the grammar.

    A `first` sentence has nothing to lean on: it is a caption or an opening, and all its things are new.
    """
    if len(tokens) > LONGEST_SENTENCE:
        return ()
    found: dict[object, Reading] = {}
    for frame, filled in matches(tokens, first):
        reading = read(frame, filled, first)
        if reading is not None:
            found.setdefault(reading[1:], reading)
    return tuple(found.values())


def matches(tokens: Words, first: bool) -> list[Match]:
    """All frames that the words fit, whether or not they would be told like this; those that readings prefer come first."""
    return sorted(_matches(_tree(first), tokens, 0, (), {}), key=lambda match: _ORDER[match[0].name])


_ORDER = {frame.name: n for n, frame in enumerate((*CONTINUATIONS, *OPENINGS, *CAPTION_FRAMES))}
"""Frames that say what a listener knows come first: of equal readings theirs is kept."""


@lru_cache(maxsize=2)
def _tree(first: bool) -> _Node:
    root = _Node()
    for frame in (*OPENINGS, *CAPTION_FRAMES) if first else (*CONTINUATIONS, *OPENINGS, *CAPTION_FRAMES):
        node = root
        for item in frame.items:
            wanted = slot(item)
            if wanted is not None:
                node = node.slots.setdefault(wanted, _Node())
            else:
                for word in fixed_words(item):
                    node = node.words.setdefault(word, _Node())
        node.frames.append(frame)
    return root


def _matches(
    node: _Node, tokens: Words, at: int, filled: tuple[Filled, ...], seen: dict[tuple[Slot, int], list[Filled]]
) -> Iterator[Match]:
    """All ways through the tree that use up the words: the frames, with what fills their slots."""
    if at == len(tokens):
        yield from ((frame, filled) for frame in node.frames)
        return
    if tokens[at] in node.words:
        yield from _matches(node.words[tokens[at]], tokens, at + 1, filled, seen)
    for wanted, following in node.slots.items():
        if (wanted, at) not in seen:
            seen[wanted, at] = list(fillings(wanted, tokens, at))
        for end, value in seen[wanted, at]:
            yield from _matches(following, tokens, end, (*filled, (end, value)), seen)


def read(frame: Frame, found: tuple[Filled, ...], first: bool) -> Reading | None:
    """The reading that a frame with filled slots gives; None if it would not be told like this."""
    phrases: dict[str, Named] = {}
    colors: dict[str, str] = {}
    repeated: list[tuple[str, str]] = []
    kinds = dict.fromkeys(frame.letters, ALL_KINDS)
    spoken: dict[int, Related] = {}
    group: Count | None = None
    room = None
    filled = [(i, item) for i, item in enumerate(frame.items) if slot(item) is not None]
    for (i, item), (_, value) in zip(filled, found, strict=True):
        if isinstance(value, Named):
            phrases[item.letter] = value
        elif isinstance(value, Count):
            group = value
        elif isinstance(value, Related):
            spoken[i] = value
        elif isinstance(value, Placed):
            for letter in item.letter:
                kinds[letter] &= value.kinds
        elif item.what == "room":
            room = value
        elif item.what == "color":
            colors[item.letter] = value
        else:
            repeated.append((item.letter, value))
    for tie in frame.ties:
        relation, landmarks = spoken[tie.item]
        kinds[tie.landmark] &= landmarks
        if tie.allowed is not None and relation not in tie.allowed:
            return None
    if group is not None and group.description.kind not in kinds["N"]:
        return None
    if any(phrases[letter].description.kind != kind for letter, kind in repeated):
        return None
    mentions = []
    for letter in frame.singles:
        mention = _mention(frame, letter, phrases.get(letter), colors.get(letter), kinds[letter], first)
        if mention is None:
            return None
        mentions.append(mention)
    place = frame.singles.index
    relations = [
        (spoken[tie.item].relation, place(tie.target), place(tie.landmark)) for tie in frame.ties if tie.target != "N"
    ]
    counts = [] if group is None else [group]
    for tie in frame.ties:
        if tie.target == "N" and group is not None:
            counts = [Count(group.description, group.number, spoken[tie.item].relation, place(tie.landmark))]
    return Reading(frame, tuple(mentions), tuple(relations), tuple(counts), room)


def _mention(
    frame: Frame, letter: str, phrase: Named | None, color: str | None, kinds: frozenset[str], first: bool
) -> Mention | None:
    """How a frame speaks of a thing, named by `phrase` or not at all; None if it would not speak like this."""
    place = frame.conditions.get(letter)
    place = None if place == "movable" else place
    if phrase is None:
        return Mention(_UNNAMED[frame.status[letter]], Description(color=color, place=place), kinds)
    status = frame.status.get(letter)
    way, told = phrase
    misplaced = (first or status == "new") if way == "the" else status == "old"
    if misplaced or told.kind not in kinds or (color is not None and told.color is not None):
        return None
    description = Description(told.kind, color or told.color, told.size, told.material, told.word, place)
    return Mention(way, description, kinds)
