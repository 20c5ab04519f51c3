"""Do the probes of words count what a slow reader would, on gold text, with random attention in float64?"""

import dataclasses
from itertools import accumulate, pairwise

import pytest
import torch

from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.data.scenes.reading_data import ScenesReading
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionRecord, Part, Site
from lit_attn.ops.normalize import masked_softmax
from lit_attn.probes.board import Board
from lit_attn.probes.dependencies import Dependencies
from lit_attn.probes.grounding import Grounding
from lit_attn.probes.nouns import NounFrequency, TopObjects
from lit_attn.probes.object_words import SETS, ObjectWords
from lit_attn.probes.part_of_speech import TAGS, AttentionMaps, PartOfSpeech
from lit_attn.probes.phrases import PhraseGrounding
from lit_attn.probes.spatial import BETWEEN_WORDS, TO_REGIONS, SpatialRelations
from lit_attn.probes.text import text_of
from lit_attn.probes.words import attention_of
from lit_attn.tasks.matching import Matching
from lit_attn.types import Annotation, TextBatch
from tests.reference import words as slow

H = 3


@pytest.fixture(scope="module")
def batch():
    """35 captions, some cut, so that phrases and relations lose words."""
    data = ScenesCaptions(val_scenes=7, regions=23, region_dim=48, max_words=17)
    return next(iter(data.val_dataloader()))


def made(batch, kind: str, seed: int = 0) -> AttentionRecord:
    torch.manual_seed(seed)
    texts, rows = len(batch), batch.tokens.shape[1] - 1
    read = batch.token_mask[:, :-1]
    if kind == "self":
        key_mask = torch.ones(rows, rows, dtype=torch.bool).tril() & read.unsqueeze(1)
    else:
        key_mask = batch.region_mask[batch.owner].unsqueeze(1)
    keys = key_mask.shape[-1]
    allowed = key_mask[:, None].expand(texts, H, rows, keys)
    weights = masked_softmax(torch.randn(texts, H, rows, keys, dtype=torch.float64) * 2, allowed)
    site = Site(f"decoder.0.{kind}", "words", "words" if kind == "self" else "regions", H, predicts=True)
    value = torch.zeros(texts, H, keys, 1, dtype=torch.float64)
    return AttentionRecord(site, 0, weights, read, key_mask, value, weights @ value)


def measured(probe, record, batch) -> dict[str, list[float]]:
    """Values per head, even attention last."""
    metrics = probe.metrics(record.site)
    probe.update(metrics, record, batch)
    found = {}
    for name, metric in metrics.items():
        if hasattr(metric, "chance"):
            for each, row, even in zip(metric.names, metric.compute().tolist(), metric.chance().tolist(), strict=True):
                found[each] = [*row, even]
        else:
            found[name] = metric.compute()
    return found


def same(found, wanted) -> None:
    assert found == pytest.approx([wanted(h) for h in (*range(H), -1)], abs=1e-12)


@pytest.mark.parametrize("align", ["predict", "input"])
def test_part_of_speech(batch, align):
    record = made(batch, "self")
    found = measured(PartOfSpeech(align=align), record, batch)
    for tag in TAGS:
        same(found[f"pos_{tag.lower()}"], lambda h, tag=tag: slow.part_of_speech(record, batch, align, h, tag))


@pytest.mark.parametrize("align", ["predict", "input"])
def test_dependencies(batch, align):
    record = made(batch, "self")
    found = measured(Dependencies(align), record, batch)
    for label in ("det", "compound", "pobj", "prep"):
        same(found[f"dep_{label}"], lambda h, label=label: slow.dependency(record, batch, align, h, label))
    same(found["dep_det_all"], lambda h: slow.dependency(record, batch, align, h, "det", everything=True))
    for tag in ("NOUN", "VERB"):
        same(found[f"dep_prep_{tag.lower()}"], lambda h, tag=tag: slow.dependency(record, batch, align, h, "prep", tag))


@pytest.mark.parametrize("align", ["predict", "input"])
def test_phrases_and_their_baselines(batch, align):
    record = made(batch, "cross")
    found = measured(PhraseGrounding(align, shuffles=19), record, batch)
    own, swapped = list(slow.phrases(batch)), list(slow.phrases(batch, swapped=True))
    same(found["phrase_grounding"], lambda h: slow.spans(record, batch, align, h, own, False))
    same(found["phrase_grounding_micro"], lambda h: slow.spans(record, batch, align, h, own, True))
    same(found["phrase_swapped"], lambda h: slow.spans(record, batch, align, h, swapped, False))
    assert all(1 / 20 <= p <= 1 for p in found["phrase_p"].tolist())


