"""What does a sentence claim, and how much of it is true of a scene? The oracle of retrieval and captioning on Scenes.

A meaning is a set of facts about some distinct things: what each is like, how they are related, how many there are,
which room it is. `satisfied` looks for the things of a scene that make most of the facts true.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from .world import HORIZON, Relation, Scene, Thing, holds

_WHERE: dict[str, Callable[[Thing], bool]] = {
    "left": lambda thing: thing.center[0] < 0.4,
    "right": lambda thing: thing.center[0] > 0.6,
    "background": lambda thing: not thing.on_wall and thing.support is None and thing.foot < HORIZON + 0.18,
    "foreground": lambda thing: not thing.on_wall and thing.support is None and thing.foot > 0.84,
    "floor": lambda thing: not thing.on_wall and thing.support is None,
    "wall": lambda thing: thing.on_wall,
}
PLACES = tuple(_WHERE)
"""Parts of the room a description may name: "on the left", "in the background", "on the floor", …"""


def is_at(thing: Thing, place: str) -> bool:
    """Whether a thing is in a part of the room, one of `PLACES`."""
    if place not in _WHERE:
        raise ValueError(f"No place is called {place!r}. Known places: {', '.join(PLACES)}.")
    return _WHERE[place](thing)


@dataclass(frozen=True)
class Description:
    """What is said about one thing; None where nothing is said."""

    kind: str | None = None
    color: str | None = None
    size: str | None = None
    material: str | None = None
    word: str | None = None
    place: str | None = None


@dataclass(frozen=True)
class Count:
    """Exactly `number` things fit the description and, where there is a landmark, stand in `relation` to it."""

    description: Description
    number: int
    relation: Relation | None = None
    landmark: int | None = None
    """A variable."""


@dataclass(frozen=True)
class Meaning:
    """The facts of a sentence. Variables stand for distinct things; relations and counts name them by position."""

    variables: tuple[Description, ...] = ()
    relations: tuple[tuple[Relation, int, int], ...] = ()
    counts: tuple[Count, ...] = ()
    room: str | None = None


_FIELDS = tuple(field.name for field in fields(Description))


def description_facts(description: Description) -> tuple[tuple[str, str], ...]:
    """The facts of a description, as (property, value)."""
    values = ((name, getattr(description, name)) for name in _FIELDS)
    return tuple((name, value) for name, value in values if value is not None)


class SceneFacts:
    """Everything `satisfied` asks of a scene, as sets of things in bit masks. Build it once per scene."""

    def __init__(self, scene: Scene) -> None:
        self.room = scene.room
        self.size = len(scene.things)
        self.everything = (1 << self.size) - 1
        self.having: dict[tuple[str, str], int] = {}
        """(property, value) to the things that have it."""
        for i, thing in enumerate(scene.things):
            found = [(name, getattr(thing, name)) for name in ("kind", "color", "size", "material", "word")]
            found += [("place", place) for place in PLACES if is_at(thing, place)]
            for fact in found:
                self.having[fact] = self.having.get(fact, 0) | 1 << i
        span = range(self.size)
        self.related = {
            relation: [sum(1 << t for t in span if holds(relation, scene, t, landmark)) for landmark in span]
            for relation in Relation
        }
        """Relation to one mask per landmark: the things that stand in this relation to it."""

    def fitting(self, description: Description) -> int:
        """The things of which the whole description is true."""
        mask = self.everything
        for fact in description_facts(description):
            mask &= self.having.get(fact, 0)
        return mask


def satisfied(meaning: Meaning, scene: Scene | SceneFacts) -> float:
    """Share of the facts that hold when its variables stand for the best distinct things: 1.0 if all do.

    Each property of a description, each relation, each count and the room is one fact. A meaning without facts is
    satisfied by every scene. If the scene has fewer things than there are variables, some variables stand for nothing.
    """
    facts = scene if isinstance(scene, SceneFacts) else SceneFacts(scene)
    claims = [description_facts(variable) for variable in meaning.variables]
    total = sum(map(len, claims)) + len(meaning.relations) + len(meaning.counts) + (meaning.room is not None)
    if not total:
        return 1.0
    sure = int(meaning.room is not None and meaning.room == facts.room)
    sure += sum(
        facts.fitting(count.description).bit_count() == count.number
        for count in meaning.counts
        if count.landmark is None
    )
    return (sure + _best(meaning, claims, facts)) / total


def _best(meaning: Meaning, claims: list[tuple[tuple[str, str], ...]], facts: SceneFacts) -> int:
    """Most facts about variables that some choice of distinct things makes true, by branch and bound."""
    if not claims:
        return 0
    order = _search_order(meaning)
    turn = {variable: i for i, variable in enumerate(order)}
    span = range(facts.size)
    scores = []
    for variable in order:
        masks = [facts.having.get(fact, 0) for fact in claims[variable]]
        row = [sum(mask >> i & 1 for mask in masks) for i in span]
        for count in meaning.counts:
            if count.landmark == variable and count.relation is not None:
                fitting, near = facts.fitting(count.description), facts.related[count.relation]
                row = [s + ((fitting & near[i]).bit_count() == count.number) for i, s in enumerate(row)]
        scores.append(row)
    # A relation is checked at the later of its variables: `later[i]` has (earlier turn, table, target comes first).
    later: list[list[tuple[int, list[int], bool]]] = [[] for _ in order]
    for relation, target, landmark in meaning.relations:
        first, second = turn[target], turn[landmark]
        later[max(first, second)].append((min(first, second), facts.related[relation], first < second))
    hope = [0] * (len(order) + 1)
    for i in reversed(range(len(order))):
        hope[i] = hope[i + 1] + max(scores[i], default=0) + len(later[i])
    chosen = [-1] * len(order)
    scarce = facts.size < len(order)
    best = 0

    def search(i: int, done: int, free: int) -> None:
        nonlocal best
        if i == len(order):
            best = max(best, done)
            return
        options = []
        for thing in span:
            if free >> thing & 1:
                gain = scores[i][thing]
                for other, table, target_first in later[i]:
                    partner = chosen[other]
                    if partner >= 0:
                        gain += (table[thing] >> partner if target_first else table[partner] >> thing) & 1
                options.append((gain, thing))
        options.sort(reverse=True)
        for gain, thing in options:
            if done + gain + hope[i + 1] <= best:
                return
            chosen[i] = thing
            search(i + 1, done + gain, free & ~(1 << thing))
        if scarce and done + hope[i + 1] > best:
            chosen[i] = -1
            search(i + 1, done, free)

    search(0, 0, facts.everything)
    return best


def _search_order(meaning: Meaning) -> list[int]:
    """Variables so that each one, where it can, is related to an earlier one."""
    links: list[list[int]] = [[] for _ in meaning.variables]
    for _, target, landmark in meaning.relations:
        links[target].append(landmark)
        links[landmark].append(target)
    left = sorted(range(len(links)), key=lambda variable: -len(links[variable]))
    order: list[int] = []
    while left:
        following = next((v for v in left if any(other in order for other in links[v])), left[0])
        left.remove(following)
        order.append(following)
    return order
