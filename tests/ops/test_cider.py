"""Does CIDEr-D give the scores of the original code, and of the equations, however the work is ordered?"""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.errors import UserError
from lit_attn.ops.bleu import sentence_bleu
from lit_attn.ops.cider import CiderD, DocumentFrequencies, cider_d, with_end
from tests.reference import cider as slow
from tests.reference.golden_captions import golden_json

PLAIN = {"clipped": False, "sigma": math.inf}


def frequencies(path: str, token=str) -> DocumentFrequencies:
    file = golden_json(path)
    counts = {tuple(map(token, ngram.split(" "))): times for ngram, times in file["document_frequency"].items()}
    return DocumentFrequencies(counts, file["ref_len"])


def captions(ids=None):
    by_id = {item["id"]: item for item in golden_json("metrics.json")["items"]}
    items = [by_id[number] for number in ids or by_id]
    return [item["hypothesis"].split() for item in items], [[r.split() for r in item["references"]] for item in items]


@pytest.mark.parametrize(
    ("name", "cached", "formula"),
    [
        ("cider_coco_eval", False, {}),
        ("cider_d_corpus", False, {}),
        ("cider_d_cached", True, {}),
        ("cider_corpus", False, PLAIN),
        ("cider_cached", True, PLAIN),
    ],
)
def test_scores_equal_the_original(name, cached, formula):
    hypotheses, references = captions()
    counted = frequencies("prepro/golden-train-words.json") if cached else DocumentFrequencies.count(references)
    scores = CiderD(counted, **formula).scores(hypotheses, references)
    wanted = golden_json("metrics.json")["scores"][name]
    np.testing.assert_allclose(scores, wanted["sentence"], rtol=0, atol=1e-9)
    assert scores.mean() == pytest.approx(wanted["corpus"], abs=1e-9)
    if not cached and not formula:
        np.testing.assert_array_equal(cider_d(hypotheses, references), scores)


def test_scores_of_a_subset_equal_the_original():
    subset = golden_json("metrics.json")["short_subset"]
    scores = cider_d(*captions(subset["ids"]))
    np.testing.assert_allclose(scores, subset["scores"]["cider_coco_eval"]["sentence"], rtol=0, atol=1e-9)


def test_a_single_picture_scores_nothing():
    hypotheses, references = captions([golden_json("metrics.json")["single_image_corpus"]["id"]])
    assert cider_d(hypotheses, references).tolist() == [0.0]
    assert cider_d(references[0][:1], references).tolist() == [0.0]


def rewards(golden):
    """Arrays, the scorer, and the references of each row as the original cuts them."""
    arrays = golden("ort/scst/reward.npz")
    own = [[with_end(ids) for ids in arrays[f"references_{picture}"].tolist()] for picture in range(4)]
    repeated = [references for references in own for _ in range(3)]
    return arrays, CiderD(frequencies("scst/train-idxs.json", int)), repeated


@pytest.mark.parametrize(
    ("rows", "scores"),
    [("sampled_seq", "cider_d_sampled"), ("greedy_seq", "cider_d_greedy"), ("handmade_seq", "handmade_cider_d")],
)
def test_rewards_equal_the_original(golden, rows, scores):
    arrays, scorer, references = rewards(golden)
    ours = scorer.scores([with_end(ids) for ids in arrays[rows].tolist()], references)
    np.testing.assert_allclose(ours, arrays[scores].numpy(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("cider_weight", "bleu_weight", "name"),
    [(1.0, 0.0, "handmade_reward"), (0.7, 0.3, "handmade_reward_cider07_bleu03"), (0.0, 1.0, "handmade_reward_bleu")],
)
def test_mixed_rewards_equal_the_original(golden, cider_weight, bleu_weight, name):
    arrays, scorer, references = rewards(golden)
    hypotheses, baselines = (
        [with_end(ids) for ids in arrays[rows].tolist()] for rows in ("handmade_seq", "greedy_seq")
    )

    def mixed(sentences):
        return (
            cider_weight * scorer.scores(sentences, references)
            + bleu_weight * sentence_bleu(sentences, references)[:, 3]
        )

    reward = mixed(hypotheses) - mixed(baselines)
    np.testing.assert_allclose(arrays[name].numpy(), np.repeat(reward[:, None], 16, axis=1), rtol=0, atol=1e-9)


def training_captions(end, word=lambda token: token):
    known = set(golden_json("prepro/python2_thr5.json")["ix_to_word"].values())
    return [
        [[word(token if token in known else "UNK") for token in s["tokens"]] + [end] for s in image["sentences"]]
        for image in golden_json("prepro/dataset.json")["images"]
        if image["split"] in ("train", "restval")
    ]


def test_document_frequencies_equal_the_original():
    wanted = frequencies("prepro/golden-train-words.json")
    assert DocumentFrequencies.count(training_captions("<eos>")) == wanted
    ids = {word: int(number) for number, word in golden_json("prepro/python2_thr5.json")["ix_to_word"].items()}
    assert DocumentFrequencies.count(training_captions(0, ids.__getitem__)) == frequencies(
        "prepro/golden-train-idxs.json", int
    )


def test_an_ngram_counts_once_a_picture():
    counted = DocumentFrequencies.count(iter([[["a", "a", "b"], ["a"]], [["a"], []]]))
    assert counted.pictures == 2
    assert counted.counts == {("a",): 2, ("b",): 1, ("a", "a"): 1, ("a", "b"): 1, ("a", "a", "b"): 1}


sentences = st.lists(st.sampled_from("abcde"), max_size=7)
corpora = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(corpora)
def test_scores_equal_the_equations(corpus):
    hypotheses, references = [pair[0] for pair in corpus], [pair[1] for pair in corpus]
    counted = DocumentFrequencies.count(references)
    for formula, options in (({}, {}), (PLAIN, {"clipped": False, "sigma": None}), ({"sigma": 2.0}, {"sigma": 2.0})):
        wanted = [slow.cider(*pair, references, **options) for pair in corpus]
        scores = CiderD(counted, **formula).scores(hypotheses, references)
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-10)


