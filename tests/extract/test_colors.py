"""Do the names of colours agree with people, and with a world whose colours are known?"""

import numpy as np
import pytest
from matplotlib.colors import XKCD_COLORS, to_rgb

from lit_attn.data.scenes.brush import PALETTE
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.extract.colors import COLORS, cielab, color_of_boxes, color_of_pixels, nearest_example


def names(numbers) -> list[str]:
    return [COLORS[number] for number in np.ravel(numbers)]


def test_cielab_of_known_colours():
    """Published values, to the two digits that tables give."""
    rgb = np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255], [119, 119, 119]], np.float64)
    known = [
        [100, 0, 0],
        [0, 0, 0],
        [53.24, 80.09, 67.2],
        [87.73, -86.18, 83.18],
        [32.3, 79.19, -107.86],
        [50.03, 0, 0],
    ]
    np.testing.assert_allclose(cielab(rgb), known, atol=0.011)


def test_people_would_say_the_same():
    """Of the 954 names of the xkcd survey, those whose last word is one of ours and that mention no second one."""
    asked = []
    for name in XKCD_COLORS:
        *before, last = name.removeprefix("xkcd:").replace("grey", "gray").split()
        if last in COLORS and not any(color in " ".join(before) for color in COLORS):
            asked.append((last, np.array(to_rgb(name)) * 255))
    found = names(nearest_example(np.array([rgb for _, rgb in asked])))
    assert len(asked) > 400
    assert np.mean([name == said for name, (said, _) in zip(found, asked, strict=True)]) > 0.92


def test_the_table_of_pixels_is_the_nearest_example():
    pixels = np.random.default_rng(0).integers(0, 256, (41, 43, 3), np.uint8)
    assert (color_of_pixels(pixels) == nearest_example(pixels.astype(np.float64))).mean() > 0.95
    centres = (pixels // 8) * 8 + 4
    np.testing.assert_array_equal(color_of_pixels(centres), nearest_example(centres.astype(np.float64)))


def test_every_palette_colour_of_scenes_has_its_own_name():
    pixels = np.array([[PALETTE[name]] for name in COLORS], np.uint8)
    assert names(color_of_pixels(pixels)) == list(COLORS)


def test_shares_of_a_picture_in_two_colours():
    pixels = np.full((40, 60, 3), PALETTE["red"], np.uint8)
    pixels[:, 45:] = PALETTE["blue"]
    boxes = [[0, 0, 60, 40], [0, 0, 45, 40], [40, 10, 60, 20], [50, 30, 50, 30], [-9, -9, 99, 99], [70, 50, 80, 60]]
    colors, shares = color_of_boxes(pixels, np.array(boxes, np.float32))
    assert names(colors) == ["red", "red", "blue", "blue", "red", "blue"]
    np.testing.assert_allclose(shares, [0.75, 1, 0.75, 1, 0.75, 1], atol=1e-6)


def test_large_boxes_are_sampled_evenly():
    pixels = np.full((700, 1100, 3), PALETTE["green"], np.uint8)
    pixels[:, :330] = PALETTE["yellow"]
    _, shares = color_of_boxes(pixels, np.array([[0, 0, 1100, 700]], np.float32))
    assert shares[0] == pytest.approx(0.7, abs=0.02)


def test_things_in_scenes_have_the_colour_that_their_box_shows():
    """481 things: 0.77 agree, 0.93 where the colour fills over 0.7 of the box. The others are thin, covered, or printed."""
    right, share = [], []
    for index in range(60):
        scene = make_scene(0, "val", index)
        boxes = np.array([thing.box for thing in scene.things], np.float32) * 256
        colors, shares = color_of_boxes(np.asarray(render(scene, 256)), boxes)
        right += [name == thing.color for name, thing in zip(names(colors), scene.things, strict=True)]
        share += shares.tolist()
    agreement, filled = np.array(right), np.array(share) > 0.7
    assert len(right) > 400
    assert agreement.mean() > 0.74
    assert agreement[filled].mean() > 0.9
    assert filled.sum() > 100
