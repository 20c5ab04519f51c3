"""Are Scenes a fair retrieval task, the same for everybody, with an honest ceiling?"""

import numpy as np
import pytest

from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.matching import ScenesMatching, oracle_scores
from lit_attn.data.scenes.meaning import satisfied
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import KINDS


def tokens(batches) -> list[tuple]:
    return [(s, *t) for batch in batches for s, t in zip(batch.sample_id, batch.tokens[:, :5].tolist(), strict=True)]


def test_samples_do_not_depend_on_workers_order_or_size_of_the_set():
    plain = ScenesMatching(val_scenes=11, oracle=False)
    workers = ScenesMatching(val_scenes=23, oracle=False, num_workers=2, eval_batch_size=3)
    one, other = tokens(plain.val_dataloader()), tokens(workers.val_dataloader())
    assert one == other[: len(one)]
    batch = next(iter(plain.val_dataloader()))
    backwards = ScenesMatching(val_scenes=11, oracle=False).source("val")
    for index in reversed(range(11)):
        np.testing.assert_array_equal(backwards.picture(index).regions, batch.regions[index].numpy())


def test_every_word_of_validation_captions_is_known():
    data = ScenesMatching(val_scenes=53, oracle=False)
    unknown = data.vocabulary.ids["<unk>"]
    found = [i for c in range(53 * 5) for i in data.source("val").caption(c).ids]
    assert found.count(unknown) / len(found) < 0.001


def test_the_oracle_ranks_by_truth_and_then_by_rarity():
    scores = oracle_scores(0, "val", 29)
    scenes = [make_scene(0, "val", i) for i in range(29)]
    texts = [sentence for scene in scenes for sentence in captions(scene, 5)]
    own = [satisfied(texts[c].meaning, scenes[c // 5]) for c in range(145)]
    assert own == [1.0] * 145
    truths = np.array([[satisfied(t.meaning, s) == 1 for t in texts] for s in scenes])
    ranks = [int(truths[:, c].sum()) - 1 for c in range(145)]
    assert scores["t2i/r1"] == pytest.approx(100 * np.mean([rank == 0 for rank in ranks]))
    unique = truths.sum(0) == 1
    certain = [unique[5 * i : 5 * i + 5].any() for i in range(29)]
    assert scores["i2t/r1"] >= 100 * np.mean(certain) - 1e-9


def test_a_room_is_broken_down_by_its_things_and_kind_and_captions_by_their_nouns():
    data = ScenesMatching(val_scenes=5, oracle=False)
    scene = make_scene(0, "val", 3)
    facts = data.breakdown_facts("val", 3)
    assert scene.room in facts.categories
    assert set(facts.categories) - {scene.room} == {KINDS[thing.kind].group for thing in scene.things}
    assert facts.captions == tuple(f"{scene.scene_id}-{i}" for i in range(5))
    for sentence, count in zip(captions(scene, 5), facts.nouns, strict=True):
        assert count == len([tag for tag in sentence.annotation.pos if tag in ("NOUN", "PROPN")]) > 0


def test_the_picture_of_a_sample_can_be_shown():
    data = ScenesMatching(val_scenes=3, oracle=False)
    assert data.show(2, "val").size == (320, 320)


def test_compose_is_its_own_split():
    data = ScenesMatching(test_scenes=5, test_split="compose", oracle=False)
    assert data.source("test").caption(0).sample_id.startswith("compose-")
