"""Does `satisfied` find the best assignment? Compared with trying every one."""

import pickle
from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest

from lit_attn.data.scenes.meaning import PLACES, Count, Description, Meaning, SceneFacts, is_at, satisfied
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, HORIZON, ROOMS, Relation, Scene, Thing, holds

DESK = Thing("desk", "brown", "large", "wooden", (0.1, 0.6, 0.5, 0.85), 0.85)
CUP = Thing("cup", "red", "small", "ceramic", (0.2, 0.54, 0.25, 0.6), 0.85, support=0, word="tea")
MUG = Thing("cup", "blue", "small", "metal", (0.35, 0.54, 0.4, 0.6), 0.85, support=0)
CLOCK = Thing("clock", "black", "small", "metal", (0.7, 0.1, 0.8, 0.2), HORIZON)
OFFICE = Scene(0, "hand", 0, "office", (DESK, CUP, MUG, CLOCK))


def looks(thing: Thing, description: Description) -> list[bool]:
    names = ("kind", "color", "size", "material", "word")
    told = [(name, getattr(description, name)) for name in names]
    found = [getattr(thing, name) == value for name, value in told if value is not None]
    return found + ([is_at(thing, description.place)] if description.place is not None else [])


def try_everything(meaning: Meaning, scene: Scene) -> float:
    """The definition: the best of all assignments of distinct things, variables that get none have None."""
    options = [*range(len(scene.things)), *[None] * max(0, len(meaning.variables) - len(scene.things))]
    best = 0.0
    for chosen in permutations(options, len(meaning.variables)):
        truths = [] if meaning.room is None else [meaning.room == scene.room]
        for variable, i in zip(meaning.variables, chosen, strict=True):
            truths += [False] * len(looks(DESK, variable)) if i is None else looks(scene.things[i], variable)
        for relation, t, m in meaning.relations:
            a, b = chosen[t], chosen[m]
            truths.append(a is not None and b is not None and holds(relation, scene, a, b))
        for count in meaning.counts:
            fitting = [i for i, thing in enumerate(scene.things) if all(looks(thing, count.description))]
            if count.relation is not None and count.landmark is not None:
                at = chosen[count.landmark]
                fitting = [i for i in fitting if at is not None and holds(count.relation, scene, i, at)]
                truths.append(at is not None and len(fitting) == count.number)
            else:
                truths.append(len(fitting) == count.number)
        best = max(best, sum(truths) / len(truths) if truths else 1.0)
    return best


@pytest.mark.parametrize(
    ("meaning", "share"),
    [
        (Meaning(), 1.0),
        (Meaning((Description("desk", "brown"),)), 1.0),
        (Meaning((Description("desk", "red"),)), 0.5),
        (Meaning((Description("cup"), Description("cup"), Description("cup"))), 2 / 3),
        (Meaning((Description("cup", word="tea"), Description("desk")), ((Relation.ON, 0, 1),)), 1.0),
        (Meaning((Description("cup"), Description("desk")), ((Relation.ON, 1, 0),)), 2 / 3),
        (Meaning(counts=(Count(Description("cup"), 2),)), 1.0),
        (Meaning(counts=(Count(Description("cup"), 1),)), 0.0),
        (Meaning(counts=(Count(Description("cup", "red"), 1),), room="kitchen"), 0.5),
        (Meaning((Description("desk"),), counts=(Count(Description("cup"), 2, Relation.ON, 0),)), 1.0),
        (Meaning((Description("desk"),), counts=(Count(Description("cup"), 1, Relation.ON, 0),)), 0.5),
        (Meaning((Description("clock", place="right"),), room="office"), 1.0),
        (Meaning((Description("clock", place="floor"),), room="office"), 2 / 3),
    ],
)
def test_hand_made_meanings(meaning: Meaning, share: float) -> None:
    assert satisfied(meaning, OFFICE) == pytest.approx(share)
    assert try_everything(meaning, OFFICE) == pytest.approx(share)
    assert satisfied(meaning, SceneFacts(OFFICE)) == satisfied(meaning, OFFICE)


def test_search_agrees_with_trying_everything() -> None:
    rng = Random(7)
    partial = 0
    for index in range(150):
        scene = make_scene(5, "train", index)
        scene = Scene(scene.seed, scene.split, scene.index, scene.room, scene.things[: rng.choice((2, 4, 5))])
        meaning = random_meaning(rng, scene)
        expected = try_everything(meaning, scene)
        partial += 0.0 < expected < 1.0
        assert satisfied(meaning, scene) == pytest.approx(expected), meaning
    assert partial > 75


def random_meaning(rng: Random, scene: Scene) -> Meaning:
    size = rng.randint(1, 3)

    def description() -> Description:
        one = rng.choice(scene.things)
        color = rng.choice((one.color, rng.choice(COLORS), None))
        return Description(
            rng.choice((one.kind, None)), color, rng.choice((one.size, None)), place=rng.choice((*PLACES, None))
        )

    relations = []
    if size > 1:
        relations = [(rng.choice(list(Relation)), *rng.sample(range(size), 2)) for _ in range(rng.randint(0, 3))]
    counts = []
    if rng.random() < 0.5:
        counts.append(Count(Description(rng.choice(scene.things).kind), rng.randint(0, 2)))
    if rng.random() < 0.5:
        counts.append(Count(description(), rng.randint(0, 2), rng.choice(list(Relation)), rng.randrange(size)))
    room = rng.choice((None, *ROOMS))
    return Meaning(tuple(description() for _ in range(size)), tuple(relations), tuple(counts), room)


def test_an_unknown_place_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"attic.*Known places: left"):
        is_at(DESK, "attic")


def test_things_in_other_scenes_satisfy_less(run_elsewhere: Callable[..., bytes]) -> None:
    code = """
import pickle, sys
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.meaning import SceneFacts, satisfied
from lit_attn.data.scenes.rooms import make_scene
scenes = [make_scene(6, "val", index) for index in range(40)]
facts = [SceneFacts(scene) for scene in scenes]
rows = [[satisfied(told.meaning, fact) for fact in facts] for scene in scenes for told in captions(scene, 2)]
pickle.dump(rows, sys.stdout.buffer)
"""
    rows = pickle.loads(run_elsewhere(code))  # noqa: S301
    others = [value for n, row in enumerate(rows) for i, value in enumerate(row) if i != n // 2]
    assert all(row[n // 2] == 1.0 for n, row in enumerate(rows))
    assert 0.2 < sum(others) / len(others) < 0.6
