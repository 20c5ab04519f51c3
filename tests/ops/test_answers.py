"""Are answers judged as the published evaluation judges them?"""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_attn.ops.answers import accuracy, anls, clean, normalize, soft_scores
from tests.reference.published import golden_file


@pytest.fixture(scope="module")
def published() -> dict:
    return json.loads(golden_file("../alignment/m4c_text_eval.json").read_text())


def slow_scores(answers: Sequence[str]) -> dict[str, float]:
    """Leaving out one person after the other."""
    scores = {}
    for answer in answers:
        shares = []
        for left_out in range(len(answers)):
            others = [other for place, other in enumerate(answers) if place != left_out]
            shares.append(min(1.0, others.count(answer) / min(3, len(others))) if others else 1.0)
        scores[answer] = sum(shares) / len(shares)
    return scores


def slow_distance(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(
        slow_distance(one[1:], other) + 1,
        slow_distance(one, other[1:]) + 1,
        slow_distance(one[1:], other[1:]) + (one[0] != other[0]),
    )


@pytest.mark.parametrize("group", ["normalizer", "contraction_probe"])
def test_texts_are_normalised_as_published(published, group):
    assert len(published[group]) > 100
    for case in published[group]:
        assert normalize(case["text"]) == case["normalized"], case


def test_every_published_case(published):
    accuracies, similarities = [], []
    for case in published["cases"]:
        answers = case["answers"]
        assert normalize(case["prediction"]) == case["prediction_normalized"]
        assert [normalize(answer) for answer in answers] == case["answers_normalized"]
        assert soft_scores(case["answers_normalized"]) == pytest.approx(case["answer_scores"], abs=1e-12)
        accuracies.append(accuracy(case["prediction"], answers))
        assert accuracies[-1] == pytest.approx(case["accuracy"], abs=1e-12)
        similarity = anls(case["prediction"], answers)
        if case["anls"] is None:
            assert similarity == 1.0
        else:
            similarities.append(similarity)
            assert similarity == pytest.approx(case["anls"], abs=1e-12), case
    assert sum(accuracies) / len(accuracies) == pytest.approx(published["mean_accuracy"], abs=1e-12)
    assert sum(similarities) / len(similarities) == pytest.approx(published["mean_anls_where_defined"], abs=1e-12)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=13))
def test_scores_equal_leaving_out_each_person(answers):
    assert soft_scores(answers) == pytest.approx(slow_scores(answers), abs=1e-12)


@pytest.mark.parametrize(
    ("answers", "score"),
    [(["tea"], 1.0), (["tea", "tea"], 1.0), (["tea", "cup"], 0.5), (["tea"] * 3, 1.0), (["tea", "cup", "cup"], 1 / 3)],
)
def test_fewer_than_ten_people(answers, score):
    assert soft_scores(answers)["tea"] == pytest.approx(score)
    assert accuracy("Tea!", answers) == pytest.approx(score)


@given(st.text("ab ", max_size=5), st.lists(st.text("ab ", max_size=5), min_size=1, max_size=3))
def test_anls_equals_a_recursive_distance(prediction, answers):
    def slow(answer: str) -> float:
        one, other = prediction.strip(), answer.strip()
        longest = max(len(one), len(other))
        score = 1.0 if longest == 0 else 1 - slow_distance(one, other) / longest
        return score if score >= 0.5 else 0.0

    assert anls(prediction, answers) == pytest.approx(max(map(slow, answers)), abs=1e-12)


def test_nobody_gave_it():
    assert accuracy("coffee", ["tea"] * 10) == 0.0


def test_an_answer_is_cleaned_but_not_normalised():
    assert clean(" Joe's, really? ") == "joe 's really"
    assert clean("The St.") == "the st."


@pytest.mark.parametrize("judge", [accuracy, anls])
def test_nothing_to_compare_with(judge):
    with pytest.raises(ValueError, match="no answers to compare with"):
        judge("tea", [])
