"""Do pictures, captions and the truth about both come from the same thinned room?"""

import numpy as np
import pytest
import torch

from lit_attn.data.scenes import captions as scene_captions
from lit_attn.data.scenes.asking import SHOWN_SHARE
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.grid import middle_cells, visible_shares
from lit_attn.data.scenes.painting import ScenesPictures, caption_words, colored_things
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.thinning import thinned
from lit_attn.data.scenes.world import COLORS, KINDS
from lit_attn.data.synthesis import collate
from lit_attn.errors import UserError
from lit_attn.types import SynthesisBatch

PUNCTUATION = {".", ","}


def pictures(**options) -> ScenesPictures:
    return ScenesPictures(**({"train_scenes": 9, "val_scenes": 7, "test_scenes": 5, "batch_size": 4} | options))


def whole(data: ScenesPictures, stage: str) -> SynthesisBatch:
    return collate([data.dataset(stage)[i] for i in range(len(data.dataset(stage)))])


@pytest.mark.parametrize("things", [0, 2, 3])
def test_picture_and_captions_are_those_of_the_room(things):
    data = pictures(things=things, captions_per_picture=5)
    for i in range(7):
        scene = make_scene(0, "val", i)
        scene = thinned(scene, things) if things else scene
        told = captions(scene, 5)
        for j in range(5):
            view, saying = data.dataset("val")[5 * i + j]
            assert (view.pixels == np.asarray(render(scene, size=64))).all()
            assert saying.words == tuple(word for word in told[j].annotation.tokens if word not in PUNCTUATION)
            assert saying.ids == tuple(data.vocabulary.ids[word] for word in saying.words)
            assert (saying.caption_id, saying.sample_id) == (5 * i + j, f"val-0-{i}-{j}")
            assert (view.name, view.image_id, view.class_id) == (f"val-0-{i}", i, i)
    assert data.show(3, "val").size == (320, 320)


def slow_cells(scene, objects, across: int) -> np.ndarray:
    """Cells that show one of these things, cell by cell."""
    shares = visible_shares(scene, across)
    boxes = np.array([thing.box for thing in scene.things], np.float32)
    middles = middle_cells(shares, boxes)
    cells = np.zeros((across, across), bool)
    for thing in objects:
        for y in range(across):
            for x in range(across):
                if shares[thing, y, x] >= SHOWN_SHARE or middles[thing] == y * across + x:
                    cells[y, x] = True
    return cells


