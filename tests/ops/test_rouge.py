"""Does ROUGE-L give the scores of COCO's code, and of all subsequences tried?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.errors import UserError
from lit_attn.ops.rouge import longest_common_subsequence, rouge_l
from tests.reference import rouge as slow
from tests.reference.golden_captions import golden_json


def captions(ids=None):
    by_id = {item["id"]: item for item in golden_json("metrics.json")["items"]}
    items = [by_id[number] for number in ids or by_id]
    hypotheses = [item["hypothesis"].split(" ") for item in items]
    return hypotheses, [[r.split(" ") for r in item["references"]] for item in items]


def test_scores_equal_the_original():
    wanted = golden_json("metrics.json")["scores"]["rouge_l"]
    scores = rouge_l(*captions())
    np.testing.assert_allclose(scores, wanted["sentence"], rtol=0, atol=1e-9)
    assert scores.mean() == pytest.approx(wanted["corpus"], abs=1e-9)


def test_scores_of_a_subset_equal_the_original():
    subset = golden_json("metrics.json")["short_subset"]
    wanted = subset["scores"]["rouge_l"]["corpus"]
    assert rouge_l(*captions(subset["ids"])).mean() == pytest.approx(wanted, abs=1e-9)


sentences = st.lists(st.sampled_from("abcd"), max_size=7)


@settings(deadline=None, max_examples=200)
@given(sentences, st.lists(sentences, min_size=1, max_size=3))
def test_scores_equal_trying_all_subsequences(hypothesis, references):
    for reference in references:
        assert longest_common_subsequence(hypothesis, reference) == slow.common_length(hypothesis, reference)
    assert rouge_l([hypothesis], [references])[0] == pytest.approx(slow.rouge_l(hypothesis, references), abs=1e-12)


def test_precision_and_recall_may_come_from_different_references():
    """All of the hypothesis in the long reference, all of the short reference in the hypothesis."""
    assert rouge_l([list("abc")], [[list("abcdefgh"), list("b")]])[0] == pytest.approx(1, abs=1e-12)


def test_long_texts_need_no_square_of_work():
    first, second = list(range(997)), list(range(0, 997, 3))
    assert longest_common_subsequence(first, second) == len(second)
    assert longest_common_subsequence(first, second[::-1]) == 1


def test_a_hypothesis_without_references_is_named():
    with pytest.raises(UserError, match="Hypothesis 1 has no references"):
        rouge_l([["a"], ["b"]], [[["a"]], []])
