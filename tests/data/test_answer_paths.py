"""Are decoders taught the published targets?"""

import numpy as np
import pytest

from lit_attn.data.answer_paths import MOST_PATHS, Lesson, all_paths, draw, lesson
from lit_attn.data.answer_words import END, PAD, SPECIALS, START, AnswerWords
from lit_attn.ops.answers import clean

CASES = range(7)


class Case:
    """One case of the golden file."""

    def __init__(self, arrays: dict, number: int) -> None:
        self.words = AnswerWords(tuple(arrays["vocabulary"].tolist()))
        self.slots, self.steps = int(arrays["max_ocr"]), int(arrays["max_steps"])
        found = {name.split(".")[1]: array for name, array in arrays.items() if name.startswith(f"case{number}.")}
        self.found = found
        self.answers, self.tokens = found["answers"].tolist(), found["ocr_tokens"].tolist()
        self.ocr_words = [clean(token) for token in self.tokens]


@pytest.fixture(params=CASES)
def case(request, golden) -> Case:
    return Case(golden("alignment/m4c_targets.npz"), request.param)


def dense(taught: Lesson, steps: int, width: int) -> np.ndarray:
    targets = np.zeros((steps, width), np.float32)
    for place, score in taught.scores.items():
        targets[place] = score
    return targets


def test_texts_are_cleaned_as_published(case):
    assert case.ocr_words == case.found["ocr_tokens_clean"].tolist()
    assert [clean(answer) for answer in case.answers] == case.found["answers_clean"].tolist()


def test_all_paths_are_the_published_ones(case):
    rows = case.found["all_sequences"][: int(case.found["number_of_sequences"])].tolist()
    expected = [tuple(i for i in row if i >= 0) for row in rows]
    assert [path for _, path in all_paths(case.answers, case.words, case.ocr_words)] == expected


def test_targets_are_the_published_ones(case):
    sampled = int(case.found["sampled"])
    taught = lesson(case.answers, case.words, case.ocr_words, case.steps, lambda count: sampled)
    np.testing.assert_array_equal(
        dense(taught, case.steps, len(case.words) + case.slots), case.found["targets"].numpy()
    )
    assert list(taught.previous) == case.found["previous_indices"].tolist()
    assert [float(step < taught.counted) for step in range(case.steps)] == case.found["step_mask"].tolist()


WORDS = AnswerWords((*SPECIALS, "stop", "sign"))


def test_duplicates_are_marked_at_later_steps_only_when_asked():
    ocr = ["sign", "stop", "sign"]
    plain = lesson(["stop sign"], WORDS, ocr, 4, lambda count: 0)
    marked = lesson(["stop sign"], WORDS, ocr, 4, lambda count: 0, mark_duplicates=True)
    assert {place for place in plain.scores if place[0] == 1} == {(1, 5)}
    assert {place for place in marked.scores if place[0] == 1} == {(1, 5), (1, 6), (1, 8)}
    assert {p: s for p, s in plain.scores.items() if p[0] != 1} == {p: s for p, s in marked.scores.items() if p[0] != 1}
    assert plain.previous == marked.previous == (START, 4, 5, PAD)


@pytest.mark.parametrize("answers", [[], ["zzz"] * 10, ["stop zzz"], ["", " "], ["</s>", "<pad>"]])
def test_without_any_path_nothing_counts(answers):
    def never(count: int) -> int:
        raise AssertionError("there is nothing to choose from")

    assert lesson(answers, WORDS, ["ink"], 3, never) == Lesson((PAD, PAD, PAD), {}, 0)


def test_a_long_answer_is_cut_and_has_no_end():
    taught = lesson(["stop sign stop sign"], WORDS, [], 3, lambda count: 0)
    assert taught.previous == (START, 4, 5)
    assert taught.scores == {(0, 4): 1.0, (1, 5): 1.0, (2, 4): 1.0}
    whole = lesson(["stop sign stop sign"], WORDS, [], 5, lambda count: 0)
    assert whole.scores[4, END] == 1.0


def test_paths_are_bounded_whatever_is_read():
    ocr = ["a"] * 30
    found = all_paths(["a a a a"] * 2, WORDS, ocr)
    assert len(found) == 2 * MOST_PATHS
    assert found[0][1] == (6, 6, 6, 6)


def test_the_drawn_path_depends_on_seed_and_question_only():
    drawn = [draw(0, question, 7) for question in range(200)]
    assert drawn == [draw(0, question, 7) for question in range(200)]
    assert drawn != [draw(1, question, 7) for question in range(200)]
    counts = np.bincount(drawn, minlength=7)
    assert counts.min() > 10
