"""What can be in a room, and when a spatial relation holds: the vocabulary and the geometry of the Scenes world.

A scene is a flat front view. Coordinates are relative to the picture, x to the right and y downwards, both in [0, 1].
The back wall reaches from the top to HORIZON, the floor from there to the bottom. A thing that stands on the floor is
nearer to the viewer the lower its foot is. Every relation is decided here, by geometry alone; nobody else defines one.
"""

from dataclasses import dataclass
from enum import StrEnum

HORIZON = 0.55

Box = tuple[float, float, float, float]


class Place(StrEnum):
    """Where a kind of thing lives."""

    FLOOR = "floor"
    WALL = "wall"
    SURFACE = "surface"
    """On top of furniture, or on the floor when it is `loose`."""


@dataclass(frozen=True)
class Kind:
    """A category of things: what it looks like, where it stands, how it is called."""

    name: str
    plural: str
    group: str
    """`furniture`, `appliance`, `decoration`, `object` or `animal`."""
    place: Place
    width: float
    height: float
    """Typical extent, relative to the picture, in the middle of the floor (wall: as drawn)."""
    colors: tuple[str, ...]
    materials: tuple[str, ...]
    rooms: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()
    """Other names, as (singular, plural)."""
    surface: float | None = None
    """Things may rest on it, this share of its height below its upper edge; None: nothing rests on it."""
    shelter: bool = False
    """Small things may lie on the floor under it."""
    loose: bool = False
    """May lie on the floor, too."""
    printed: bool = False
    """May carry a printed word."""


COLORS = ("red", "green", "blue", "yellow", "purple", "orange", "pink", "brown", "black", "white", "gray")
MATERIALS = ("wooden", "metal", "glass", "plastic", "leather", "ceramic", "fabric", "paper", "stone")
SIZES = ("small", "large")
ROOMS = ("bedroom", "kitchen", "living room", "office", "bathroom", "dining room", "classroom", "hallway")
WORDS = (
    "open", "exit", "sale", "tea", "coffee", "milk", "salt", "sugar", "love", "home", "music", "stop", "north", "south", "east",
    "west", "lunch", "menu", "apple", "ocean", "paris", "london", "rome", "tokyo", "math", "art", "poems", "history", "maps",
    "pizza", "juice", "soap", "water", "honey", "rice", "welcome", "quiet", "push", "pull", "private", "toys", "tools", "books",
    "seven", "twelve", "forty", "1984", "2001", "42", "007",
)  # fmt: skip

_BRIGHT = ("red", "green", "blue", "yellow", "purple", "orange", "pink", "black", "white")
_CLOTH = ("red", "green", "blue", "yellow", "purple", "brown", "gray", "white")
_WOODEN = ("brown", "white", "black", "red", "blue", "green", "yellow")
_HOUSE = ("white", "gray", "black", "red", "blue", "green")
_ANYWHERE = ROOMS


