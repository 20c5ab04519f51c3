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
        values = {name: metric.compute().item() for name, metric in metrics.items()}
        assert values["grounding_mass"] == pytest.approx(1)
        assert values["pointing_accuracy"] == pytest.approx(1)
        assert 0 < values["grounding_chance"] == values["pointing_chance"] < 0.6


def test_sites_without_words_and_regions_are_no_concern():
    assert Grounding().metrics(Site("encoder.0.self", "regions", "regions")) == {}


def test_data_without_gold_links_says_so(scenes):
    batch = batch_of(scenes)
    from dataclasses import replace

    with pytest.raises(UserError, match="Leave the grounding probe out, or use Scenes"):
        word_region_links(replace(batch, region_object=None))


def test_batches_move_as_a_whole(scenes):
    moved = batch_of(scenes).map(lambda t: t.double() if t.is_floating_point() else t)
    assert moved.regions.dtype == torch.float64
    assert moved.tokens.dtype == torch.long
    assert moved.sample_id == batch_of(scenes).sample_id