def test_the_permutation_test_counts_phrases_however_texts_are_batched(batch):
    """Those of texts with two that are linked."""
    record, whole = made(batch, "cross"), PhraseGrounding(shuffles=19)
    once, twice = whole.metrics(record.site), whole.metrics(record.site)
    whole.update(once, record, batch)
    for part in (slice(0, 10), slice(10, None)):
        texts = {
            name: getattr(batch, name)[part] for name in ("owner", "tokens", "token_mask", "annotations", "sample_id")
        }
        some = dataclasses.replace(batch, caption_id=batch.caption_id[part], **texts)
        fields = ("weights", "query_mask", "key_mask", "value", "context")
        whole.update(twice, dataclasses.replace(record, **{f: getattr(record, f)[part] for f in fields}), some)
    linked = [c for c, _, _ in slow.phrases(batch)]
    wanted = sum(linked.count(c) for c in set(linked) if linked.count(c) > 1)
    assert wanted > 35
    assert once["phrase_p"].count.tolist() == twice["phrase_p"].count.tolist() == [wanted] * H
    assert once["phrase_p"].compute().tolist() == twice["phrase_p"].compute().tolist()


def test_attention_that_knows_what_phrases_name_passes_the_permutation_test(batch):
    record = made(batch, "cross")
    weights = torch.full_like(record.weights, 1e-6)
    for c, words, regions in slow.phrases(batch):
        for word in words:
            weights[c, 0, word, regions] = 1.0
    weights = weights / weights.sum(-1, keepdim=True)
    found = measured(PhraseGrounding(shuffles=99), dataclasses.replace(record, weights=weights), batch)
    assert found["phrase_p"][0] == 0.01
    assert found["phrase_grounding"][0] > 0.9


@pytest.mark.parametrize("align", ["predict", "input"])
@pytest.mark.parametrize("kind", ["self", "cross"])
def test_spatial_relations(batch, align, kind):
    record = made(batch, kind)
    found = measured(SpatialRelations(align), record, batch)
    directions = BETWEEN_WORDS if kind == "self" else TO_REGIONS
    for name, (source, targets) in directions.items():
        items = list(slow.relations(batch, source, targets, kind == "cross"))
        assert items
        same(found[name], lambda h, items=items: slow.spans(record, batch, align, h, items, False))
        same(found[f"{name}_micro"], lambda h, items=items: slow.spans(record, batch, align, h, items, True))
    if kind == "self":
        for end in ("", "_micro"):
            one, two, both = (
                torch.tensor(found[f"spatial_landmark_{n}{end}"], dtype=torch.float64)
                for n in ("relation", "target", "both")
            )
            torch.testing.assert_close(one + two, both, rtol=0, atol=1e-12)


@pytest.mark.parametrize("align", ["predict", "input"])
def test_words_for_objects_and_for_relations(batch, align):
    record = made(batch, "self")
    found = measured(ObjectWords(align), record, batch)
    for name, tags in SETS.items():
        for start in (False, True):
            for micro in (False, True):
                full = name + ("_start" if start else "") + ("_micro" if micro else "")
                same(
                    found[full],
                    lambda h, t=tags, s=start, m=micro: slow.object_words(record, batch, align, h, t, s, m),
                )


def test_maps_agree_with_parts_of_speech_and_their_rows_sum_to_one(batch):
    record = made(batch, "self")
    probe = AttentionMaps(words=["a", "the", "on"])
    metrics = probe.metrics(record.site)
    probe.update(metrics, record, batch)
    cells = list(probe.cells(record.site, metrics))
    targets = {cell.target for cell in cells if cell.table == "map_pos"}
    for target in targets:
        own = [cell for cell in cells if cell.table == "map_pos" and cell.target == target]
        assert sum(cell.value for cell in own) == pytest.approx(1, abs=1e-12)
        assert sum(cell.chance for cell in own) == pytest.approx(1, abs=1e-12)
    assert {cell.target for cell in cells if cell.table == "map_words"} <= {"a", "the", "on"}


