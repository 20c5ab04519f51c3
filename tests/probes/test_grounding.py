"""Do gold links meet the right words and regions?"""

import pytest
import torch

from lit_attn.data.matching import PictureDataset
from lit_attn.data.pictures import collate
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import KINDS
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.probes.grounding import Grounding, word_region_links


@pytest.fixture(scope="module")
def scenes():
    return ScenesMatching(val_scenes=7, oracle=False, regions=23, region_dim=48)


def batch_of(scenes):
    dataset = PictureDataset(scenes.source("val"))
    return collate([dataset[i] for i in range(7)])


def by_name(metrics) -> dict[str, float]:
    return {name: row.item() for m in metrics.values() for name, row in zip(m.names, m.compute(), strict=True)}


def test_linked_words_name_what_the_region_shows(scenes):
    batch = batch_of(scenes)
    links = word_region_links(batch)
    assert links.any()
    for c, annotation in enumerate(batch.annotations):
        scene = make_scene(0, "val", int(batch.image_id[batch.owner[c]]))
        assert links[c, 0].eq(False).all(), "START names nothing"
        for phrase in annotation.phrases:
            regions = links[c, phrase.head + 1].nonzero()[:, 0].tolist()
            shown = {int(batch.region_object[batch.owner[c], r]) for r in regions}
            assert shown <= set(phrase.objects)
            for thing in shown:
                kind = KINDS[scene.things[thing].kind]
                names = {kind.name, kind.plural, *(form for pair in kind.synonyms for form in pair)}
                head = annotation.tokens[phrase.head]
                assert any(name.split()[-1] == head for name in names) or head in ("one", "ones", "things", "thing"), (
                    head
                )


def test_perfect_attention_scores_one_in_both_directions(scenes):
    batch = batch_of(scenes)
    links = word_region_links(batch)
    for query, key, gold in (("words", "regions", links), ("regions", "words", links.transpose(1, 2))):
        site = Site("match", query, key)
        weights = (gold / gold.sum(-1, keepdim=True).clamp_min(1)).unsqueeze(1)
        masks = {"words": batch.token_mask, "regions": batch.region_mask[batch.owner]}
        value = torch.eye(weights.shape[-1]).expand(len(weights), 1, -1, -1)
        record = AttentionRecord(site, 0, weights, masks[query], masks[key].unsqueeze(1), value, weights)
        probe = Grounding()
        metrics = probe.metrics(site)
        probe.update(metrics, record, batch)
        values = by_name(metrics)
        assert values["grounding_mass"] == pytest.approx(1)
        assert values["pointing_accuracy"] == pytest.approx(1)
        assert 0 < values["grounding_chance"] == values["pointing_chance"] < 0.6


def test_sites_without_words_and_regions_are_no_concern():
    assert Grounding().metrics(Site("encoder.0.self", "regions", "regions")) == {}


def test_data_without_gold_links_says_so(scenes):
    batch = batch_of(scenes)
    from dataclasses import replace

    with pytest.raises(UserError, match="Leave the grounding probe out, use Scenes, or link phrases"):
        word_region_links(replace(batch, region_object=None))


def test_batches_move_as_a_whole(scenes):
    moved = batch_of(scenes).map(lambda t: t.double() if t.is_floating_point() else t)
    assert moved.regions.dtype == torch.float64
    assert moved.tokens.dtype == torch.long
    assert moved.sample_id == batch_of(scenes).sample_id


def captions(max_words: int = 30):
    from lit_attn.data.scenes.captioning import ScenesCaptions

    return next(iter(ScenesCaptions(val_scenes=5, regions=23, region_dim=13, max_words=max_words).val_dataloader()))


def scored(batch, links, align: str) -> dict[str, float]:
    """What attention on exactly `links` scores at a site whose rows predict the next word."""
    site = Site("decoder.0.cross", "words", "regions", predicts=True)
    weights = (links / links.sum(-1, keepdim=True).clamp_min(1)).unsqueeze(1)
    value = torch.eye(weights.shape[-1]).expand(len(weights), 1, -1, -1)
    key_mask = batch.region_mask[batch.owner].unsqueeze(1)
    record = AttentionRecord(site, 0, weights, batch.token_mask[:, 1:], key_mask, value, weights)
    probe = Grounding(align=align)
    metrics = probe.metrics(site)
    probe.update(metrics, record, batch)
    return by_name(metrics)


def test_rows_that_predict_are_asked_about_the_word_they_produce():
    """Row i has read word i and produces word i + 1: `predict` wants the links one row earlier than `input`."""
    batch = captions()
    links = word_region_links(batch)
    for align, own in (("predict", links[:, 1:]), ("input", links[:, :-1])):
        assert scored(batch, own, align)["grounding_mass"] == pytest.approx(1)
        other = "input" if align == "predict" else "predict"
        assert scored(batch, own, other)["grounding_mass"] < 0.8


def test_naming_asks_of_head_nouns_alone():
    batch = captions()
    nouns, phrases = word_region_links(batch, heads_only=True), word_region_links(batch)
    assert (nouns & ~phrases).any().item() is False
    for c, annotation in enumerate(batch.annotations):
        heads = {phrase.head + 1 for phrase in annotation.phrases}
        assert set(nouns[c].any(-1).nonzero()[:, 0].tolist()) <= heads
    found = scored(batch, nouns[:, 1:], "predict")
    assert found["naming_mass"] == pytest.approx(1)
    assert found["grounding_mass"] < 0.9


def test_words_behind_the_cut_of_a_long_caption_are_not_asked_about():
    batch = captions(max_words=4)
    links = word_region_links(batch)
    last = batch.token_mask.sum(-1) - 1
    assert links.any()
    assert not any(links[c, int(end) :].any() for c, end in enumerate(last)), "END names nothing"
