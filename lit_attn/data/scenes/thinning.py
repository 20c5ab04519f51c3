"""What if there were fewer things in a room? Rooms with some things taken away, for training.

A network that answers questions must first find out which word means which looks; in a room with two things there is less to
mistake for each other than in one with ten. A thinned room keeps its name, so that it must not be mixed up with the whole one.
"""

from dataclasses import replace
from random import Random

from .rooms import digest
from .world import Scene

FEWEST = 2


def thinned(scene: Scene, most: int) -> Scene:
    """The room with a random part of its things, from two to `most` of them; what others rest on stays, beyond that."""
    if most < FEWEST:
        raise ValueError(f"A thinned room keeps {FEWEST} things at least, but most={most}.")
    rng = Random(digest(scene.seed, scene.split, scene.index, "thinning"))
    order = list(range(len(scene.things)))
    rng.shuffle(order)
    wanted = min(rng.randint(FEWEST, most), len(order))
    kept: set[int] = set()
    for number in order:
        if len(kept) >= wanted:
            break
        below: int | None = number
        while below is not None:
            kept.add(below)
            below = scene.things[below].support
    places = {old: new for new, old in enumerate(sorted(kept))}
    things = (scene.things[old] for old in places)
    return replace(
        scene,
        things=tuple(
            replace(thing, support=None if thing.support is None else places[thing.support]) for thing in things
        ),
    )
