"""How is a room filled with things? Furniture first, then the wall, then small things on, under and beside the furniture.

The room decides the kinds. Furniture stands on the floor at different depths, and nearer things are drawn larger. A place
is taken only if every thing keeps at least 60 % of its box visible: the areas that nearer boxes take from it are added
up, which can only overstate what is hidden.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from .world import HORIZON, KINDS, ROOMS, SIZES, WORDS, Box, Kind, Place, Thing

MIN_THINGS = 5
MAX_THINGS = 12
SCALES = {"small": 0.8, "large": 1.25}
"""How much a size changes the extent of a thing."""

T = TypeVar("T")

_MAX_HIDDEN = 0.4
_MAX_HIDDEN_WALL = 0.25
_WORD_SHARE = 0.4
_REPEAT_SHARE = 0.3
_TRIES = 8
_MARGIN = 0.012
_DEPTH_STEP = 0.06
_CLEAR = 0.022

_ANCHORS = {
    "bedroom": ("bed",),
    "kitchen": ("fridge", "oven", "table"),
    "living room": ("sofa",),
    "office": ("desk",),
    "bathroom": ("bathtub", "toilet"),
    "dining room": ("table",),
    "classroom": ("desk", "table"),
    "hallway": ("cabinet", "wardrobe", "table"),
}
_LIMITS = {"fridge": 1, "oven": 1, "bathtub": 1, "toilet": 1, "wardrobe": 1, "bed": 2, "sofa": 2, "table": 2, "desk": 2}
_AGAINST_WALL = frozenset({"wardrobe", "bookcase", "fridge", "oven", "cabinet", "toilet"})
_SOFT = frozenset({"bed", "sofa", "armchair", "chair"})
_FOR_SOFT = frozenset({"cushion", "book", "teddy bear", "cat", "laptop", "box", "ball"})
_ONLY_SOFT = frozenset({"cushion"})
_FOR_OVEN = frozenset({"bowl", "cup", "bottle", "box"})
_BY_ROOM = {
    (room, place): tuple(k.name for k in KINDS.values() if k.place is place and room in k.rooms)
    for room in ROOMS
    for place in Place
}
for _room in KINDS["television"].rooms:  # needs a wide surface, so it is offered more often
    _BY_ROOM[_room, Place.SURFACE] += ("television",) * 3
for _room in KINDS["chair"].rooms:
    _BY_ROOM[_room, Place.FLOOR] += ("chair",)


def furnish(
    rng: Random, room: str, colors: Mapping[str, tuple[str, ...]], wanted: tuple[str, str] | None
) -> tuple[Thing, ...] | None:
    """The things of one room, in the order in which they are painted.

    `colors` are those each kind may have; `wanted` is a pair of colour and kind that must be there. None: there was no
    place for `wanted`, or for five things; try again.
    """
    builder = _Builder(rng, room, colors, wanted)
    builder.fill()
    enough = len(builder.drafts) >= MIN_THINGS and builder.wanted is None
    return builder.things() if enough else None


def depth_scale(foot: float) -> float:
    """How large a thing is drawn whose foot is at this height: 1 in the middle of the floor, more in front of it."""
    return 0.8 + 0.4 * (foot - HORIZON) / (1 - HORIZON)


def _pick(rng: Random, options: tuple[T, ...]) -> T:
    return options[int(rng.random() * len(options))]


def _shared_area(a: Box, b: Box) -> float:
    width = (a[2] if a[2] < b[2] else b[2]) - (a[0] if a[0] > b[0] else b[0])
    if width <= 0:
        return 0.0
    height = (a[3] if a[3] < b[3] else b[3]) - (a[1] if a[1] > b[1] else b[1])
    return width * height if height > 0 else 0.0


@dataclass(slots=True)
class _Draft:
    """A thing that has its place; `hidden` is the area nearer boxes take from it."""

    kind: Kind
    color: str
    size: str
    box: Box
    foot: float
    depth: float
    """Order of painting; -1 on the wall."""
    support: "_Draft | None"
    max_hidden: float
    hidden: float = 0.0


class _Builder:
    """One room while it is being furnished. `wanted` is the pair that still has to find its place."""

    def __init__(
        self, rng: Random, room: str, colors: Mapping[str, tuple[str, ...]], wanted: tuple[str, str] | None
    ) -> None:
        self.rng = rng
        self.room = room
        self.colors = colors
        self.wanted = wanted
        self.drafts: list[_Draft] = []

    def fill(self) -> None:
        rng = self.rng
        total = MIN_THINGS + int(rng.random() * (MAX_THINGS + 1 - MIN_THINGS))
        on_floor = 2 + int(rng.random() * min(4, total - 3)) if total < 7 else 3 + int(rng.random() * 3)
        on_wall = 1 + int(rng.random() * min(3, total - on_floor - 1))
        self._add(_pick(rng, _ANCHORS[self.room]), self._on_floor)
        for _ in range(on_floor - 1):
            self._add(self._choose(Place.FLOOR), self._on_floor)
        for _ in range(on_wall):
            self._add(self._choose(Place.WALL), self._on_wall)
        for _ in range(2 * (total - len(self.drafts))):
            if len(self.drafts) == total:
                break
            chance = rng.random()
            where = self._on_surface if chance < 0.6 else self._under if chance < 0.85 else self._on_floor
            self._add(self._choose(Place.SURFACE), where)

    def things(self) -> tuple[Thing, ...]:
        rng = self.rng
        ordered = sorted(self.drafts, key=lambda draft: draft.depth)
        index = {id(draft): i for i, draft in enumerate(ordered)}
        words: set[str] = set()
        result = []
        for draft in ordered:
            kind = draft.kind
            word = None
            if kind.printed and rng.random() < _WORD_SHARE:
                word = _pick(rng, tuple(w for w in WORDS if w not in words))
                words.add(word)
            material = _pick(rng, kind.materials) if kind.materials else None
            support = None if draft.support is None else index[id(draft.support)]
            result.append(Thing(kind.name, draft.color, draft.size, material, draft.box, draft.foot, support, word))
        return tuple(result)

    def _choose(self, place: Place) -> str:
        """A kind of this room; often one that is here already, so that colours matter."""
        if self.wanted is not None and KINDS[self.wanted[1]].place is place:
            return self.wanted[1]
        if self.rng.random() < _REPEAT_SHARE:
            here = tuple(draft.kind.name for draft in self.drafts if draft.kind.place is place)
            if here:
                return _pick(self.rng, here)
        return _pick(self.rng, _BY_ROOM[self.room, place])

    def _add(self, name: str, where: "_Where") -> None:
        """Find a place for a new thing of this kind, or leave it out."""
        rng = self.rng
        kind = KINDS[name]
        taken = [draft.color for draft in self.drafts if draft.kind is kind]
        if len(taken) >= _LIMITS.get(name, 3):
            return
        wanted = self.wanted is not None and self.wanted[1] == name
        size = _pick(rng, SIZES)
        color = self.wanted[0] if self.wanted is not None and wanted else _pick(rng, self.colors[name])
        if color in taken and not wanted and rng.random() < 0.8:
            color = _pick(rng, tuple(c for c in self.colors[name] if c not in taken) or self.colors[name])
        for _ in range(_TRIES):
            draft = where(kind, color, size, SCALES[size] * (0.96 + 0.08 * rng.random()))
            if draft is None:
                return
            if self._settle(draft):
                self.wanted = None if wanted else self.wanted
                return

    def _on_floor(self, kind: Kind, color: str, size: str, scale: float) -> _Draft | None:
        if kind.place is Place.SURFACE and not kind.loose:
            return self._on_surface(kind, color, size, scale)
        near = self.rng.random()
        foot = 0.62 + 0.1 * near if kind.name in _AGAINST_WALL else 0.66 + 0.31 * near
        scale *= depth_scale(foot)
        width, height = kind.width * scale, kind.height * scale
        x = _MARGIN + self.rng.random() * (1 - 2 * _MARGIN - width)
        return _Draft(kind, color, size, (x, foot - height, x + width, foot), foot, foot, None, _MAX_HIDDEN)

    def _under(self, kind: Kind, color: str, size: str, scale: float) -> _Draft | None:
        """On the floor below a table, a little nearer than its legs, so that it is seen."""
        tables = tuple(draft for draft in self.drafts if draft.kind.shelter)
        if not tables or not kind.loose:
            return self._on_floor(kind, color, size, scale)
        table = _pick(self.rng, tables)
        left, top, right, bottom = table.box
        foot = bottom + 0.004 + 0.012 * self.rng.random()
        scale *= depth_scale(foot)
        width, height = kind.width * scale, kind.height * scale
        free = 0.8 * (right - left) - width
        if free < 0 or foot > 0.99 or foot - height < top + 0.36 * (bottom - top):
            return self._on_floor(kind, color, size, scale / depth_scale(foot))
        x = left + 0.1 * (right - left) + self.rng.random() * free
        return _Draft(kind, color, size, (x, foot - height, x + width, foot), foot, foot, None, _MAX_HIDDEN)

    def _on_surface(self, kind: Kind, color: str, size: str, scale: float) -> _Draft | None:
        supports = tuple(draft for draft in self.drafts if _carries(draft.kind, kind))
        if not supports:
            return self._on_floor(kind, color, size, scale) if kind.loose else None
        support = _pick(self.rng, supports)
        left, top, right, bottom = support.box
        scale *= depth_scale(support.foot)
        width, height = kind.width * scale, kind.height * scale
        inset = 0.04 * (right - left)
        free = right - left - 2 * inset - width
        line = top + (support.kind.surface or 0.0) * (bottom - top)
        if free < 0 or line - height < 0:
            return self._on_floor(kind, color, size, scale / depth_scale(support.foot)) if kind.loose else None
        x = left + inset + self.rng.random() * free
        box = (x, line - height, x + width, line)
        return _Draft(kind, color, size, box, support.foot, support.depth + 1e-6, support, _MAX_HIDDEN)

    def _on_wall(self, kind: Kind, color: str, size: str, scale: float) -> _Draft | None:
        width, height = kind.width * scale, kind.height * scale
        x = _MARGIN + self.rng.random() * (1 - 2 * _MARGIN - width)
        y = 0.03 + self.rng.random() * (HORIZON - 0.08 - height)
        return _Draft(kind, color, size, (x, y, x + width, y + height), HORIZON, -1.0, None, _MAX_HIDDEN_WALL)

    def _settle(self, new: _Draft) -> bool:
        """Keep the draft if nothing is in its way and it hides nothing too much."""
        box = new.box
        hides: list[tuple[_Draft, float]] = []
        for other in self.drafts:
            if _collide(new, other) or _seems_on(new, other) or _seems_on(other, new):
                return False
            area = _shared_area(box, other.box)
            if not area:
                continue
            if other.depth > new.depth:
                new.hidden += area
            elif other.hidden + area > other.max_hidden * _area(other.box):
                return False
            else:
                hides.append((other, area))
        if new.hidden > new.max_hidden * _area(box):
            return False
        for other, area in hides:
            other.hidden += area
        self.drafts.append(new)
        return True


def _carries(support: Kind, kind: Kind) -> bool:
    if support.surface is None:
        return False
    if support.name in _SOFT:
        return kind.name in _FOR_SOFT
    return kind.name in _FOR_OVEN if support.name == "oven" else kind.name not in _ONLY_SOFT


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _collide(new: _Draft, other: _Draft) -> bool:
    """Whether the two would stand in the same spot: on one surface, on the wall, or at one depth of the floor."""
    if new.support is not other.support or (new.depth < 0) != (other.depth < 0):
        return False
    a, b = new.box, other.box
    gap = (a[0] if a[0] > b[0] else b[0]) - (a[2] if a[2] < b[2] else b[2])
    if new.support is not None:
        return gap < 0.004
    if new.depth < 0:
        return gap < 0.015 and max(a[1], b[1]) - min(a[3], b[3]) < 0.015
    if abs(new.foot - other.foot) >= _DEPTH_STEP or gap >= 0:
        return False
    table, small = (other, new) if other.kind.shelter else (new, other)
    return not (table.kind.shelter and small.kind.loose and _sheltered(small.box, table.box))


def _seems_on(far: _Draft, near: _Draft) -> bool:
    """Whether the far thing would look as if it stood on the near one, which it does not."""
    surface = near.kind.surface
    if surface is None or far.depth >= near.depth or near.support is not None:
        return False
    a, b = far.box, near.box
    return abs(a[3] - b[1] - surface * (b[3] - b[1])) < _CLEAR and a[0] < b[2] and b[0] < a[2]


def _sheltered(small: Box, table: Box) -> bool:
    """Whether a box on the floor is below a table: between its ends, a little nearer, under the upper third."""
    low = small[1] > table[1] + (table[3] - table[1]) / 3 and 0 < small[3] - table[3] < 0.02
    return low and table[0] < small[0] and small[2] < table[2]


_Where = Callable[[Kind, str, str, float], _Draft | None]