@pytest.mark.parametrize("side", [64, 40])
def test_words_of_phrases_point_to_their_things_and_others_nowhere(side):
    data = pictures(side=side, captions_per_picture=3)
    batch = whole(data, "val")
    assert batch.word_cells.shape == (21, batch.tokens.shape[1], side // 4, side // 4)
    pointing = 0
    for row in range(21):
        scene = thinned(make_scene(0, "val", row // 3), 3)
        annotation = captions(scene, 3)[row % 3].annotation
        place = 0
        for token, word in enumerate(annotation.tokens):
            if word in PUNCTUATION:
                continue
            named = [o for p in annotation.phrases if p.span[0] <= token < p.span[1] for o in p.objects]
            wanted = slow_cells(scene, named, side // 4)
            assert (batch.word_cells[row, place].numpy() == wanted).all(), (annotation.text, word)
            assert wanted.any() == bool(named)
            pointing += bool(named)
            place += 1
        assert not batch.word_cells[row, place:].any()
        assert place == batch.token_mask[row].sum()
    assert pointing > 40


def test_the_main_thing_of_a_caption_is_the_largest_one_named_with_its_colour():
    data = pictures(val_scenes=40, captions_per_picture=5)
    batch, rows = whole(data, "val"), 0
    for row, sample in enumerate(batch.sample_id):
        _, _, i, j = sample.split("-")
        scene = thinned(make_scene(0, "val", int(i)), 3)
        meaning = captions(scene, 5)[int(j)].meaning
        told = {
            (one.kind, one.color)
            for one in (*meaning.variables, *(count.description for count in meaning.counts))
            if one.color
        }
        areas = visible_shares(scene, 16).sum((1, 2))
        fitting = [n for n, thing in enumerate(scene.things) if (thing.kind, thing.color) in told]
        if not told:
            assert (batch.main_kind[row], batch.main_color[row]) == (-1, -1)
            continue
        largest = scene.things[max(fitting, key=lambda n: areas[n])]
        assert data.kind_names[batch.main_kind[row]] == largest.kind
        assert data.color_names[batch.main_color[row]] == largest.color
        rows += 1
    assert 100 < rows < 200, "some captions name no colour"


def test_a_colour_may_be_said_by_a_verb():
    seen = set()
    for i in range(200):
        scene = make_scene(0, "train", i)
        for told in captions(scene, 5):
            if told.frame in ("colored thing is", "which is colored"):
                tokens = told.annotation.tokens
                last = next(place for place in reversed(range(len(tokens))) if tokens[place] in COLORS) \
                    if told.frame == "colored thing is" else tokens.index("is") + 1  # fmt: skip
                colors = {scene.things[thing].color for thing in colored_things(told.annotation)}
                assert tokens[last] in colors, told.annotation.text
                seen.add(told.frame)
    assert seen == {"colored thing is", "which is colored"}


def test_looks_tell_the_colour_of_the_largest_thing_of_each_kind():
    data = pictures(things=0, val_scenes=12)
    batch = whole(data, "val")
    several = 0
    for row in range(12):
        scene = make_scene(0, "val", row)
        areas = visible_shares(scene, 16).sum((1, 2))
        for number, kind in enumerate(KINDS):
            own = [(areas[i], thing.color) for i, thing in enumerate(scene.things) if thing.kind == kind]
            several += len(own) > 1
            assert batch.looks[row, number] == (COLORS.index(max(own)[1]) if own else len(COLORS))
        assert data.kind_names[batch.main_thing[row]] == scene.things[int(areas.argmax())].kind
    assert several


def test_the_words_are_the_same_for_every_seed_and_enough_for_all():
    assert len(caption_words()) == len(pictures(seed=4).vocabulary) == pictures().vocab_size
    assert list(caption_words().words) == sorted(caption_words().words)
    for seed, split in ((3, "val"), (8, "compose")):
        for i in range(60):
            scene = make_scene(seed, split, i)
            for room in (scene, thinned(scene, 3)):
                for told in captions(room, 5):
                    assert set(told.annotation.tokens) - PUNCTUATION <= caption_words().ids.keys()


def test_a_room_that_allows_fewer_captions_has_fewer(monkeypatch):
    monkeypatch.setattr(scene_captions, "_TRIES", 1)  # the grammar has thousands of captions for the barest room
    with pytest.raises(ValueError, match="allows only"):
        captions(thinned(make_scene(0, "val", 0), 3), 5)
    data = pictures(captions_per_picture=5)
    own = [len(data.pictures("val").sayings(i)) for i in range(7)]
    assert min(own) < 5
    assert len(data.dataset("val")) == sum(own)
    assert [saying.caption_id for saying in data.pictures("val").sayings(1)] == list(range(5, 5 + own[1]))


def test_only_training_is_mirrored_and_only_if_asked():
    still, flipped = pictures(), pictures(flip=True)
    kept = turned = 0
    for i in range(9 * 3):
        (view, saying), (other, other_saying) = still.dataset("train")[i], flipped.dataset("train")[i]
        assert saying == other_saying
        if (view.pixels == other.pixels).all():
            assert (view.thing_cells == other.thing_cells).all()
            kept += 1
        else:
            assert (view.pixels == other.pixels[:, ::-1]).all()
            assert (view.thing_cells == other.thing_cells[:, :, ::-1]).all()
            turned += 1
    assert kept > 3
    assert turned > 3
    assert torch.equal(whole(still, "val").image, whole(flipped, "val").image)


def test_stages_have_their_splits():
    data = pictures(test_split="compose")
    assert [data.dataset(stage)[0][1].sample_id for stage in ("val", "test", "predict")] == [
        "val-0-0-0", "compose-0-0-0", "compose-0-0-0",
    ]  # fmt: skip
    assert data.dataset("train")[0][0].name == "train-0-0"
    assert len(data.caption_pool("val")) == 35
    assert data.caption_pool("val").class_id.tolist() == [i for i in range(7) for _ in range(5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"things": 1}, "data.things is 1; a room keeps 2 things at least"),
        ({"side": 30}, "data.side must be a multiple of 4, got 30"),
        ({"side": 0}, "data.side must be a multiple of 4, got 0"),
        ({"test_split": "tst"}, "data.test_split is 'tst'. Did you mean 'test'"),
        ({"val_scenes": 0}, "data.val_scenes must be at least 1, got 0"),
        ({"captions_per_scene": 0}, "data.captions_per_scene must be at least 1"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        pictures(**options)