def test_nouns(batch):
    record = made(batch, "self")
    probe = NounFrequency()
    metrics = probe.metrics(record.site)
    probe.update(metrics, record, batch)
    uses, got, seen = {}, {}, {}
    for c, annotation in enumerate(batch.annotations):
        n = int(batch.token_mask[c].sum()) - 2
        for j in range(n):
            if annotation.pos[j] != "NOUN":
                continue
            lemma = annotation.lemmas[j]
            uses[lemma] = uses.get(lemma, 0) + 1
            for i in range(j + 1, n):
                got[lemma] = got.get(lemma, 0.0) + float(record.weights[c, :, i, j + 1].mean())
                seen[lemma] = seen.get(lemma, 0) + 1
    found = metrics["nouns"].compute()
    sums = dict(zip(found.keys[:, 0].tolist(), found.sums.tolist(), strict=True))
    assert {lemma: row[0] for lemma, row in sums.items()} == uses
    for lemma in got:
        assert sums[lemma][2] / sums[lemma][1] == pytest.approx(got[lemma] / seen[lemma], abs=1e-12)
    (finding,) = probe.findings([], {record.site.name: metrics})
    assert finding.n == len(seen)


def test_top_objects(batch):
    record = made(batch, "cross")
    probe = TopObjects(most=4)
    metrics = probe.metrics(record.site)
    probe.update(metrics, record, batch)
    cells = list(probe.cells(record.site, metrics))
    word = cells[0].target
    mass, uses = {}, 0
    for c, annotation in enumerate(batch.annotations):
        for i in range(int(batch.token_mask[c].sum()) - 2):
            if annotation.lemmas[i] == word and annotation.pos[i] == "NOUN":
                uses += 1
                for r, label in enumerate(batch.region_labels[batch.owner[c]]):
                    mass[label] = mass.get(label, 0.0) + float(record.weights[c, :, i, r].mean())
    wanted = sorted(((-m / uses, label) for label, m in mass.items()))[:4]
    found = [cell for cell in cells if cell.target == word]
    assert [cell.source for cell in found] == [label for _, label in wanted]
    assert [cell.value for cell in found] == pytest.approx([-m for m, _ in wanted], abs=1e-12)
    assert found[0].rows == uses


def test_top_objects_of_a_stack_are_means_over_its_sites(batch):
    probe, metrics = TopObjects(most=1000), {}
    for layer in range(3):
        record = made(batch, "cross", seed=layer)
        metrics[f"decoder.{layer}.cross"] = probe.metrics(record.site)
        probe.update(metrics[f"decoder.{layer}.cross"], record, batch)
    sites = [
        {(c.target, c.source): c for c in probe.cells(dataclasses.replace(record.site, name=site), own)}
        for site, own in metrics.items()
    ]
    found = list(probe.cells_of_stacks(metrics))
    assert len(found) == len(sites[0]) > 50
    for cell in found:
        own = [site[cell.target, cell.source] for site in sites]
        assert cell.site == "decoder.*.cross"
        assert cell.rows == own[0].rows
        assert cell.value == pytest.approx(sum(c.value for c in own) / 3, abs=1e-12)
        assert cell.chance == pytest.approx(own[0].chance, abs=1e-12)


def test_word_pieces_are_summed_to_a_word_and_averaged_from_it():
    """Five tokens, three words, the first token no source; rows predict the next token."""
    annotation = Annotation(
        ("a", "sofa", "."), ("a", "sofa", "."), ("DET", "NOUN", "PUNCT"), (1, 1, 1), ("det", "ROOT", "punct")
    )
    word_of = torch.tensor([[0, 1, 1, 1, 2]])
    mask = torch.ones(1, 5, dtype=torch.bool)
    texts = TextBatch(word_of, mask, word_of, (annotation,), ("x",), drop_first=True)
    key_mask = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    torch.manual_seed(0)
    weights = masked_softmax(torch.randn(1, 1, 5, 5, dtype=torch.float64), key_mask[:, None])
    site = Site("decoder.0.self", "text", "text", 1, predicts=True)
    record = AttentionRecord(site, 0, weights, mask, key_mask, weights, weights)
    for align, rows in (("predict", {1: [0, 1, 2], 2: [3]}), ("input", {0: [0], 1: [1, 2, 3], 2: [4]})):
        found = attention_of(record, text_of(dataclasses.replace(texts)), align, "words")
        assert found.rows[0].nonzero()[:, 0].tolist() == list(rows)
        for word, own in rows.items():
            for source, columns in {0: [], 1: [1, 2, 3], 2: [4]}.items():
                wanted = sum(float(weights[0, 0, r, k]) for r in own for k in columns) / len(own)
                assert float(found.weights[0, 0, word, source]) == pytest.approx(wanted, abs=1e-12)
            rest = sum(float(weights[0, 0, r, k]) for r in own for k in range(1, 5)) / len(own)
            assert float(found.total[0, 0, word]) == pytest.approx(rest, abs=1e-12)


