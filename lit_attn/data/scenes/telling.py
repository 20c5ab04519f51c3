"""How is a bound frame put into words? A teller chooses names, attributes and articles, and notes what was claimed.

A thing is "a red cup" when it is new, "the cup" once it is known, "another red cup" where a look-alike is known. With a
`Memory` a teller knows things across sentences, as a paragraph needs; without, every sentence starts afresh.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import NamedTuple

from ...types import Annotation
from .binding import Binder, Binding, Group
from .frames import Frame
from .grammar import Fragment, Link, Part, assemble, word
from .lexicon import (
    LEXICON,
    NAMES,
    NUMBERS,
    SIZE_WORDS,
    UNTOLD_MATERIALS,
    VERBS,
    noun_phrase,
    postures,
    relation_words,
    room_phrase,
)
from .meaning import Count, Description, Meaning
from .world import COLORS, KIND_OF_RELATION, Scene


@dataclass(frozen=True)
class Sentence:
    """An annotated sentence and what it claims."""

    annotation: Annotation
    meaning: Meaning
    frame: str = ""
    """Name of the frame it was made from."""


class Looks(NamedTuple):
    """How a thing is described: the attributes that are told, and the words for them."""

    description: Description
    adjectives: tuple[str, ...]
    printed: str | None
    saying: int


@dataclass
class Memory:
    """What a listener knows after some sentences: the name and the adjectives of every thing that was told."""

    names: dict[int, str] = field(default_factory=dict)
    adjectives: dict[int, tuple[str, ...]] = field(default_factory=dict)


_FIXED = {name: word(*LEXICON[name]) for name in ("is", "are", "exists", "exist", "having", "have", "it", "they")}
_COLOR_WORDS = {color: word(color, color, "ADJ") for color in COLORS}
PLURAL_VERBS = {"is": "are", "exists": "exist", "having": "have"}
_description = lru_cache(maxsize=1 << 15)(Description)


class Teller:
    """Words sentences about one scene."""

    def __init__(self, scene: Scene, binder: Binder, rng: Random, memory: Memory | None = None) -> None:
        self.scene = scene
        self.binder = binder
        self.rng = rng
        self.memory = memory

    def tell(self, frame: Frame, binding: Binding) -> Sentence:
        """The sentence, with its annotation and meaning."""
        rng, things, group = self.rng, binding.things, binding.group
        looks = {letter: self._look(things[letter], letter in frame.predicates, things) for letter in frame.singles}
        verbs: dict[str, str] = {}
        said: dict[str, Looks] = {}
        names: dict[str, str] = {}
        parts = []
        for what, letter, form, words, dep, parent, completes, tie in frame.items:
            objects: tuple[int, ...] = ()
            if words is not None:
                pass
            elif what == "thing":
                if letter == "N":
                    assert group is not None
                    words, objects = self._several(group), group.things
                else:
                    objects = (things[letter],)
                    words = self._one(letter, things[letter], looks[letter], said, names)
            elif what == "relation":
                landmark = self.scene.things[things[frame.ties[tie].landmark]].kind
                words = relation_words(binding.relations[tie], landmark, rng)
                dep = dep or ("advmod" if words.pos[words.head] == "ADV" else "prep")
            elif what == "verb":
                words = self._verb(form, letter, binding, verbs)
            elif what == "room":
                words = room_phrase(form, self.scene.room)
            elif what == "again":
                objects = (things[letter],)
                words = noun_phrase("the", (), self._name(things[letter], names))
            elif what == "other":
                objects = (things[letter],)
                words = noun_phrase("the", ("other",), "one")
            elif what == "pronoun":
                words = _FIXED["they" if len(letter) > 1 else "it"]
            else:
                words = _COLOR_WORDS[self.scene.things[things[letter]].color]
            parts.append(Part(words, dep, parent, objects, completes))
        links = [
            Link(tie.target_item, tie.item, tie.landmark_item, KIND_OF_RELATION[relation])
            for tie, relation in zip(frame.ties, binding.relations, strict=True)
            if tie.target_item >= 0 and tie.landmark_item >= 0
        ]
        return Sentence(assemble(parts, links), self._meaning(frame, binding, looks), frame.name)

    def _look(self, i: int, hide_color: bool, things: dict[str, int]) -> Looks:
        """Chooses what is told about a thing: mostly its colour, sometimes more; little if it is known."""
        thing, draw = self.scene.things[i], self.rng.random
        if self.memory is not None and i in self.memory.names:
            known, color = self.memory.names, None
            if not hide_color:
                everything = {*known, *things.values()}
                color = distinguishing_color(self.scene, everything, i) or distinguishing_color(self.scene, known, i)
            told = thing.color if hide_color else color
            return Looks(_description(thing.kind, told), (color,) if color else (), None, 0)
        size = thing.size if draw() < 0.2 else None
        color = thing.color if not hide_color and draw() < 0.8 else None
        material = None
        if thing.material is not None and draw() < (0.15 if color else 0.4):
            material = thing.material if (thing.kind, thing.material) not in UNTOLD_MATERIALS else None
        if size and color and material:
            size = None
        printed = thing.word if thing.word is not None and draw() < 0.5 else None
        adjectives = []
        if size:
            ways = SIZE_WORDS[size]
            adjectives.append(ways[int(draw() * len(ways))])
        if color:
            adjectives.append(color)
        if material:
            adjectives.append(material)
        told = thing.color if hide_color else color
        description = _description(thing.kind, told, size, material, printed)
        return Looks(description, tuple(adjectives), printed, int(draw() * 3))

    def _name(self, i: int, names: dict[str, str]) -> str:
        """A name for a thing: the one its kind had before, in this sentence or in the memory."""
        kind = self.scene.things[i].kind
        if kind not in names:
            ways = NAMES[kind]
            names[kind] = ways[0][0] if len(ways) == 1 or self.rng.random() < 0.6 else ways[1][0]
            if self.memory is not None:
                for other, name in self.memory.names.items():
                    if self.scene.things[other].kind == kind:
                        names[kind] = name
        return names[kind]

    def _one(self, letter: str, i: int, look: Looks, said: dict[str, Looks], names: dict[str, str]) -> Fragment:
        """The phrase for a single thing, new or known."""
        name, kind = self._name(i, names), self.scene.things[i].kind
        if letter in said:
            return noun_phrase("the", (), name)
        memory = self.memory
        twins = [other.adjectives for other in said.values() if other.description.kind == kind]
        said[letter] = look
        if memory is not None:
            if i in memory.names:
                return noun_phrase("the", look.adjectives, name)
            twins += [memory.adjectives[other] for other in memory.names if self.scene.things[other].kind == kind]
            memory.names[i], memory.adjectives[i] = name, look.adjectives
        twin = any(set(look.adjectives) <= set(adjectives) for adjectives in twins) and look.printed is None
        return noun_phrase("another" if twin else "a", look.adjectives, name, False, look.printed, look.saying)

    def _several(self, group: Group) -> Fragment:
        ways = NAMES[group.kind]
        name = ways[0][1] if len(ways) == 1 or self.rng.random() < 0.6 else ways[1][1]
        return noun_phrase(NUMBERS[len(group.things)], (group.color,) if group.color else (), name, True)

    def _verb(self, form: str, letter: str, binding: Binding, chosen: dict[str, str]) -> Fragment:
        many = letter == "N"
        if form in PLURAL_VERBS:
            return _FIXED[PLURAL_VERBS[form] if many else form]
        if letter not in chosen:
            verbs = postures(*(self.binder.kind(one, binding) for one in letter))
            chosen[letter] = verbs[int(self.rng.random() * len(verbs))]
        how = "ing" if form == "standing" else "many" if many or form == "stand" else "one"
        return VERBS[chosen[letter], how]

    def _meaning(self, frame: Frame, binding: Binding, looks: dict[str, Looks]) -> Meaning:
        """What the sentence claims. Letters become variables in their order."""
        letters = frame.singles
        variables = []
        for letter in letters:
            told, place = looks[letter].description, frame.conditions.get(letter)
            if place is not None and place != "movable":
                told = Description(told.kind, told.color, told.size, told.material, told.word, place)
            variables.append(told)
        relations = tuple(
            (relation, letters.index(tie.target), letters.index(tie.landmark))
            for tie, relation in zip(frame.ties, binding.relations, strict=True)
            if tie.target != "N"
        )
        counts: tuple[Count, ...] = ()
        if binding.group is not None:
            things, kind, color, relation, landmark = binding.group
            at = None
            if relation is not None:
                at = next(n for n, letter in enumerate(letters) if binding.things[letter] == landmark)
            counts = (Count(Description(kind, color), len(things), relation, at),)
        return Meaning(tuple(variables), relations, counts, self.scene.room if frame.room else None)


def distinguishing_color(scene: Scene, among: Collection[int], i: int) -> str | None:
    """The colour of a thing if others of its kind `among` these make it necessary, and it helps; else None."""
    thing = scene.things[i]
    twins = [scene.things[other] for other in among if other != i and scene.things[other].kind == thing.kind]
    return thing.color if twins and all(twin.color != thing.color for twin in twins) else None


def unmistakable(scene: Scene, memory: Memory, i: int) -> bool:
    """Whether "the cup" or "the red cup" can only mean this one of the known things."""
    alone = all(other == i or scene.things[other].kind != scene.things[i].kind for other in memory.names)
    return alone or distinguishing_color(scene, memory.names, i) is not None
