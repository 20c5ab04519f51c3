"""How is a sentence built before anyone knows what it is about? The notation of frames, and its compiler.

A frame is a row of items `name/label>parent`; the parent is named, the root has the label ROOT. What a name means:

    A B C D     a thing: "a red cup", and "the cup" once it is known
    N           several things of one kind, counted: "two red cups"
    the.A it.A  the same thing again: "the cup", "it"; `they.AB` for two; `other.A`: "the other one"
    a.A any.A   in questions, where A alone is definite: "a cup", "any cups"; `bare.A`: "cups"
    AB          words for a relation of A to B; `AB+CB`: of both A and C to B
    is@A        a verb that agrees with A: is, exists ("there is"), having, stands (sits, lies, hangs …), standing
    stand@AC    the posture that A and C share, for a joint subject
    color.A     the colour of A as a predicate
    a_ROOM      the name of the room with its determiner; also the_ROOM, this_ROOM
    the_wall    a phrase of words joined by `_`, which names no thing
    on          any other word; a digit behind it keeps two uses apart (`is2`)

`needs` restricts what a frame is about: "AB=on|under" relations, "A=wall" a place, "A=movable" a small thing. In a
paragraph, "A=new" and "A=old" tell whether a thing was named before; "A=focus" is what the last sentence was about,
"A=pair" one of the two things it named, "A=twin" the other known thing of the same kind as the focus.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from .grammar import Fragment, fragment, word
from .lexicon import LEXICON
from .meaning import PLACES
from .world import Relation

_LETTERS = ("A", "B", "C", "D", "N")
_AGAIN = {
    "the": "again",
    "it": "pronoun",
    "they": "pronoun",
    "color": "color",
    "other": "other",
    "a": "thing",
    "any": "thing",
    "bare": "thing",
}
STATUS = ("new", "old", "focus", "pair", "twin")
"""What a listener may know of a thing."""
_POSTURES = ("stands", "standing", "stand")
_RELATION = re.compile(r"[A-DN]{2}(\+[A-DN]{2})*")


class Item(NamedTuple):
    """One element of a frame. `what` is word, thing, again, other, pronoun, relation, verb, color or room."""

    what: str
    letter: str
    form: str
    fragment: Fragment | None
    dep: str
    parent: int
    completes: bool
    tie: int
    """Number of the first tie that a relation stands for, else -1."""


class Tie(NamedTuple):
    """A relation of a frame: its letters, where its words stand, where target and landmark are named (-1: nowhere)."""

    target: str
    landmark: str
    item: int
    target_item: int
    landmark_item: int
    allowed: frozenset[Relation] | None
    like: int
    """Number of the tie whose relation it must share, or -1."""


@dataclass(frozen=True)
class Frame:
    """A named sentence frame, ready to be filled."""

    name: str
    items: tuple[Item, ...]
    ties: tuple[Tie, ...]
    letters: tuple[str, ...]
    """The things it is about, N for several, in the order of their first mention."""
    singles: tuple[str, ...]
    """The letters without N."""
    conditions: dict[str, str]
    """Letter to a place, or `movable`."""
    status: dict[str, str]
    """Letter to one of `STATUS`, for paragraphs."""
    moving: frozenset[str]
    """Letters whose posture is named, joint ones together."""
    predicates: frozenset[str]
    """Letters whose colour is a predicate."""
    distinct: bool
    """Whether no two of its things may be of one kind, since it says "it" or "the cup"."""
    room: bool


def frame(name: str, text: str, needs: str = "") -> Frame:
    """Compiles the notation."""
    pieces = [re.fullmatch(r"([^/>@]+)(?:@(\w+))?(?:/(\w+))?(?:>(.+))?", piece) for piece in text.split()]
    if not all(pieces):
        raise ValueError(f"Frame {name!r}: {text!r} has an item that is not of the form name@letter/label>parent.")
    rows = [piece.groups(default="") for piece in pieces if piece]
    names = [row[0] for row in rows]
    items: list[Item] = []
    count = 0
    for label, agrees, dep, parent in rows:
        if dep != "ROOT" and parent not in names:
            raise ValueError(f"Frame {name!r}: item {label!r} hangs on {parent!r}, which is none of {names}.")
        at = names.index(label if dep == "ROOT" else parent)
        completes = dep == "pobj" and _RELATION.fullmatch(parent) is not None
        read = _read(label, agrees)
        related = read[0] == "relation"
        items.append(Item(*read, dep, at, completes, count if related else -1))
        count += len(label.split("+")) if related else 0
    conditions, status, allowed = _needs(needs, name)
    ties: list[Tie] = []
    for i, item in enumerate(items):
        if item.what == "relation":
            first = len(ties)
            for n, pair in enumerate(item.form.split("+")):
                target, landmark = pair[0], pair[1]
                spots = (_before(items, target, i), _after(items, landmark, i))
                ties.append(Tie(target, landmark, i, *spots, allowed.get(item.form[:2]), first if n else -1))
    letters = "".join(item.letter for item in items)
    return Frame(
        name,
        tuple(items),
        tuple(ties),
        tuple(dict.fromkeys(letters)),
        tuple(letter for letter in dict.fromkeys(letters) if letter != "N"),
        conditions,
        status,
        frozenset(item.letter for item in items if item.form in _POSTURES),
        frozenset(item.letter for item in items if item.what == "color"),
        any(item.what in ("again", "pronoun") for item in items),
        any(item.what == "room" for item in items),
    )


def _read(label: str, agrees: str) -> tuple[str, str, str, Fragment | None]:
    """What an item is, which thing it belongs to, its form, its words if they are known already."""
    if _RELATION.fullmatch(label):
        return "relation", "", label, None
    if label in _LETTERS:
        return "thing", label, label, None
    before, dot, letter = label.partition(".")
    if dot and before:
        return _AGAIN[before], letter, before, None
    form = label.rstrip("23")
    if agrees:
        return "verb", agrees, form, None
    if form.endswith("_ROOM"):
        return "room", "", form.removesuffix("_ROOM"), None
    if "_" in form and form not in LEXICON:
        *first, last = form.split("_")
        first = [f"{first[0]}_one", *first[1:]] if first[0] in ("which", "what") else first
        text = " ".join(f"{w}/{'det' if LEXICON[w].pos == 'DET' else 'amod'}>{last}" for w in first)
        return "word", "", form, fragment(f"{text} {last}", LEXICON)
    return "word", "", form, word(*LEXICON[form])


def _needs(needs: str, name: str) -> tuple[dict[str, str], dict[str, str], dict[str, frozenset[Relation]]]:
    conditions, status, allowed = {}, {}, {}
    for need in needs.split():
        key, _, value = need.partition("=")
        if len(key) == 2:
            allowed[key] = frozenset(Relation[relation.upper()] for relation in value.split("|"))
        elif value in PLACES or value == "movable":
            conditions[key] = value
        elif value in STATUS:
            status[key] = value
        else:
            known = ", ".join(("movable", *PLACES, *STATUS))
            raise ValueError(f"Frame {name!r}: {value!r} is no condition. Known: {known}.")
    return conditions, status, allowed


def _naming(items: list[Item], letter: str) -> list[int]:
    return [i for i, item in enumerate(items) if item.letter == letter and item.what in ("thing", "again", "other")]


def _before(items: list[Item], letter: str, i: int) -> int:
    """The last item before i that names a thing, else the first one behind it, else -1."""
    found = _naming(items, letter)
    return max((n for n in found if n < i), default=min(found, default=-1))


def _after(items: list[Item], letter: str, i: int) -> int:
    """The first item behind i that names a thing, else the last one before it, else -1."""
    found = _naming(items, letter)
    return min((n for n in found if n > i), default=max(found, default=-1))
