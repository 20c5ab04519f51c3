"""Can the pictures be trusted: right colours, right order, same pixels every time?"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lit_attn.data.scenes.brush import PALETTE
from lit_attn.data.scenes.drawings import DRAWINGS, WORD_AREAS
from lit_attn.data.scenes.render import contact_sheet, draw_thing, render, scene_sheet
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, HORIZON, KINDS, ROOMS, Kind, Place, Scene, Thing

CHROMATIC = ("red", "green", "blue", "yellow", "purple", "orange", "pink")


def alone(kind: Kind, color: str, material: str | None, word: str | None = None) -> Scene:
    """One thing, 0.4 of the picture wide or high, in an empty room."""
    scale = 0.4 / max(kind.width, kind.height)
    width, height = kind.width * scale, kind.height * scale
    wall = kind.place is Place.WALL
    top = 0.1 if wall else 0.9 - height
    box = (0.5 - width / 2, top, 0.5 + width / 2, top + height)
    thing = Thing(kind.name, color, "large", material, box, HORIZON if wall else 0.9, word=word)
    return Scene(0, "train", 0, kind.rooms[0], (thing,))


def pixels(scene: Scene, size: int) -> NDArray[np.float64]:
    return np.asarray(render(scene, size), dtype=np.float64)


def near_share(found: NDArray[np.float64], color: str) -> float:
    return float((np.abs(found - PALETTE[color]).max(axis=-1) < 60).mean())


@pytest.mark.parametrize("size", [64, 256])
@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_named_colour_dominates(kind: Kind, size: int) -> None:
    scene = alone(kind, kind.colors[0], None)
    x1, y1, x2, y2 = (round(edge * size) for edge in scene.things[0].box)
    room = pixels(replace(scene, things=()), size)[y1:y2, x1:x2]
    materials = kind.materials or (None,)
    for number, color in enumerate(kind.colors):
        material = materials[number % len(materials)]
        picture = pixels(alone(kind, color, material), size)[y1:y2, x1:x2]
        thing = picture[np.abs(picture - room).sum(axis=-1) > 40]
        assert near_share(thing, color) > 0.35, (color, material)
        if color in CHROMATIC:
            assert max(CHROMATIC, key=lambda name: near_share(thing, name)) == color, (color, material)


def test_drawings_differ_in_more_than_colour() -> None:
    """Any two kinds, stretched to the same box, colour and material, differ in many pixels."""
    drawn = {}
    for kind in KINDS.values():
        layer = draw_thing(Thing(kind.name, "white", "large", None, (0.0, 0.0, 1.0, 1.0), 1.0), 96, 96, 2)
        drawn[kind.name] = np.asarray(layer.convert("RGBA"), dtype=np.float64)
    names = list(drawn)
    for i, a in enumerate(names):
        for b in names[:i]:
            assert (np.abs(drawn[a] - drawn[b]).max(axis=-1) > 60).mean() > 0.05, (a, b)


def test_every_kind_has_a_drawing_and_every_printed_one_a_place_for_its_word() -> None:
    assert set(DRAWINGS) == set(KINDS)
    assert set(WORD_AREAS) == {kind.name for kind in KINDS.values() if kind.printed}
    assert set(PALETTE) == set(COLORS)


@pytest.mark.parametrize("size", [64, 256])
def test_same_pixels_every_time(size: int) -> None:
    for index in range(3):
        scene = make_scene(2, "val", index)
        first, second = render(scene, size), render(make_scene(2, "val", index), size)
        assert first.size == (size, size)
        assert first.mode == "RGB"
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.printed], ids=lambda kind: kind.name)
def test_a_word_changes_pixels_within_its_box_only(kind: Kind) -> None:
    size, rim = 256, 2
    plain, tea, coffee = (
        pixels(alone(kind, kind.colors[0], kind.materials[0], word), size) for word in (None, "tea", "coffee")
    )
    x1, y1, x2, y2 = alone(kind, "red", None).things[0].box
    inside = np.zeros((size, size), dtype=bool)
    inside[int(y1 * size) - rim : int(y2 * size) + rim + 1, int(x1 * size) - rim : int(x2 * size) + rim + 1] = True
    for a, b in ((plain, tea), (tea, coffee)):
        changed = np.abs(a - b).max(axis=-1)
        assert (changed[inside] > 80).sum() > 20
        assert changed[~inside].max() == 0


def test_near_things_cover_far_ones_whatever_their_index() -> None:
    far = Thing("fridge", "blue", "large", "plastic", (0.3, 0.3, 0.6, 0.7), 0.7)
    near = Thing("sofa", "red", "large", "fabric", (0.2, 0.5, 0.8, 0.9), 0.9)
    one, other = (Scene(0, "train", 0, "kitchen", things) for things in ((far, near), (near, far)))
    assert render(one, 64).tobytes() == render(other, 64).tobytes()
    middle = pixels(one, 128)[int(0.78 * 128), int(0.45 * 128)]
    assert np.abs(middle - PALETTE["red"]).max() < 100
    assert np.abs(pixels(one, 128)[int(0.45 * 128), int(0.5 * 128)] - PALETTE["blue"]).max() < 60


def test_a_load_is_painted_over_its_support() -> None:
    sofa = Thing("sofa", "red", "large", "fabric", (0.2, 0.5, 0.8, 0.9), 0.9)
    cushion = Thing("cushion", "blue", "large", "fabric", (0.4, 0.5, 0.6, 0.7), 0.9, support=1)
    picture = pixels(Scene(0, "train", 0, "bedroom", (cushion, sofa)), 128)
    spot = picture[int(0.53 * 128) : int(0.66 * 128), int(0.44 * 128) : int(0.56 * 128)]
    assert spot[..., 2].mean() > spot[..., 0].mean() + 50


def test_rooms_have_their_own_walls_and_floors() -> None:
    corners = {tuple(pixels(Scene(0, "train", 0, room, ()), 64)[row, 3].round()) for room in ROOMS for row in (10, 58)}
    assert len(corners) == 2 * len(ROOMS)


def test_sheets() -> None:
    assert contact_sheet(40).width == 6 * 40
    assert scene_sheet(0, 4, 32).size == (96, 64)


def test_impossible_size_is_named() -> None:
    with pytest.raises(ValueError, match=r"size is 0.*64"):
        render(make_scene(0, "train", 0), 0)


def test_corners_that_nearly_meet_are_drawn():
    """Pillow refused these rooms at 64 pixels across."""
    for index in (75, 258, 998):
        assert render(make_scene(0, "train", index), size=64).size == (64, 64)
