"""Which relations of a scene are worth telling? Asks `holds` once about the pairs where an answer can be interesting.

Left and right hold for most pairs of a picture; they are listed for things on the same ground only.
"""

from random import Random

from .rooms import digest
from .world import KINDS, Relation, Scene, holds

Edge = tuple[Relation, int, int]
"""(relation, target, landmark)."""

_WEIGHTS = {
    Relation.ON: 6.0,
    Relation.UNDER: 6.0,
    Relation.BEHIND: 3.0,
    Relation.FRONT: 3.0,
    Relation.NEXT: 4.0,
    Relation.ABOVE: 4.0,
    Relation.BELOW: 2.0,
    Relation.NEAR: 2.0,
    Relation.LEFT: 2.0,
    Relation.RIGHT: 2.0,
}
"""How often a relation is told where it is found, so that the rare ones are not drowned."""


class Layout:
    """The tellable relations of a scene, by relation, by target and by landmark. Every edge really holds."""

    def __init__(self, scene: Scene) -> None:
        self.by_relation: dict[Relation, list[Edge]] = {}
        self.of_target: list[list[Edge]] = [[] for _ in scene.things]
        self.of_landmark: list[list[Edge]] = [[] for _ in scene.things]
        wall: list[int] = []
        floor: list[int] = []
        shelves: dict[int, list[int]] = {}
        for i, thing in enumerate(scene.things):
            if thing.support is not None:
                shelves.setdefault(thing.support, []).append(i)
                self._add(Relation.ON, i, thing.support)
            elif thing.on_wall:
                wall.append(i)
            else:
                floor.append(i)
        for group in (wall, floor, *shelves.values()):
            self._same_ground(scene, group, deep=group is floor)
        for i in wall:
            left, top, right, _ = scene.things[i].box
            for j, other in enumerate(scene.things):
                x1, y1, x2, _ = other.box
                if top < y1 and left < x2 and x1 < right and holds(Relation.ABOVE, scene, i, j):
                    self._add(Relation.ABOVE, i, j)
                    self._add(Relation.BELOW, j, i)
        self.relations = tuple(self.by_relation)
        self.weights = tuple(_WEIGHTS[relation] for relation in self.relations)

    def _add(self, relation: Relation, target: int, landmark: int) -> None:
        edge = (relation, target, landmark)
        self.by_relation.setdefault(relation, []).append(edge)
        self.of_target[target].append(edge)
        self.of_landmark[landmark].append(edge)

    def _same_ground(self, scene: Scene, group: list[int], deep: bool) -> None:
        """Adds what holds among things of one ground, asked from left to right."""
        group.sort(key=lambda i: scene.things[i].center[0])
        for n, i in enumerate(group):
            for j in group[n + 1 :]:
                if holds(Relation.LEFT, scene, i, j):
                    self._add(Relation.LEFT, i, j)
                    self._add(Relation.RIGHT, j, i)
                near = deep and holds(Relation.NEAR, scene, i, j)
                if (near or not deep) and holds(Relation.NEXT, scene, i, j):
                    self._add(Relation.NEXT, i, j)
                    self._add(Relation.NEXT, j, i)
                elif near:
                    self._add(Relation.NEAR, i, j)
                    self._add(Relation.NEAR, j, i)
                if deep:
                    self._depth(scene, i, j)

    def _depth(self, scene: Scene, i: int, j: int) -> None:
        """Adds what holds between two things on the floor that hide each other in part."""
        one, two = scene.things[i], scene.things[j]
        if one.box[2] <= two.box[0]:
            return
        back, front = (i, j) if one.foot < two.foot else (j, i)
        if holds(Relation.BEHIND, scene, back, front):
            self._add(Relation.BEHIND, back, front)
            self._add(Relation.FRONT, front, back)
        for below, shelter in ((i, j), (j, i)):
            if KINDS[scene.things[shelter].kind].shelter and holds(Relation.UNDER, scene, below, shelter):
                self._add(Relation.UNDER, below, shelter)

    def draw(self, rng: Random, allowed: frozenset[Relation] | None = None) -> Edge | None:
        """A random edge, rare relations as likely as common ones; None if none is allowed."""
        if allowed is None:
            relations, weights = self.relations, self.weights
        else:
            relations = tuple(relation for relation in self.relations if relation in allowed)
            weights = tuple(_WEIGHTS[relation] for relation in relations)
        if not relations:
            return None
        point, chosen = rng.random() * sum(weights), 0
        while chosen < len(weights) - 1 and point >= weights[chosen]:
            point -= weights[chosen]
            chosen += 1
        edges = self.by_relation[relations[chosen]]
        return edges[int(rng.random() * len(edges))]


def text_random(scene: Scene, purpose: str) -> Random:
    """The source of chance for one kind of text about a scene: its key and the purpose decide everything."""
    return Random(digest(scene.seed, scene.split, scene.index, purpose))
