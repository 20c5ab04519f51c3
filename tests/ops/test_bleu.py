"""Does BLEU give the scores of COCO's code, and of the definition?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.errors import UserError
from lit_attn.ops.bleu import bleu, sentence_bleu
from lit_attn.ops.cider import with_end
from tests.reference import bleu as slow
from tests.reference.golden_captions import golden_json


def captions(ids=None):
    by_id = {item["id"]: item for item in golden_json("metrics.json")["items"]}
    items = [by_id[number] for number in ids or by_id]
    return [item["hypothesis"].split() for item in items], [[r.split() for r in item["references"]] for item in items]


def test_corpus_and_sentences_equal_the_original():
    wanted = golden_json("metrics.json")["scores"]["bleu"]
    np.testing.assert_allclose(bleu(*captions()), wanted["corpus"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(sentence_bleu(*captions()).T, wanted["sentence"], rtol=0, atol=1e-9)


def test_short_hypotheses_are_punished_as_in_the_original():
    subset = golden_json("metrics.json")["short_subset"]
    np.testing.assert_allclose(bleu(*captions(subset["ids"])), subset["scores"]["bleu"]["corpus"], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("rows", "scores"), [("greedy_seq", "greedy_bleu4"), ("handmade_seq", "handmade_bleu4")])
def test_rewards_equal_the_original(golden, rows, scores):
    arrays = golden("ort/scst/reward.npz")
    own = [[with_end(ids) for ids in arrays[f"references_{picture}"].tolist()] for picture in range(4)]
    hypotheses = [with_end(ids) for ids in arrays[rows].tolist()]
    ours = sentence_bleu(hypotheses, [references for references in own for _ in range(3)])
    np.testing.assert_allclose(ours[:, 3], arrays[scores].numpy(), rtol=0, atol=1e-9)


sentences = st.lists(st.sampled_from("abc"), max_size=7)
corpora = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=100)
@given(corpora)
def test_scores_equal_the_definition(corpus):
    hypotheses, references = [pair[0] for pair in corpus], [pair[1] for pair in corpus]
    wanted = [slow.bleu(hypotheses, references, n) for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(bleu(hypotheses, references), wanted, rtol=1e-9, atol=1e-15)
    each = [[slow.bleu([pair[0]], [pair[1]], n) for n in (1, 2, 3, 4)] for pair in corpus]
    np.testing.assert_allclose(sentence_bleu(hypotheses, references), each, rtol=1e-9, atol=1e-15)


def test_of_two_references_equally_close_the_shorter_sets_the_length():
    for references in (["a a b", "a"], ["a", "a a b"]):
        (scores,) = sentence_bleu([["a", "a"]], [[reference.split() for reference in references]])
        assert scores[0] == pytest.approx(1, abs=1e-8)


def test_a_hypothesis_without_references_is_named():
    with pytest.raises(UserError, match="Hypothesis 0 has no references"):
        bleu([["a"]], [[]])
