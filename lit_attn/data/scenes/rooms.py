"""What stands in room number i? `make_scene` answers from (seed, split, index) and nothing else.

Pairs of colour and kind in `HELD_OUT` occur in the split `compose` alone, at least one of them in each of its scenes.
How a room is filled is the business of `furnish`.
"""

from hashlib import blake2b
from random import Random

from .furnish import furnish
from .world import COLORS, KINDS, ROOMS, Scene, Thing

SPLITS = ("train", "val", "test", "compose")

_HELD_OUT_SHARE = 0.1


def digest(*parts: object) -> int:
    """64 bits that depend on `parts` only: the same in every process and on every machine."""
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "big")


def _hold_out() -> frozenset[tuple[str, str]]:
    pairs = [(color, kind.name) for kind in KINDS.values() for color in kind.colors]
    room_left = {kind.name: max(1, len(kind.colors) // 4) for kind in KINDS.values()}
    room_left |= {color: sum(color == other for other, _ in pairs) // 2 for color in COLORS}
    chosen: set[tuple[str, str]] = set()
    for color, kind in sorted(pairs, key=lambda pair: digest("held out", *pair)):
        if len(chosen) < _HELD_OUT_SHARE * len(pairs) and room_left[color] and room_left[kind]:
            chosen.add((color, kind))
            room_left[color] -= 1
            room_left[kind] -= 1
    return frozenset(chosen)


HELD_OUT: frozenset[tuple[str, str]] = _hold_out()
"""(colour, kind) pairs that only the split `compose` shows; no kind loses more than a quarter of its
pairs, no colour more than half."""


_HELD_OUT_PAIRS = tuple(sorted(HELD_OUT))
_KNOWN_COLORS = {k.name: tuple(c for c in k.colors if (c, k.name) not in HELD_OUT) for k in KINDS.values()}
_ALL_COLORS = {k.name: k.colors for k in KINDS.values()}


def make_scene(seed: int, split: str, index: int) -> Scene:
    """Room `index` of `split`. `things` come in the order in which they are painted, supports first."""
    if split not in SPLITS:
        raise ValueError(f"No split is called {split!r}. Known splits: {', '.join(SPLITS)}.")
    rng = Random(digest(seed, split, index))
    wanted = rng.choice(_HELD_OUT_PAIRS) if split == "compose" else None
    things = None
    while things is None:
        room = rng.choice(KINDS[wanted[1]].rooms if wanted else ROOMS)
        things = furnish(rng, room, _ALL_COLORS if wanted else _KNOWN_COLORS, wanted)
    return Scene(seed, split, index, room, things)


def paint_order(things: tuple[Thing, ...]) -> tuple[int, ...]:
    """Indices from the farthest thing to the nearest: the wall, then the floor by depth, each support with its load."""

    def depth(index: int) -> tuple[bool, float, int, bool, int]:
        thing = things[index]
        root = index if thing.support is None else thing.support
        return not thing.on_wall, things[root].foot, root, thing.support is not None, index

    return tuple(sorted(range(len(things)), key=depth))