def test_unknown_ngrams_are_the_rarest():
    """Frequencies from other pictures than the references: what they lack counts as if one picture had it."""
    corpus = [[list("abcab")], [list("acd")], [list("bbd")]]
    hypothesis, references = list("xyab"), [list("xyzab"), list("yab")]
    score = CiderD(DocumentFrequencies.count(corpus)).scores([hypothesis], [references])
    assert score[0] == pytest.approx(slow.cider(hypothesis, references, corpus), abs=1e-10)
    assert score[0] > 0


def test_a_copy_scores_ten_and_repeating_does_not_pay():
    corpus = [[list("abcde")], [list("fghij")], [list("klmno")]]
    scorer = CiderD(DocumentFrequencies.count(corpus))
    copy, doubled = scorer.scores([list("abcde"), list("abcdeabcde")], [corpus[0]] * 2)
    assert copy == pytest.approx(10, abs=1e-12)
    plain = CiderD(DocumentFrequencies.count(corpus), **PLAIN).scores([list("abcdeabcde")], [corpus[0]])
    assert doubled < 5 < 9 < plain[0]


def test_pictures_that_come_again_score_the_same_and_memory_is_bounded():
    rng = np.random.default_rng(0)
    references = [[rng.integers(0, 11, 7).tolist() for _ in range(3)] for _ in range(13)]
    hypotheses = [rng.integers(0, 11, 5).tolist() for _ in range(13)]
    counted = DocumentFrequencies.count(references)
    wanted = [CiderD(counted).scores([h], [r])[0] for h, r in zip(hypotheses, references, strict=True)]
    for remembered in (0, 2, 100):
        scorer = CiderD(counted, remembered=remembered)
        for _ in range(2):
            np.testing.assert_array_equal(scorer.scores(hypotheses * 2, references * 2), wanted * 2)
            assert len(scorer._pictures) == min(remembered, 13)


def test_the_picture_longest_unused_is_forgotten_first():
    first, second, third = [["a", "b"]], [["b", "c"]], [["c", "d"]]
    scorer = CiderD(DocumentFrequencies.count([first, second, third]), remembered=2)
    scorer.scores([["a"]] * 4, [first, second, first, third])
    assert list(scorer._pictures) == [(("a", "b"),), (("c", "d"),)]


def test_references_changed_in_place_are_not_mistaken_for_the_old_ones():
    corpus = [[list("abcd")], [list("efgh")], [list("ijkl")]]
    scorer = CiderD(DocumentFrequencies.count(corpus))
    own = [list("abcd")]
    assert scorer.scores([list("abcd")], [own])[0] == pytest.approx(10)
    own[0][:] = list("efgh")
    assert scorer.scores([list("abcd")], [own])[0] == 0


def test_scoring_leaves_the_frequencies_as_they_are():
    counts = defaultdict(float, {("a",): 1.0, ("b",): 2.0})
    CiderD(DocumentFrequencies(counts, 2.0)).scores([["a", "x"]], [[["a", "y"]]])
    assert counts == {("a",): 1.0, ("b",): 2.0}


@pytest.mark.parametrize(
    ("ids", "cut"),
    [([3, 5, 0, 0], (3, 5, 0)), ([3, 5, 7], (3, 5, 7)), ([0, 3, 0], (0,)), ([3, 0, 5, 0], (3, 0)), ([], ())],
)
def test_sentences_end_with_the_first_end(ids, cut):
    assert with_end(ids) == cut
    assert with_end(tuple(ids)) == cut


def test_no_hypotheses_no_scores():
    scores = CiderD(DocumentFrequencies.count([[["a"]]])).scores([], [])
    assert scores.shape == (0,)
    assert scores.dtype == np.float64


def test_mistakes_are_named():
    scorer = CiderD(DocumentFrequencies.count([[["a"]], [["b"]]]))
    with pytest.raises(UserError, match="1 hypotheses but 2 lists of references"):
        scorer.scores([["a"]], [[["a"]], [["b"]]])
    with pytest.raises(UserError, match="Hypothesis 1 has no references"):
        scorer.scores([["a"], ["b"]], [[["a"]], []])
    with pytest.raises(UserError, match="over 2 pictures cannot hold an n-gram of 3 pictures"):
        DocumentFrequencies({("a",): 1, ("b",): 3}, 2)
    with pytest.raises(UserError, match="over 0 pictures"):
        DocumentFrequencies.count([])
