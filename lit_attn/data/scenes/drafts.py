"""What could one ask about a scene? Random drafts of questions: a program, and which of its steps each phrase names.

A draft may turn out senseless (a landmark that is not unique) or have an unwanted answer; `questions` throws it away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from .lexicon import UNTOLD_MATERIALS
from .meaning import Description
from .programs import ATTRIBUTES, Relating, Step, related
from .world import KINDS, Relation, Scene

_RELATIONS = tuple(Relation)
_Option = TypeVar("_Option")
_ORDER = ("size", "color", "material", "kind")


@dataclass
class Draft:
    """A program under construction. `phrases` maps a letter to a description and the step whose value it names."""

    shape: str
    steps: list[Step] = field(default_factory=list)
    phrases: dict[str, tuple[Description, int]] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    """In the order in which they are worded."""

    def add(self, function: str, *inputs: int, value: str | None = None) -> int:
        """Appends a step and returns its number."""
        self.steps.append(Step(function, inputs, () if value is None else (value,)))
        return len(self.steps) - 1

    def select(self, letter: str, description: Description, start: int | None = None) -> int:
        """Steps that find what fits a description, among all things or among those of step `start`."""
        at = self.add("scene") if start is None else start
        for name in _ORDER:
            if (value := getattr(description, name)) is not None:
                at = self.add(f"filter_{name}", at, value=value)
        self.phrases[letter] = (description, at)
        return at

    def one(self, letter: str, description: Description, start: int | None = None) -> int:
        """Like `select`, for the only thing that fits."""
        return self.add("unique", self.select(letter, description, start))

    def relate(self, relation: Relation, landmark: int) -> int:
        """A step that finds what stands in a relation to one thing."""
        return self.add("relate", landmark, value=relation.value)


class Scout:
    """Looks around in one scene for something to ask about."""

    def __init__(self, scene: Scene, rng: Random) -> None:
        self.scene = scene
        self.rng = rng
        self.relating: Relating = {}
        self.everything = tuple(range(len(scene.things)))
        self.usual = tuple(kind.name for kind in KINDS.values() if scene.room in kind.rooms)

    def pick(self, options: Sequence[_Option]) -> _Option:
        """One of the options, at random."""
        return options[int(self.rng.random() * len(options))]

    def definite(self, i: int, hide: str = "", among: tuple[int, ...] | None = None) -> Description | None:
        """Looks that only thing i has among some, without the hidden attribute; sometimes more than needed."""
        thing, things = self.scene.things[i], self.scene.things
        rest = [name for name in ("color", "size", "material") if name != hide and getattr(thing, name) is not None]
        self.rng.shuffle(rest)
        if (thing.kind, thing.material) in UNTOLD_MATERIALS and "material" in rest:
            rest.sort(key="material".__ne__)
        told: dict[str, str] = {}
        left = [j for j in (self.everything if among is None else among) if j != i]
        if hide != "kind":
            told["kind"] = thing.kind
            left = [j for j in left if things[j].kind == thing.kind]
        spare = self.rng.random() < 0.4
        while left or not told or (spare and len(told) < 2 and rest):
            if not rest:
                return None
            name = rest.pop()
            value = told[name] = getattr(thing, name)
            left = [j for j in left if getattr(things[j], name) == value]
        return Description(**told)

    def loose(self, among: tuple[int, ...] = ()) -> Description:
        """Some looks: of a thing that is there (`among` these, half of the time), mixed of two, or of a usual thing."""
        draw = self.rng.random
        one = self.scene.things[self.pick(among if among and draw() < 0.5 else self.everything)]
        two = self.scene.things[self.pick(self.everything)] if draw() < 0.5 else one
        kind = self.pick(self.usual) if draw() < 0.2 else one.kind
        chance, also = draw(), draw()
        if chance < 0.35:
            return Description(kind, two.color if also < 0.4 else None)
        if chance < 0.5:
            return Description(kind, None, two.size)
        if chance < 0.65:
            return Description(None, two.color, one.size if also < 0.2 else None)
        if chance < 0.8:
            return Description(None, None, one.size)
        if chance < 0.9 and two.material is not None:
            return Description(None, None, None, two.material)
        return Description(kind)

    def landmark(self, draft: Draft, letter: str) -> tuple[int, tuple[int, ...]] | None:
        """Adds steps for a landmark and a relation to it; returns the relating step and what it finds."""
        i = self.pick(self.everything)
        description = self.definite(i)
        if description is None:
            return None
        relation, found = self.relation(i)
        draft.relations.append(relation)
        return draft.relate(relation, draft.one(letter, description)), found

    def relation(self, landmark: int) -> tuple[Relation, tuple[int, ...]]:
        """A relation that makes sense for a landmark, rather one in which something stands to it; and what does."""
        kind, on_wall = KINDS[self.scene.things[landmark].kind], self.scene.things[landmark].on_wall
        senseless = {
            Relation.ON: kind.surface is None,
            Relation.UNDER: not kind.shelter,
            Relation.BELOW: not on_wall,
            Relation.BEHIND: on_wall,
            Relation.FRONT: on_wall,
        }
        while True:
            relation = self.pick(_RELATIONS)
            if not senseless.get(relation, False):
                found = related(relation.value, landmark, self.scene, self.relating)
                if found or self.rng.random() < 0.3:
                    return relation, found


def exist_or_count(scout: Scout, verb: str, way: str, wanted: str | None) -> Draft | None:
    """Whether there is something, or how many: `way` is plain, related, chain, both or either."""
    draft = Draft(f"{verb} {way}")
    at: int | None = None
    found: tuple[int, ...] = ()
    if way != "plain" and way != "either":
        start = scout.landmark(draft, "C" if way == "chain" else "B")
        if start is None:
            return None
        at, found = start
    if way == "chain":
        middle = scout.pick(found) if found else None
        description = scout.definite(middle, among=found) if middle is not None else None
        if middle is None or description is None:
            return None
        relation, found = scout.relation(middle)
        draft.relations.insert(0, relation)
        at = draft.relate(relation, draft.one("B", description, at))
    elif way == "both":
        second = scout.landmark(draft, "C")
        if at is None or second is None or draft.phrases["B"][0] == draft.phrases["C"][0]:
            return None
        at, found = draft.add("intersect", at, second[0]), tuple(i for i in found if i in second[1])
    if not found and at is not None and wanted not in ("no", "0"):
        return None
    chosen = draft.select("A", scout.loose(found), at)
    if way == "either":
        chosen = draft.add("union", chosen, draft.select("B", scout.loose()))
        if draft.phrases["A"][0].kind == draft.phrases["B"][0].kind:
            return None
    draft.add(verb, chosen)
    return draft


def query(scout: Scout, attribute: str, way: str, wanted: str | None) -> Draft | None:
    """What colour, size, material or kind something is: `way` is plain, related or where ("what is on the desk")."""
    draft = Draft(f"query_{attribute} {way}")
    at, found = None, scout.everything
    if way != "plain":
        start = scout.landmark(draft, "B")
        if start is None:
            return None
        at, found = start
    if not found or (way == "where" and len(found) > 1):
        return None
    i = scout.pick(found)
    description = Description() if way == "where" else scout.definite(i, attribute, found)
    if description is None or (attribute == "material" and scout.scene.things[i].material is None):
        return None
    draft.add(f"query_{attribute}", draft.one("A", description, at))
    return draft


def compare_attribute(scout: Scout, attribute: str, way: str, wanted: str | None) -> Draft | None:
    """Whether two things have the same colour, size or material; `way` is plain or related."""
    draft = Draft(f"equal_{attribute} {way}")
    at, found = None, scout.everything
    if way == "related":
        start = scout.landmark(draft, "C")
        if start is None or not start[1]:
            return None
        at, found = start
    i = scout.pick(found)
    value = getattr(scout.scene.things[i], attribute)
    others = [(j, getattr(scout.scene.things[j], attribute)) for j in scout.everything if j != i]
    fitting = [j for j, other in others if other is not None and (other == value) == (wanted == "yes")]
    if value is None or not fitting:
        return None
    first, second = scout.definite(i, attribute, found), scout.definite(scout.pick(fitting), attribute)
    if first is None or second is None or first == second:
        return None
    one = draft.add(f"query_{attribute}", draft.one("A", first, at))
    two = draft.add(f"query_{attribute}", draft.one("B", second))
    draft.add(f"equal_{attribute}", one, two)
    return draft


def compare_integer(scout: Scout, comparison: str, way: str, wanted: str | None) -> Draft | None:
    """Whether there are as many, fewer or more of these than of those."""
    draft = Draft(f"{comparison} {way}")
    one, two = scout.loose(), scout.loose()
    if one == two or (one.kind is None) != (two.kind is None):
        return None
    first = draft.add("count", draft.select("A", one))
    draft.add(comparison, first, draft.add("count", draft.select("B", two)))
    return draft


Maker = Callable[[Scout, str, str, str | None], Draft | None]
SHAPES: dict[str, tuple[tuple[Maker, str, str], ...]] = {
    "exist": tuple((exist_or_count, "exist", way) for way in ("plain", "related", "related", "chain", "both")),
    "count": tuple((exist_or_count, "count", way) for way in ("plain", "related", "related", "either")),
    "query_attribute": (
        *((query, name, way) for name in ATTRIBUTES for way in ("plain", "related")),
        (query, "kind", "where"),
    ),
    "compare_attribute": tuple(
        (compare_attribute, name, way) for name in ("color", "size", "material") for way in ("plain", "related")
    ),
    "compare_integer": tuple(
        (compare_integer, name, "plain") for name in ("equal_integer", "less_than", "greater_than")
    ),
}
"""Kind of question to the makers of its drafts, with their arguments."""

LANDMARKS = {"plain": 0, "either": 0, "related": 1, "where": 1, "chain": 2, "both": 2}
"""How many other things lead to what is asked about, by the way it is found."""
