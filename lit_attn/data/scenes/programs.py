"""What does a question ask, step by step? Functional programs in the style of CLEVR, and the machine that runs them.

A program is a row of steps; each names a function, the earlier steps it reads, and constants. `relate` takes a relation
of the world (its value, such as "left of") and gives the things that stand in this relation to the one it reads.
Source: Johnson et al., CLEVR (2017). Deviations: "shape" is "kind", relations are those of Scenes, there is no `same_*`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .world import COLORS, KINDS, MATERIALS, SIZES, Relation, Scene, holds

ATTRIBUTES = ("kind", "color", "size", "material")
ANSWERS: tuple[str, ...] = ("yes", "no", *map(str, range(13)), *COLORS, *SIZES, *MATERIALS, *KINDS)
"""Every answer a program can give."""


class Step(NamedTuple):
    """One function call of a program."""

    function: str
    inputs: tuple[int, ...] = ()
    value_inputs: tuple[str, ...] = ()


class Value(NamedTuple):
    """What a step gave: a set of things (tuple), one thing (int) or a word (str); and the things that it rests on."""

    content: tuple[int, ...] | int | str
    causes: frozenset[int]


Relating = dict[tuple[str, int], tuple[int, ...]]
"""Results of `relate`, kept between programs about one scene."""


def execute(program: Sequence[Step], scene: Scene) -> tuple[str, tuple[int, ...]]:
    """The answer, and the things that cause it: those selected at the end and the landmarks on the way."""
    values = run(program, scene)
    if not values or not isinstance(values[-1].content, str):
        raise ValueError(f"Program {program!r} gives no answer; end it with count, exist, query_* or a comparison.")
    return values[-1].content, tuple(sorted(values[-1].causes))


def run(program: Sequence[Step], scene: Scene, relating: Relating | None = None) -> list[Value]:
    """The value of every step."""
    relating = {} if relating is None else relating
    values: list[Value] = []
    for step in program:
        values.append(_call(step, [values[i] for i in step.inputs], scene, relating))
    return values


def _call(step: Step, inputs: list[Value], scene: Scene, relating: Relating) -> Value:
    function, _, constants = step
    verb, _, attribute = function.partition("_")
    causes = frozenset[int]().union(*(value.causes for value in inputs))
    content: tuple[int, ...] | int | str
    match [verb, *(value.content for value in inputs)]:
        case ["scene"]:
            content = tuple(range(len(scene.things)))
        case ["filter", tuple(found)] if attribute in ATTRIBUTES:
            content = tuple(i for i in found if getattr(scene.things[i], attribute) == constants[0])
        case ["relate", int(landmark)]:
            content = related(constants[0], landmark, scene, relating)
        case ["unique", tuple(found)]:
            if len(found) != 1:
                raise ValueError(f"`unique` needs exactly one thing, got {found}; describe the thing more closely.")
            content, causes = found[0], causes | {found[0]}
        case ["union", tuple(one), tuple(two)]:
            content = tuple(sorted({*one, *two}))
        case ["intersect", tuple(one), tuple(two)]:
            content = tuple(i for i in one if i in two)
        case ["count", tuple(found)]:
            content, causes = str(len(found)), causes.union(found)
        case ["exist", tuple(found)]:
            content, causes = _yes(bool(found)), causes.union(found)
        case ["query", int(thing)] if attribute in ATTRIBUTES:
            content = str(getattr(scene.things[thing], attribute))
        case ["equal", str(left), str(right)] if attribute in (*ATTRIBUTES, "integer"):
            content = _yes(left == right)
        case ["less", str(left), str(right)]:
            content = _yes(int(left) < int(right))
        case ["greater", str(left), str(right)]:
            content = _yes(int(left) > int(right))
        case _:
            got = [type(value.content).__name__ for value in inputs]
            raise ValueError(
                f"No function {function!r} takes inputs {got}. Known: scene, filter_*, relate, unique, union, intersect, "
                "count, exist, query_*, equal_*, equal_integer, less_than, greater_than."
            )
    return Value(content, causes)


def related(relation: str, landmark: int, scene: Scene, relating: Relating) -> tuple[int, ...]:
    """The things that stand in a relation to a landmark."""
    key = (relation, landmark)
    if key not in relating:
        kind = Relation(relation)
        relating[key] = tuple(i for i in range(len(scene.things)) if holds(kind, scene, i, landmark))
    return relating[key]


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
