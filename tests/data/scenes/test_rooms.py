"""Are the rooms what they promise: reproducible, valid, visible, plausible, and honest about the held-out pairs?"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

from lit_attn.data.scenes.furnish import MAX_THINGS, MIN_THINGS, depth_scale
from lit_attn.data.scenes.rooms import HELD_OUT, SPLITS, digest, make_scene, paint_order
from lit_attn.data.scenes.world import COLORS, HORIZON, KINDS, ROOMS, WORDS, Place, Relation, Scene, holds

TEACHING = ("train", "val", "test")


Maker = Callable[[int, str, int], list[Scene]]


@pytest.fixture(scope="module")
def scenes(scenes_of: Maker) -> list[Scene]:
    return [scene for split in SPLITS for scene in scenes_of(3, split, 250)]


def test_same_scene_in_another_process(scenes_of: Maker) -> None:
    """The string hash is salted anew in every process, so nothing may depend on it."""
    for split in SPLITS:
        assert scenes_of(5, split, 20) == [make_scene(5, split, index) for index in range(20)]


def test_order_of_making_does_not_matter() -> None:
    forward = [make_scene(0, "val", index) for index in range(50)]
    backward = [make_scene(0, "val", index) for index in reversed(range(50))]
    assert forward == backward[::-1]


def test_digest_is_pinned() -> None:
    """Changing it would change every data set and every pretrained model."""
    assert digest("a", 1) == 0xB27F9D5BFD0616C0
    assert digest(1, 12) != digest(11, 2)


def test_seeds_splits_and_indices_give_different_rooms(scenes: list[Scene], scenes_of: Maker) -> None:
    every = [*scenes, *scenes_of(4, "train", 500)]
    assert len({scene.things for scene in every}) == len(every)


def test_unknown_split_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'trian'.*train, val, test, compose"):
        make_scene(0, "trian", 0)


def test_things_are_valid(scenes: list[Scene]) -> None:
    for scene in scenes:
        assert MIN_THINGS <= len(scene.things) <= MAX_THINGS
        words = [thing.word for thing in scene.things if thing.word is not None]
        assert len(set(words)) == len(words)
        assert set(words) <= set(WORDS)
        for thing in scene.things:
            kind = KINDS[thing.kind]
            x1, y1, x2, y2 = thing.box
            assert 0 <= x1 < x2 <= 1
            assert 0 <= y1 < y2 <= 1
            assert thing.color in kind.colors
            assert (thing.material in kind.materials) if kind.materials else thing.material is None
            assert scene.room in kind.rooms
            assert thing.word is None or kind.printed


def test_where_things_are(scenes: list[Scene]) -> None:
    for scene in scenes:
        for index, thing in enumerate(scene.things):
            kind = KINDS[thing.kind]
            if thing.support is not None:
                below = scene.things[thing.support]
                top, bottom = below.box[1], below.box[3]
                surface = KINDS[below.kind].surface
                assert thing.support < index
                assert kind.place is Place.SURFACE
                assert surface is not None
                assert thing.box[3] == pytest.approx(top + surface * (bottom - top))
                assert below.box[0] <= thing.box[0]
                assert thing.box[2] <= below.box[2]
                assert thing.foot == below.foot
            elif kind.place is Place.WALL:
                assert thing.foot == HORIZON
                assert thing.box[3] < HORIZON
            else:
                assert kind.place is Place.FLOOR or kind.loose
                assert thing.foot == thing.box[3]
                assert 0.6 < thing.foot < 1.0


def test_neighbours_do_not_overlap(scenes: list[Scene]) -> None:
    """On one surface and on the wall every thing has its own room."""
    for scene in scenes:
        for i, a in enumerate(scene.things):
            for b in scene.things[:i]:
                apart = a.box[2] <= b.box[0] or b.box[2] <= a.box[0]
                if a.support is not None and a.support == b.support:
                    assert apart
                if a.on_wall and b.on_wall:
                    assert apart or a.box[3] <= b.box[1] or b.box[3] <= a.box[1]


def test_visibility(scenes: list[Scene]) -> None:
    """Paint numbers instead of colours, far to near, and count what is left of each thing."""
    side = 250
    for scene in scenes:
        things = scene.things

        def depth(index: int, things: tuple = things) -> tuple[float, bool]:
            return (0.0 if things[index].on_wall else things[index].foot, things[index].support is not None)

        canvas = np.full((side, side), -1)
        painted = {}
        for index in sorted(range(len(things)), key=depth):
            x1, y1, x2, y2 = (round(edge * side) for edge in things[index].box)
            canvas[y1:y2, x1:x2] = index
            painted[index] = (y2 - y1) * (x2 - x1)
        for index, area in painted.items():
            assert (canvas == index).sum() >= 0.58 * area, (scene.scene_id, things[index].kind)


def test_nothing_seems_to_stand_on_what_it_is_not_on(scenes: list[Scene]) -> None:
    """The lower edge of a farther thing does not meet the surface of a nearer one."""
    for scene in scenes:
        for i, far in enumerate(scene.things):
            for near in scene.things[i + 1 :]:
                surface = KINDS[near.kind].surface
                if surface is not None and near.box[0] < far.box[2] and far.box[0] < near.box[2]:
                    line = near.box[1] + surface * (near.box[3] - near.box[1])
                    assert abs(far.box[3] - line) > 0.02, (scene.scene_id, far.kind, near.kind)


def test_nearer_and_larger_things_are_drawn_larger(scenes: list[Scene]) -> None:
    assert all(depth_scale(far) < depth_scale(near) for far, near in pairwise((0.6, 0.7, 0.8, 0.9, 1.0)))
    for scene in scenes:
        for thing in scene.things:
            kind = KINDS[thing.kind]
            scale = 1.0 if thing.on_wall else depth_scale(thing.foot)
            share = (thing.box[2] - thing.box[0]) / (kind.width * scale)
            assert 0.75 < share < 0.85 if thing.size == "small" else 1.15 < share < 1.35


def test_paint_order_puts_the_wall_first_and_loads_after_supports(scenes: list[Scene]) -> None:
    for scene in scenes[:300]:
        assert paint_order(scene.things) == tuple(range(len(scene.things)))
        shuffled = scene.things[::-1]
        last = len(shuffled) - 1
        fixed = tuple(
            type(t)(**{**asdict(t), "support": None if t.support is None else last - t.support}) for t in shuffled
        )
        position = {index: place for place, index in enumerate(paint_order(fixed))}
        for index, thing in enumerate(fixed):
            assert thing.support is None or position[thing.support] < position[index]
        walls = [thing.on_wall for thing in fixed]
        assert [walls[index] for index in paint_order(fixed)] == sorted(walls, reverse=True)


def test_held_out_pairs_are_a_tenth_and_leave_enough() -> None:
    pairs = {(color, kind.name) for kind in KINDS.values() for color in kind.colors}
    assert pairs > HELD_OUT
    assert 0.08 < len(HELD_OUT) / len(pairs) < 0.12
    for member in (0, 1):
        everything, missing = Counter(p[member] for p in pairs), Counter(p[member] for p in HELD_OUT)
        assert all(2 * missing[name] <= everything[name] for name in everything)


def pairs_in(scene: Scene) -> set[tuple[str, str]]:
    return {(thing.color, thing.kind) for thing in scene.things}


@pytest.mark.parametrize("split", TEACHING)
def test_no_held_out_pair_while_teaching(scenes_of: Maker, split: str) -> None:
    assert all(HELD_OUT.isdisjoint(pairs_in(scene)) for scene in scenes_of(1, split, 3000))


def test_a_held_out_pair_in_every_compose_scene(scenes_of: Maker) -> None:
    pairs = [HELD_OUT & pairs_in(scene) for scene in scenes_of(1, "compose", 3000)]
    assert all(pairs)
    assert set().union(*pairs) == HELD_OUT


def test_everything_appears(scenes_of: Maker) -> None:
    scenes = scenes_of(0, "train", 2000)
    kinds = Counter(thing.kind for scene in scenes for thing in scene.things)
    assert min(kinds[name] for name in KINDS) >= 50
    assert {thing.color for scene in scenes for thing in scene.things} == set(COLORS)
    assert {scene.room for scene in scenes} == set(ROOMS)
    possible = {(color, kind.name) for kind in KINDS.values() for color in kind.colors}
    assert set().union(*map(pairs_in, scenes)) == possible - HELD_OUT


def test_every_relation_holds_somewhere(scenes_of: Maker) -> None:
    found: Counter[Relation] = Counter()
    for scene in scenes_of(0, "train", 500):
        numbers = range(len(scene.things))
        found.update(r for r in Relation if any(holds(r, scene, a, b) for a in numbers for b in numbers))
    assert all(found[relation] >= 50 for relation in Relation), found


def test_distractors_and_words_are_common(scenes: list[Scene]) -> None:
    def has_distractor(scene: Scene) -> bool:
        looks = {(thing.kind, thing.color) for thing in scene.things}
        return any(count > 1 for count in Counter(kind for kind, _ in looks).values())

    assert sum(map(has_distractor, scenes)) > 0.4 * len(scenes)
    printable = [thing for scene in scenes for thing in scene.things if KINDS[thing.kind].printed]
    assert 0.35 < sum(thing.word is not None for thing in printable) / len(printable) < 0.45
