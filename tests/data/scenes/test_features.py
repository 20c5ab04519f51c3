"""Do detections, grids and text readings behave like those of real systems, and can what they show be read from them?"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lit_attn.data.scenes.asking import shown_cells
from lit_attn.data.scenes.detections import Detections, detect
from lit_attn.data.scenes.grid import grid, middle_cells, visible_shares
from lit_attn.data.scenes.ocr import OcrToken, read_text
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, KINDS, MATERIALS, SIZES, Scene, Thing

Reading = list[tuple[Scene, Detections]]


Maker = Callable[[int, str, int], list[Scene]]


@pytest.fixture(scope="module")
def scenes(scenes_of: Maker) -> list[Scene]:
    return scenes_of(0, "train", 1100)


@pytest.fixture(scope="module")
def seen(scenes: list[Scene]) -> Reading:
    return [(scene, detect(scene)) for scene in scenes]


def iou(a: NDArray[np.float32], b: tuple[float, ...]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0.0, width) * max(0.0, height)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def decoded(train_x: NDArray, train_y: NDArray, test_x: NDArray, test_y: NDArray) -> float:
    """Accuracy of a linear classifier fitted by least squares to one-hot targets."""
    bias = [np.c_[x, np.ones(len(x))] for x in (train_x, test_x)]
    weight = np.linalg.solve(bias[0].T @ bias[0], bias[0].T @ np.eye(train_y.max() + 1)[train_y])
    return float(((bias[1] @ weight).argmax(axis=1) == test_y).mean())


def test_detections_are_complete_and_sorted(seen: Reading) -> None:
    for scene, found in seen:
        assert found.boxes.shape == (36, 4)
        assert found.features.shape == (36, 128)
        assert len(found.labels) == len(found.attributes) == 36
        assert found.boxes.dtype == found.features.dtype == found.label_conf.dtype == np.float32
        assert found.thing.dtype == np.int64
        assert found.thing.min() >= -1
        assert 0 <= found.thing.max() < len(scene.things)
        assert found.boxes.min() >= 0
        assert found.boxes.max() <= 1
        assert (found.boxes[:, 2:] > found.boxes[:, :2]).all()
        assert (np.diff(found.label_conf) <= 0).all()
        for confidence in (found.label_conf, found.attribute_conf):
            assert confidence.min() > 0
            assert confidence.max() <= 1
        assert set(found.labels) <= set(KINDS)
        assert set(found.attributes) <= set(COLORS)
        assert max(np.bincount(found.thing[found.thing >= 0])) <= 4


def test_detections_agree_with_their_things_mostly(seen: Reading) -> None:
    labels, colors, overlaps = [], [], []
    for scene, found in seen:
        for number, index in enumerate(found.thing):
            if index >= 0:
                thing = scene.things[index]
                labels.append(found.labels[number] == thing.kind)
                colors.append(found.attributes[number] == thing.color)
                overlaps.append(iou(found.boxes[number], thing.box))
    assert 0.93 < np.mean(labels) < 0.97
    assert 0.93 < np.mean(colors) < 0.97
    assert np.mean(np.array(overlaps) > 0.5) > 0.95
    assert np.mean(overlaps) < 0.95


def test_most_things_are_found_and_some_are_not(seen: Reading) -> None:
    found = sum(len(set(found.thing[found.thing >= 0].tolist())) for _, found in seen)
    assert 0.93 < found / sum(len(scene.things) for scene, _ in seen) < 0.97


def test_large_things_are_found_more_often(seen: Reading) -> None:
    copies: dict[str, list[int]] = {"candle": [], "wardrobe": []}
    for scene, found in seen:
        for index, thing in enumerate(scene.things):
            if thing.kind in copies and index in found.thing:
                copies[thing.kind].append(int((found.thing == index).sum()))
    assert np.mean(copies["wardrobe"]) > np.mean(copies["candle"]) + 0.3


def test_boxes_around_nothing_are_unsure(seen: Reading) -> None:
    real = np.concatenate([found.label_conf[found.thing >= 0] for _, found in seen])
    spurious = np.concatenate([found.label_conf[found.thing < 0] for _, found in seen])
    assert spurious.max() < 0.45
    assert np.median(real) > 0.7


@pytest.mark.parametrize(
    ("values", "key", "least"),
    [
        (tuple(KINDS), lambda thing: thing.kind, 0.97),
        (COLORS, lambda thing: thing.color, 0.92),
        (SIZES, lambda thing: thing.size, 0.80),
        ((*MATERIALS, None), lambda thing: thing.material, 0.80),
    ],
    ids=["kind", "color", "size", "material"],
)
def test_features_are_linearly_decodable(
    seen: Reading, values: tuple[str, ...], key: Callable[[Thing], str], least: float
) -> None:
    def examples(part: Reading) -> tuple[NDArray, NDArray]:
        rows = [
            (f.features[n], values.index(key(s.things[t]))) for s, f in part for n, t in enumerate(f.thing) if t >= 0
        ]
        return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])

    accuracy = decoded(*examples(seen[:800]), *examples(seen[800:]))
    assert least <= accuracy < 1.0


def test_boxes_around_nothing_say_little(seen: Reading) -> None:
    """The classifier of real kinds must not know which label a spurious box was given."""
    kinds = tuple(KINDS)
    real = [(f.features[n], kinds.index(s.things[t].kind)) for s, f in seen for n, t in enumerate(f.thing) if t >= 0]
    none = [(f.features[n], kinds.index(f.labels[n])) for _, f in seen for n, t in enumerate(f.thing) if t < 0]
    parts = [np.array([row[part] for row in rows]) for rows in (real, none) for part in (0, 1)]
    assert decoded(*parts) < 0.4


def test_detections_depend_on_the_scene_only() -> None:
    scene = make_scene(4, "test", 9)
    first = detect(scene)
    detect(make_scene(4, "test", 10))
    again = detect(make_scene(4, "test", 9))
    assert first.labels == again.labels
    for name in ("boxes", "features", "label_conf", "attribute_conf", "thing"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    other = detect(replace(scene, index=10))
    assert not np.array_equal(first.features, other.features)


def test_same_features_in_another_process(run_elsewhere: Callable[..., bytes]) -> None:
    """Not to the last bit: another process may add in another order."""
    code = (
        "from lit_attn.data.scenes import detections, grid, ocr, rooms; scene = rooms.make_scene(0, 'train', 8);"
        "found = detections.detect(scene); cells = grid.grid(scene);"
        "print(found.labels, found.thing.tolist(), [t.text for t in ocr.read_text(scene)], sep='\\n');"
        "print(*found.features[:, 5], *cells[3, 4])"
    )
    labels, thing, texts, numbers = run_elsewhere(code).decode().splitlines()
    scene = make_scene(0, "train", 8)
    found = detect(scene)
    assert labels == str(found.labels)
    assert thing == str(found.thing.tolist())
    assert texts == str([token.text for token in read_text(scene)])
    here = np.concatenate([found.features[:, 5], grid(scene)[3, 4]])
    assert np.allclose(np.array(numbers.split(), dtype=np.float32), here, atol=1e-5)


def test_duplicates_have_noise_of_their_own(seen: Reading) -> None:
    for _, found in seen[:50]:
        assert len(np.unique(found.features, axis=0)) == 36


@pytest.mark.parametrize(("count", "dim"), [(1, 2), (3, 7), (37, 131), (101, 5)])
def test_any_count_and_width(count: int, dim: int) -> None:
    for index in range(20):
        found = detect(make_scene(0, "compose", index), count=count, dim=dim)
        assert found.features.shape == (count, dim)
        assert found.boxes.shape == (count, 4)
        assert len(found.labels) == len(found.attributes) == len(found.thing) == count
        assert (found.thing >= 0).any()
        assert np.isfinite(found.features).all()


@pytest.mark.parametrize(("name", "call"), [("count", detect), ("dim", detect), ("side", grid), ("dim", grid)])
def test_impossible_sizes_are_named(name: str, call: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, but is 0"):
        call(make_scene(0, "train", 0), **{name: 0})


def test_grid_shape_and_determinism() -> None:
    scene = make_scene(0, "val", 1)
    cells = grid(scene, side=7, dim=13)
    assert cells.shape == (13, 7, 7)
    assert cells.dtype == np.float32
    assert np.array_equal(cells, grid(make_scene(0, "val", 1), side=7, dim=13))
    assert not np.array_equal(cells, grid(make_scene(0, "val", 2), side=7, dim=13))


def test_grid_shares_are_areas_and_nearer_things_win() -> None:
    far = Thing("fridge", "blue", "large", "metal", (0.0, 0.0, 0.5, 0.75), 0.75)
    near = Thing("sofa", "red", "large", "fabric", (0.25, 0.5, 1.0, 1.0), 1.0)
    for things in ((far, near), (near, far)):
        scene = Scene(0, "train", 0, "kitchen", things)
        shares = visible_shares(scene, 4)
        first, second = things.index(far), things.index(near)
        assert shares[first].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
        assert shares[second].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 1, 1]]
        coarse = visible_shares(scene, 1)[:, 0, 0]
        assert coarse[second] == pytest.approx(0.375)
        assert coarse[first] == pytest.approx(0.375 * (1 - 0.375))


def test_filled_grid_cells_decode_the_kind(scenes: list[Scene]) -> None:
    kinds = tuple(KINDS)

    def examples(part: list[Scene]) -> tuple[NDArray, NDArray]:
        rows, targets = [], []
        for scene in part:
            cells, shares = grid(scene), visible_shares(scene, 14)
            for thing, y, x in np.argwhere(shares > 0.9):
                rows.append(cells[:, y, x])
                targets.append(kinds.index(scene.things[thing].kind))
        return np.array(rows), np.array(targets)

    assert decoded(*examples(scenes[:600]), *examples(scenes[600:800])) > 0.9


def test_text_is_read_with_mistakes(scenes_of: Maker) -> None:
    scenes = scenes_of(0, "train", 3000)
    readings = [(scene, read_text(scene)) for scene in scenes]
    words = sum(thing.word is not None for scene in scenes for thing in scene.things)
    pairs = [(scene.things[t.thing], t) for scene, tokens in readings for t in tokens if t.thing >= 0]
    assert 0.87 < len(pairs) / words < 0.93
    right = [thing.word == token.text for thing, token in pairs]
    assert 0.85 < np.mean(right) < 0.95
    for thing, token in pairs:
        assert thing.word is not None
        assert len(token.text) == len(thing.word)
        assert sum(a != b for a, b in zip(token.text, thing.word, strict=True)) <= 1
        assert thing.box[0] <= token.box[0] < token.box[2] <= thing.box[2]
        assert thing.box[1] <= token.box[1] < token.box[3] <= thing.box[3]
    made_up = [token for _, tokens in readings for token in tokens if token.thing < 0]
    assert 0.05 < len(made_up) / len(scenes) < 0.15
    assert all(len(token.text) <= 3 for token in made_up)
    assert all(0 <= token.box[0] < token.box[2] <= 1 and 0 <= token.box[1] < token.box[3] <= 1 for token in made_up)


def test_text_comes_in_order_and_again() -> None:
    for index in range(60):
        tokens = read_text(make_scene(1, "test", index))
        assert tokens == read_text(make_scene(1, "test", index))
        confidences = [token.confidence for token in tokens]
        assert confidences == sorted(confidences, reverse=True)
        assert all(isinstance(token, OcrToken) and 0 < token.confidence <= 1 for token in tokens)


def test_every_thing_has_a_cell_that_speaks_for_it(scenes: list[Scene]) -> None:
    kinds = tuple(KINDS)

    def examples(part: list[Scene]) -> tuple[NDArray, NDArray]:
        rows, targets = [], []
        for scene in part:
            cells, shares = grid(scene, side=7, dim=128).reshape(128, -1), visible_shares(scene, 7)
            middles = middle_cells(shares, np.array([thing.box for thing in scene.things], np.float32))
            assert len(set(middles.tolist())) == len(middles)
            rows += [cells[:, cell] for cell in middles]
            targets += [kinds.index(thing.kind) for thing in scene.things]
        return np.array(rows), np.array(targets)

    assert decoded(*examples(scenes[:600]), *examples(scenes[600:800])) > 0.9


def test_the_middle_of_a_thing_is_where_most_of_it_shows() -> None:
    far = Thing("fridge", "blue", "large", "metal", (0.0, 0.0, 0.5, 0.75), 0.75)
    near = Thing("sofa", "red", "large", "fabric", (0.25, 0.5, 1.0, 1.0), 1.0)
    cup = Thing("cup", "red", "small", "glass", (0.8, 0.05, 0.86, 0.1), 0.1)
    scene = Scene(0, "train", 0, "kitchen", (far, near, cup))
    boxes = np.array([thing.box for thing in scene.things], np.float32)
    fridge, sofa, small = middle_cells(visible_shares(scene, 4), boxes)
    assert divmod(fridge, 4) in ((1, 0), (1, 1)), "the whole cells nearest to the middle of the box"
    assert divmod(sofa, 4) in ((2, 2), (3, 2))
    assert divmod(small, 4) == (0, 3)
    assert middle_cells(visible_shares(scene, 1), boxes).tolist() == [0, 0, 0], "one cell for all"
    assert shown_cells(scene, 4)[2].tolist() == [cell == 3 for cell in range(16)], "shown, though small"