def test_questions_of_a_joint_sequence_look_at_objects_and_at_what_is_printed_on_them():
    """M4C's rows and columns: question, objects, OCR tokens and what is decoded, as one sequence."""
    data = ScenesReading(val_questions=23, region_dim=16, max_objects=13, max_ocr=7)
    batch = next(iter(data.val_dataloader()))
    torch.manual_seed(0)
    sizes = [batch.tokens.shape[1], batch.region_mask.shape[1], batch.ocr_mask.shape[1], 3]
    ends = list(accumulate(sizes, initial=0))
    names = ("question", "objects", "ocr", "decoded")
    parts = tuple(Part(name, a, b) for name, (a, b) in zip(names, pairwise(ends), strict=True))
    mask = torch.cat([batch.token_mask, batch.region_mask, batch.ocr_mask, torch.ones(len(batch), 3).bool()], 1)
    allowed = mask[:, None, None].expand(-1, H, ends[-1], -1)
    weights = masked_softmax(torch.randn(allowed.shape, dtype=torch.float64), allowed)
    site = Site("joint.0.self", "joint", "joint", H)
    record = AttentionRecord(site, 0, weights, mask, mask[:, None], weights, weights, parts)
    found = measured(PhraseGrounding(shuffles=9), record, batch)
    spatial = measured(SpatialRelations(), record, batch)

    def mean(items, h):
        """Items: question, words, columns."""
        even = mask.double() / mask.sum(-1, keepdim=True)
        each = [
            sum(float((even[c] if h < 0 else weights[c, h, word + 1])[columns].sum()) for word in words) / len(words)
            for c, words, columns in items
        ]
        return sum(each) / len(each)

    def columns(c, objects, shown, start):
        return [start + i for i, thing in enumerate(shown[c].tolist()) if thing in objects]

    phrases = [(c, p) for c, a in enumerate(batch.annotations) for p in a.phrases if p.objects]
    for name, shown, start in (
        ("phrase_grounding", batch.region_object, ends[1]),
        ("phrase_ocr", batch.ocr_object, ends[2]),
    ):
        items = [(c, range(*p.span), k) for c, p in phrases if (k := columns(c, p.objects, shown, start))]
        assert len(items) > 5
        same(found[name], lambda h, items=items: mean(items, h))
    triples = [
        (c, t, next(p.objects for p in a.phrases if p.span == t.landmark))
        for c, a in enumerate(batch.annotations)
        for t in a.triples
    ]
    items = [
        (c, range(*t.relation), k)
        for c, t, objects in triples
        if (k := columns(c, objects, batch.region_object, ends[1]))
    ]
    same(spatial["spatial_relation_landmark_regions"], lambda h: mean(items, h))
    told = [(c, t) for c, t, _ in triples if t.target[1] <= t.relation[0] and t.relation[1] <= t.landmark[0]]
    items = [(c, range(*t.landmark), [w + 1 for w in range(*t.relation)]) for c, t in told]
    same(spatial["spatial_landmark_relation"], lambda h: mean(items, h))


def test_questions_in_pieces_of_one_word_each_are_those_in_words():
    data = ScenesReading(val_questions=23, region_dim=16, max_objects=13, max_ocr=7)
    batch = next(iter(data.val_dataloader()))
    in_pieces = dataclasses.replace(batch, word_of=text_of(batch).word_of)
    rows, regions = batch.tokens.shape[1], batch.region_mask.shape[1]
    mask = torch.cat([batch.token_mask, batch.region_mask], 1)
    torch.manual_seed(0)
    allowed = mask[:, None, None].expand(-1, H, len(mask[0]), -1)
    weights = masked_softmax(torch.randn(allowed.shape, dtype=torch.float64), allowed)
    parts = (Part("question", 0, rows), Part("objects", rows, rows + regions))
    value = torch.zeros(len(batch), H, rows + regions, 1, dtype=torch.float64)
    site = Site("joint.0.self", "joint", "joint", H)
    record = AttentionRecord(site, 0, weights, mask, mask[:, None], value, weights @ value, parts)
    assert text_of(in_pieces).lengths == text_of(batch).lengths
    assert not text_of(in_pieces).whole
    for probe in (PartOfSpeech(), Dependencies(), ObjectWords(), SpatialRelations()):
        whole, pieces = (measured(probe, record, one) for one in (batch, in_pieces))
        for name, values in whole.items():
            assert pieces[name] == pytest.approx(values, abs=1e-12, nan_ok=True), name
    bare = dataclasses.replace(in_pieces, annotations=(None,) * len(batch))
    with pytest.raises(UserError, match="annotate the text with --data.annotate"):
        text_of(bare)