def _kind(
    name: str,
    group: str,
    place: Place,
    width: float,
    height: float,
    colors: tuple[str, ...],
    materials: tuple[str, ...],
    rooms: tuple[str, ...],
    *,
    plural: str | None = None,
    **more: object,
) -> Kind:
    return Kind(name, plural or name + "s", group, place, width, height, colors, materials, rooms, **more)  # type: ignore[arg-type]


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind("bed", "furniture", Place.FLOOR, 0.40, 0.26, _CLOTH, ("wooden", "metal"), ("bedroom",), surface=0.45),
        _kind("sofa", "furniture", Place.FLOOR, 0.38, 0.24, _CLOTH, ("leather", "fabric"), ("living room", "office", "hallway"), synonyms=(("couch", "couches"),), surface=0.5),
        _kind("armchair", "furniture", Place.FLOOR, 0.20, 0.25, _CLOTH, ("leather", "fabric"), ("living room", "bedroom", "office", "hallway"), surface=0.5),
        _kind("chair", "furniture", Place.FLOOR, 0.13, 0.26, _WOODEN, ("wooden", "metal", "plastic"), ("kitchen", "dining room", "office", "classroom", "bedroom"), synonyms=(("seat", "seats"),), surface=0.5),
        _kind("stool", "furniture", Place.FLOOR, 0.10, 0.16, _WOODEN, ("wooden", "metal"), ("kitchen", "bathroom", "classroom", "hallway"), surface=0.0),
        _kind("table", "furniture", Place.FLOOR, 0.34, 0.20, _WOODEN, ("wooden", "metal", "glass"), ("kitchen", "dining room", "living room", "classroom", "hallway"), surface=0.0, shelter=True),
        _kind("desk", "furniture", Place.FLOOR, 0.32, 0.22, _WOODEN, ("wooden", "metal"), ("office", "classroom", "bedroom"), surface=0.0, shelter=True),
        _kind("cabinet", "furniture", Place.FLOOR, 0.20, 0.28, _WOODEN, ("wooden", "metal"), ("kitchen", "office", "bathroom", "dining room", "hallway", "classroom"), synonyms=(("cupboard", "cupboards"),), surface=0.0),
        _kind("wardrobe", "furniture", Place.FLOOR, 0.22, 0.46, _WOODEN, ("wooden",), ("bedroom", "hallway"), synonyms=(("closet", "closets"),)),
        _kind("bookcase", "furniture", Place.FLOOR, 0.20, 0.44, _WOODEN, ("wooden", "metal"), ("office", "living room", "classroom", "bedroom"), synonyms=(("bookshelf", "bookshelves"),)),
        _kind("fridge", "appliance", Place.FLOOR, 0.17, 0.42, _HOUSE, ("metal", "plastic"), ("kitchen",), synonyms=(("refrigerator", "refrigerators"),)),
        _kind("oven", "appliance", Place.FLOOR, 0.18, 0.24, _HOUSE, ("metal",), ("kitchen",), synonyms=(("stove", "stoves"),), surface=0.0),
        _kind("bathtub", "appliance", Place.FLOOR, 0.38, 0.19, _HOUSE, ("ceramic", "metal"), ("bathroom",), synonyms=(("bath", "baths"),)),
        _kind("toilet", "appliance", Place.FLOOR, 0.13, 0.23, _HOUSE, ("ceramic",), ("bathroom",)),
        _kind("plant", "decoration", Place.SURFACE, 0.11, 0.22, ("green", "red", "yellow", "pink", "purple"), ("ceramic", "plastic"), _ANYWHERE, loose=True),
        _kind("lamp", "decoration", Place.SURFACE, 0.09, 0.17, _BRIGHT, ("metal", "glass", "fabric"), ("bedroom", "living room", "office", "hallway", "dining room"), synonyms=(("light", "lights"),), loose=True),
        _kind("television", "appliance", Place.SURFACE, 0.20, 0.14, ("black", "gray", "white", "red"), ("plastic", "metal"), ("living room", "bedroom", "classroom"), synonyms=(("tv", "tvs"),)),
        _kind("laptop", "appliance", Place.SURFACE, 0.12, 0.09, ("gray", "black", "white", "red", "blue"), ("metal", "plastic"), ("office", "classroom", "bedroom", "dining room", "living room")),
        _kind("book", "object", Place.SURFACE, 0.08, 0.06, _BRIGHT, ("paper", "leather"), ("bedroom", "living room", "office", "classroom", "hallway"), loose=True, printed=True),
        _kind("cup", "object", Place.SURFACE, 0.05, 0.06, _BRIGHT, ("ceramic", "metal", "plastic", "glass"), ("kitchen", "dining room", "office", "living room", "classroom"), synonyms=(("mug", "mugs"),), printed=True),
        _kind("bowl", "object", Place.SURFACE, 0.09, 0.05, _BRIGHT, ("ceramic", "wooden", "metal", "glass"), ("kitchen", "dining room", "living room")),
        _kind("bottle", "object", Place.SURFACE, 0.04, 0.12, ("green", "brown", "blue", "white", "red", "purple"), ("glass", "plastic"), ("kitchen", "dining room", "bathroom", "office"), loose=True, printed=True),
        _kind("vase", "object", Place.SURFACE, 0.06, 0.12, _BRIGHT, ("ceramic", "glass", "stone"), ("living room", "dining room", "hallway", "bedroom"), loose=True),
        _kind("candle", "object", Place.SURFACE, 0.03, 0.09, ("red", "white", "yellow", "purple", "blue", "orange"), ("glass", "metal"), ("dining room", "bathroom", "bedroom", "living room")),
        _kind("cushion", "object", Place.SURFACE, 0.09, 0.08, _BRIGHT, ("fabric", "leather"), ("bedroom", "living room", "hallway"), synonyms=(("pillow", "pillows"),), loose=True),
        _kind("box", "object", Place.SURFACE, 0.10, 0.08, ("brown", "red", "blue", "white", "yellow", "green"), ("paper", "wooden", "plastic", "metal"), _ANYWHERE, plural="boxes", loose=True, printed=True),
        _kind("ball", "object", Place.SURFACE, 0.07, 0.07, _BRIGHT, ("leather", "plastic"), ("bedroom", "living room", "classroom", "hallway"), loose=True),
        _kind("teddy bear", "object", Place.SURFACE, 0.09, 0.11, ("brown", "white", "pink", "yellow", "gray"), ("fabric",), ("bedroom", "living room", "classroom"), synonyms=(("stuffed bear", "stuffed bears"),), loose=True),
        _kind("cat", "animal", Place.SURFACE, 0.11, 0.10, ("black", "white", "gray", "orange", "brown"), (), ("bedroom", "living room", "kitchen", "office", "hallway"), loose=True),
        _kind("dog", "animal", Place.FLOOR, 0.16, 0.15, ("brown", "black", "white", "gray", "yellow"), (), ("living room", "kitchen", "hallway", "office")),
        _kind("picture", "decoration", Place.WALL, 0.13, 0.12, _BRIGHT, ("wooden", "metal"), _ANYWHERE, synonyms=(("painting", "paintings"),)),
        _kind("poster", "decoration", Place.WALL, 0.13, 0.16, _BRIGHT, ("paper",), ("bedroom", "office", "classroom", "hallway", "kitchen"), printed=True),
        _kind("sign", "decoration", Place.WALL, 0.15, 0.08, ("red", "green", "blue", "yellow", "white", "black", "orange"), ("metal", "wooden", "plastic"), ("kitchen", "office", "classroom", "hallway", "bathroom"), printed=True),
        _kind("mirror", "decoration", Place.WALL, 0.12, 0.18, ("white", "black", "brown", "yellow", "gray"), ("wooden", "metal"), ("bathroom", "bedroom", "hallway", "living room")),
        _kind("clock", "decoration", Place.WALL, 0.09, 0.09, _BRIGHT, ("wooden", "metal", "plastic"), _ANYWHERE),
        _kind("window", "decoration", Place.WALL, 0.20, 0.22, ("white", "brown", "blue", "green", "gray"), ("wooden", "metal", "plastic"), _ANYWHERE),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Thing:
    """One object of a scene."""

    kind: str
    color: str
    size: str
    material: str | None
    """None for animals."""
    box: Box
    foot: float
    """Depth: y of the point where it meets the floor, or that of its support; HORIZON on the wall. Larger is nearer."""
    support: int | None = None
    """Index of the thing it rests on; None on the floor or the wall."""
    word: str | None = None
    """The word printed on it."""

    @property
    def center(self) -> tuple[float, float]:
        x1, y1, x2, y2 = self.box
        return (x1 + x2) / 2, (y1 + y2) / 2

    @property
    def on_wall(self) -> bool:
        return KINDS[self.kind].place is Place.WALL


