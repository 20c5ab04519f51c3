"""Is what was made of texts there when they come back, and never for others?"""

import dataclasses
import gc

import pytest
import torch

from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.probes import memory
from lit_attn.probes.phrases import PhraseGrounding
from lit_attn.probes.text import text_of
from lit_attn.types import Annotation


def word(token: str) -> Annotation:
    return Annotation((token,), (token,), ("NOUN",), (0,), ("ROOT",))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(memory, "_KEPT", {})


def test_the_same_texts_seen_in_the_same_way_share_a_store():
    one, two = word("sofa"), word("lamp")
    store = memory.store_of("words", [one, None, two], "seen")
    store["made"] = 1
    assert memory.store_of("words", [one, None, two], "seen") == {"made": 1}
    assert memory.store_of("links", [one, None, two], "seen") == {}
    assert memory.store_of("words", [two, one], "seen") == {}
    assert memory.store_of("words", [one, word("lamp")], "seen") == {}, "equal, but another"
    assert memory.store_of("words", [one, None, two], "with other regions") == {}


def test_it_is_forgotten_with_any_of_the_texts():
    texts = [word("sofa"), word("lamp")]
    memory.store_of("words", texts, "seen")["made"] = 1
    assert len(memory._KEPT) == 1
    texts.pop()
    gc.collect()
    assert not memory._KEPT


def test_no_more_is_kept_than_a_fixed_number_of_texts(monkeypatch):
    monkeypatch.setattr(memory, "MOST", 10)
    texts = [[word(str(i)) for _ in range(3)] for i in range(5)]
    for own in texts:
        memory.store_of("words", own, "seen")["made"] = 1
    kept = [bool(memory.store_of("words", own, "seen")) for own in texts]
    assert kept.count(True) == 2
    assert sum(len(one.texts) for one in memory._KEPT.values()) <= 10


def test_other_regions_of_the_same_captions_are_asked_anew():
    batch = next(iter(ScenesCaptions(val_scenes=5, regions=23, region_dim=13, max_words=17).val_dataloader()))
    shape = len(batch), 1, batch.tokens.shape[1] - 1, 23
    weights = torch.rand(shape, dtype=torch.float64)
    site = Site("decoder.0.cross", "words", "regions", predicts=True)
    key_mask = batch.region_mask[batch.owner].unsqueeze(1)
    value = torch.zeros(len(batch), 1, 23, 1, dtype=torch.float64)
    record = AttentionRecord(site, 0, weights, batch.token_mask[:, :-1], key_mask, value, weights @ value)

    def grounded(own) -> float:
        metrics = PhraseGrounding(shuffles=3).metrics(site)
        PhraseGrounding(shuffles=3).update(metrics, record, own)
        return metrics["grounding"].compute()[0].item()

    first = grounded(batch)
    others = dataclasses.replace(batch, region_object=batch.region_object.flip(1))
    assert grounded(others) != first
    assert grounded(dataclasses.replace(batch)) == first, "another batch of the same"
    assert text_of(others).tables is not text_of(dataclasses.replace(batch)).tables
