"""Which things can a frame be about? A binder fills its letters at random, along relations that hold.

A try may fail; callers try again or take another frame. Counted groups are complete: no other thing of the scene fits
their description (and stands in their relation), so that "two red cups" means exactly two.
"""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from .frames import Frame, Tie
from .layout import Layout
from .lexicon import postures
from .meaning import is_at
from .world import KINDS, Place, Relation, Scene

_EXACT = (
    Relation.ON, Relation.UNDER, Relation.BEHIND, Relation.FRONT, Relation.NEXT, Relation.ABOVE, Relation.BELOW,
)  # fmt: skip
"""Relations of which a layout knows all pairs, so that what it finds can be counted."""


class Group(NamedTuple):
    """Several things of one kind, and of one colour unless that is None. No others fit (or stand in the relation)."""

    things: tuple[int, ...]
    kind: str
    color: str | None
    relation: Relation | None = None
    landmark: int = -1


@dataclass
class Binding:
    """Which things a frame is about."""

    things: dict[str, int] = field(default_factory=dict)
    group: Group | None = None
    relations: list[Relation] = field(default_factory=list)
    """One per tie."""


class Binder:
    """Finds things of one scene for frames."""

    def __init__(self, scene: Scene, layout: Layout, rng: Random) -> None:
        self.scene = scene
        self.layout = layout
        self.rng = rng
        self._groups: dict[bool, list[Group]] = {}

    def bind(self, frame: Frame, given: dict[str, int] | None = None) -> Binding | None:
        """Things that fit the frame, at random; None if this try found none. `given` things are kept."""
        binding = Binding(dict(given) if given else {})
        things = binding.things
        if "N" in frame.letters and not self._bind_group(frame, binding):
            return None
        for tie in frame.ties:
            if tie.target == "N" and binding.group is not None and binding.group.relation is not None:
                binding.relations.append(binding.group.relation)
            elif not self._bind_tie(tie, binding):
                return None
        for letter in frame.letters:
            if letter not in things and letter != "N":
                free = [i for i in range(len(self.scene.things)) if not self._taken(i, binding)]
                place = frame.conditions.get(letter)
                if place in ("left", "right"):
                    free = [i for i in free if is_at(self.scene.things[i], place)]
                if not free:
                    return None
                things[letter] = free[int(self.rng.random() * len(free))]
        return binding if self._suits(frame, binding) else None

    def _taken(self, thing: int, binding: Binding) -> bool:
        return thing in binding.things.values() or (binding.group is not None and thing in binding.group.things)

    def _bind_tie(self, tie: Tie, binding: Binding) -> bool:
        things, rng = binding.things, self.rng
        target, landmark = things.get(tie.target), things.get(tie.landmark)
        allowed = tie.allowed if tie.like < 0 else frozenset((binding.relations[tie.like],))
        if target is None and landmark is None:
            edge = self.layout.draw(rng, allowed)
            if edge is None or self._taken(edge[1], binding) or self._taken(edge[2], binding):
                return False
        else:
            edges = self.layout.of_landmark[landmark] if target is None else self.layout.of_target[target]  # type: ignore[index]
            fitting = [
                e
                for e in edges
                if (allowed is None or e[0] in allowed)
                and (e[1] == target if target is not None else not self._taken(e[1], binding))
                and (e[2] == landmark if landmark is not None else not self._taken(e[2], binding))
            ]
            if not fitting:
                return False
            edge = fitting[int(rng.random() * len(fitting))]
        relation, things[tie.target], things[tie.landmark] = edge
        binding.relations.append(relation)
        return True

    def _bind_group(self, frame: Frame, binding: Binding) -> bool:
        tie = next((tie for tie in frame.ties if tie.target == "N"), None)
        groups = self.groups(tie is not None)
        if tie is not None and tie.allowed is not None:
            groups = [group for group in groups if group.relation in tie.allowed]
        if not groups:
            return False
        binding.group = group = groups[int(self.rng.random() * len(groups))]
        if tie is not None:
            binding.things[tie.landmark] = group.landmark
        return True

    def groups(self, related: bool) -> list[Group]:
        """All sets of two or more things that a counted phrase can name, by themselves or related to a landmark."""
        if related not in self._groups:
            found: dict[tuple[object, ...], list[int]] = {}
            if related:
                for relation in _EXACT:
                    for _, target, landmark in self.layout.by_relation.get(relation, ()):
                        self._sort_in(found, target, relation, landmark)
            else:
                for i in range(len(self.scene.things)):
                    self._sort_in(found, i, None, -1)
            self._groups[related] = [
                Group(tuple(sorted(members)), *key)  # type: ignore[arg-type]
                for key, members in found.items()
                if len(members) > 1
            ]
        return self._groups[related]

    def _sort_in(self, found: dict[tuple[object, ...], list[int]], i: int, *where: object) -> None:
        thing = self.scene.things[i]
        found.setdefault((thing.kind, None, *where), []).append(i)
        found.setdefault((thing.kind, thing.color, *where), []).append(i)

    def _suits(self, frame: Frame, binding: Binding) -> bool:
        kinds = [self.scene.things[i].kind for i in binding.things.values()]
        if binding.group is not None:
            kinds.append(binding.group.kind)
        if (frame.distinct or binding.group is not None) and len(set(kinds)) < len(kinds):
            return False
        for letter, condition in frame.conditions.items():
            thing = self.scene.things[binding.things[letter]]
            if condition == "movable":
                if KINDS[thing.kind].place is not Place.SURFACE or thing.kind in ("cat", "television"):
                    return False
            elif not is_at(thing, condition):
                return False
        return all(postures(*(self.kind(letter, binding) for letter in letters)) for letters in frame.moving)

    def kind(self, letter: str, binding: Binding) -> str:
        """What kind of thing a letter stands for."""
        if letter == "N":
            assert binding.group is not None
            return binding.group.kind
        return self.scene.things[binding.things[letter]].kind