@dataclass(frozen=True)
class Scene:
    """A furnished room. `seed`, `split` and `index` name it; nothing else went into making it."""

    seed: int
    split: str
    index: int
    room: str
    things: tuple[Thing, ...]
    """At most one thing hides another only in part; supports come before what rests on them."""

    @property
    def scene_id(self) -> str:
        return f"{self.split}-{self.seed}-{self.index}"


class Relation(StrEnum):
    """Binary spatial relations; the value is the plainest English for it."""

    ON = "on"
    UNDER = "under"
    LEFT = "left of"
    RIGHT = "right of"
    BEHIND = "behind"
    FRONT = "in front of"
    NEXT = "next to"
    ABOVE = "above"
    BELOW = "below"
    NEAR = "near"


KIND_OF_RELATION = {
    Relation.ON: "region",
    Relation.NEXT: "region",
    Relation.UNDER: "direction",
    Relation.LEFT: "direction",
    Relation.RIGHT: "direction",
    Relation.BEHIND: "direction",
    Relation.FRONT: "direction",
    Relation.ABOVE: "direction",
    Relation.BELOW: "direction",
    Relation.NEAR: "distance",
}
"""Types as in the study of spatial relations: region, direction, distance."""


def holds(relation: Relation, scene: Scene, target: int, landmark: int) -> bool:
    """Whether `target` stands in `relation` to `landmark`. No thing is related to itself."""
    if target == landmark:
        return False
    a, b = scene.things[target], scene.things[landmark]
    match relation:
        case Relation.ON:
            return a.support == landmark
        case Relation.UNDER:
            return a.support is None and not a.on_wall and KINDS[b.kind].shelter and _inside(a.box, b.box)
        case Relation.LEFT:
            return a.center[0] < b.center[0] - 0.08
        case Relation.RIGHT:
            return holds(Relation.LEFT, scene, landmark, target)
        case Relation.BEHIND:
            return (
                not a.on_wall
                and not b.on_wall
                and a.support is None
                and b.support is None
                and a.foot < b.foot - 0.06
                and _overlap(a.box, b.box) > 0.25
            )
        case Relation.FRONT:
            return holds(Relation.BEHIND, scene, landmark, target)
        case Relation.NEXT:
            same_ground = (a.support == b.support) and (a.on_wall == b.on_wall) and abs(a.foot - b.foot) < 0.12
            level = not a.on_wall or abs(a.center[1] - b.center[1]) < 0.12
            return same_ground and level and _overlap(a.box, b.box) < 0.2 and _gap(a.box, b.box) < 0.08
        case Relation.ABOVE:
            return a.on_wall and a.box[3] <= b.box[1] + 0.02 and _overlap(a.box, b.box) > 0.5
        case Relation.BELOW:
            return holds(Relation.ABOVE, scene, landmark, target)
        case Relation.NEAR:
            return (
                a.support is None
                and b.support is None
                and a.on_wall == b.on_wall
                and abs(a.foot - b.foot) < 0.2
                and _gap(a.box, b.box) < 0.15
            )


def _overlap(a: Box, b: Box) -> float:
    """Shared horizontal extent, as a share of the narrower box."""
    shared = min(a[2], b[2]) - max(a[0], b[0])
    return max(0.0, shared) / max(1e-9, min(a[2] - a[0], b[2] - b[0]))


def _gap(a: Box, b: Box) -> float:
    """Horizontal distance between two boxes; 0 when they overlap."""
    return max(0.0, max(a[0], b[0]) - min(a[2], b[2]))


def _inside(a: Box, b: Box) -> bool:
    """Whether box a lies in the horizontal extent of b and below its upper third."""
    return a[0] >= b[0] and a[2] <= b[2] and a[1] >= b[1] + (b[3] - b[1]) / 3 and a[3] <= b[3] + 0.02