def test_probes_that_a_network_has_nothing_for_are_refused_or_named(caplog):
    """SCAN's words look at regions only."""
    net = Matching(11, 5, alignment="dot", dim=4, word_dim=3).net
    with pytest.raises(UserError, match=r"PartOfSpeech cannot be asked of this network.*goes from words to regions"):
        Board(net, [PartOfSpeech()])
    with caplog.at_level("INFO"):
        assert Board(net, [PartOfSpeech(), PhraseGrounding()]).metrics
    assert "Nothing here for PartOfSpeech" in caplog.text


def test_bad_annotations_are_named_by_their_sample(batch):
    short = Annotation(("a",), ("a",), ("DET",), (0,), ("ROOT",))
    wrong = dataclasses.replace(batch, annotations=(batch.annotations[0], short, *batch.annotations[2:]))
    with pytest.raises(UserError, match=f"annotation of {batch.sample_id[1]} does not fit its text"):
        text_of(wrong)
    none = dataclasses.replace(batch, annotations=(None,) * len(batch))
    with pytest.raises(UserError, match=f"No text of this batch is annotated, for example {batch.sample_id[0]}"):
        text_of(none)
    missing = dataclasses.replace(batch, annotations=(None, *batch.annotations[1:]))
    assert text_of(missing).lengths[0] == 0
    with pytest.raises(UserError, match="cannot read a Named"):
        text_of(type("Named", (str,), {})("x"))


def test_a_batch_of_texts_without_any_word_says_nothing(batch):
    """A caption whose words are all unknown to a vocabulary without UNK; attention from START to START, and to regions."""
    ends = torch.zeros(1, 2, dtype=torch.long)
    one = {"owner": batch.owner[:1], "caption_id": batch.caption_id[:1], "sample_id": ("x",)}
    empty = Annotation((), (), (), (), ())
    texts = dataclasses.replace(batch, **one, tokens=ends, token_mask=ends == 0, annotations=(empty,))
    for kind in ("self", "cross"):
        record = made(texts, kind)
        for probe in (PartOfSpeech(), Dependencies(), PhraseGrounding(), SpatialRelations(), ObjectWords(), NounFrequency(),
                      TopObjects(), AttentionMaps(), Grounding()):  # fmt: skip
            metrics = probe.metrics(record.site)
            if metrics:
                probe.update(metrics, record, texts)
                assert not list(probe.cells(record.site, metrics))
    assert text_of(texts).longest == 0


@pytest.mark.parametrize(("tokens", "tags"), [(("stop",), ("VERB",)), (("it", "is", "there"), ("PRON", "VERB", "ADV"))])
def test_texts_without_nouns_and_of_one_word_say_nothing_and_break_nothing(tokens, tags):
    n = len(tokens)
    annotation = Annotation(tokens, tokens, tags, (0,) * n, ("ROOT", *("dep",) * (n - 1)))
    ids, mask = torch.arange(n + 2)[None], torch.ones(1, n + 2, dtype=torch.bool)
    word_of = torch.tensor([[-1, *range(n), -1]])
    texts = TextBatch(ids, mask, word_of, (annotation,), ("x",), region_object=torch.tensor([[0, 1]]))
    for kind in ("self", "cross"):
        key_mask = (
            torch.ones(1, n + 2, n + 2, dtype=torch.bool).tril() if kind == "self" else torch.ones(1, 1, 2).bool()
        )
        weights = masked_softmax(
            torch.zeros(1, H, n + 2, key_mask.shape[-1]), key_mask[:, None].expand(1, H, n + 2, -1)
        )
        value = torch.zeros(1, H, key_mask.shape[-1], 1)
        site = Site(kind, "words", "words" if kind == "self" else "regions", H, predicts=True)
        record = AttentionRecord(site, 0, weights, mask, key_mask, value, weights @ value)
        for probe in (PartOfSpeech(), Dependencies(), PhraseGrounding(), SpatialRelations(), ObjectWords(), NounFrequency(),
                      TopObjects(), AttentionMaps()):  # fmt: skip
            metrics = probe.metrics(site)
            if metrics:
                probe.update(metrics, record, texts)
                assert isinstance(list(probe.cells(site, metrics)), list)
                assert isinstance(probe.findings([], {site.name: metrics}), list)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PartOfSpeech(tags=["NOUNS"]), r"'NOUNS' is no universal part-of-speech tag. Did you mean 'NOUN'\?"),
        (lambda: TopObjects(tags=["foo"]), "'foo' is no universal part-of-speech tag. There are ADJ"),
        (lambda: TopObjects(most=0), "at least one label per word, got most=0"),
        (lambda: PhraseGrounding(shuffles=-3), "at least one shuffle for its test, got shuffles=-3"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
