"""Are there things that fit all that is said at once? A search over the things of a scene, with sets as bit masks.

Referents stand for things, and two of them may stand for one thing unless a bond says that they differ. The referent
with the fewest things left is tried first, and every choice narrows the referents that are bound to it.
"""

from collections.abc import Iterable, Mapping

from .meaning import SceneFacts
from .world import Relation

STEPS = 1000
"""Whatever takes longer is taken for impossible."""

Bond = tuple[int, int, Relation | None]
"""Two referents of which the first stands in a relation to the second; without a relation they just differ."""


def possible(options: Mapping[int, int], bonds: Iterable[Bond], about: Iterable[int], facts: SceneFacts) -> bool:
    """Whether there are things, out of their `options`, for some referents and for all that are bound to them."""
    tables: dict[Relation | None, tuple[list[int], list[int]]] = {}
    bound: dict[int, list[tuple[int, list[int]]]] = {}
    for i, j, relation in bonds:
        if relation not in tables:
            tables[relation] = _tables(relation, facts)
        onwards, back = tables[relation]
        bound.setdefault(i, []).append((j, onwards))
        bound.setdefault(j, []).append((i, back))
    reached = dict.fromkeys(about)
    waiting = list(reached)
    while waiting:
        found = [j for j, _ in bound.get(waiting.pop(), ()) if j not in reached]
        reached.update(dict.fromkeys(found))
        waiting += found
    left = STEPS

    def search(open_referents: dict[int, int]) -> bool:
        nonlocal left
        if not open_referents:
            return True
        i = min(open_referents, key=lambda referent: open_referents[referent].bit_count())
        for thing in range(facts.size):
            if open_referents[i] >> thing & 1:
                left -= 1
                rest = {j: things for j, things in open_referents.items() if j != i}
                for j, table in bound.get(i, ()):
                    if j in rest:
                        rest[j] &= table[thing]
                if left >= 0 and all(rest.values()) and search(rest):
                    return True
        return False

    return search({i: options[i] for i in reached})


def mask(things: Iterable[int]) -> int:
    """A set of things as bits."""
    return sum(1 << thing for thing in things)


def _tables(relation: Relation | None, facts: SceneFacts) -> tuple[list[int], list[int]]:
    """For every thing, what a bond allows at its other end: from the first to the second, and from the second back."""
    span = range(facts.size)
    if relation is None:
        others = [facts.everything & ~(1 << i) for i in span]
        return others, others
    back = facts.related[relation]
    return [mask(landmark for landmark in span if back[landmark] >> target & 1) for target in span], back
