"""Which words say where something is? A typed lexicon of spatial indicators, found by longest match.

It covers what Ilinykh and Dobnik (2022) name, with "underneath", "alongside", "atop", "across", "not far from" and the forms
with "side" beside it. Bare "of", "with" and "for" say nothing about space.

A part of something makes an indicator, too: "in the far corner of the room" is about the room. Its type is that of its first
word, or `direction` where it says left, right, front or back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lit_attn.types import Span

_LEXICON = {
    "region": """in; on; at; inside; inside of; within; outside; outside of; between; in between; among; around; along;
        against; by; beside; next to; alongside; atop; on top; on top of; on the top of; at the top of; in the centre of;
        in the center of; in the middle of; on both sides of; on each side of; on either side of; surrounded by; attached to""",
    "direction": """above; over; below; under; beneath; underneath; behind; in front; in front of; at the back of;
        at the front of; in the back of; in the front of; on the left; on the right; to the left; to the right;
        on the left of; on the right of; to the left of; to the right of; on the left side of; on the right side of;
        to the left side of; to the right side of; on the left hand side of; on the right hand side of; across; across from;
        opposite; opposite to""",
    "distance": "near; near to; close to; far from; not far from; away from; far away from; in the distance",
}
PLACES = frozenset((
    "side", "corner", "end", "edge", "center", "centre", "middle", "top", "bottom", "back", "front", "rear", "left", "right",
    "far", "close", "background", "foreground", "forefront", "distance",
))  # fmt: skip
"""Lemmas of nouns that are places of the picture, if nothing says of what else they are."""
PARTS = PLACES | {"foot", "head", "half", "base", "part", "portion", "inside", "interior", "outside", "length", "rest"}
"""Lemmas of nouns that make an indicator with a preposition before them and "of" after them."""
SIDES = frozenset(("left", "right", "front", "back", "rear"))
INDICATORS: dict[tuple[str, ...], str] = {
    tuple(entry.split()): kind for kind, entries in _LEXICON.items() for entry in entries.split(";")
}
"""Words of an indicator to its type."""
_LONGEST = max(map(len, INDICATORS))


@dataclass(frozen=True)
class Indicator:
    """An indicator at its place in a text."""

    span: Span
    kind: str


def find_indicators(tokens: Sequence[str], labels: Sequence[str]) -> Iterator[Indicator]:
    """From left to right, without overlaps. In "on the left wall" the indicator is "on": there, "left" is about the wall."""
    words = [token.lower() for token in tokens]
    at = 0
    while at < len(words):
        for size in range(min(_LONGEST, len(words) - at), 0, -1):
            kind = INDICATORS.get(tuple(words[at : at + size]))
            if kind is not None and (size == 1 or labels[at + size - 1] not in ("amod", "compound", "nmod")):
                yield Indicator((at, at + size), kind)
                at += size
                break
        else:
            at += 1
