"""Do reading questions ask for what is printed, of one thing only? Clarity is checked by matching looks independently."""

import pickle
from collections import Counter
from collections.abc import Callable

import pytest

from lit_attn.data.scenes.reading import READING_FRAMES, ReadingQuestion, reading_questions
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, KIND_OF_RELATION, KINDS, WORDS, Scene, holds

MAKE = """
import pickle, sys
from lit_attn.data.scenes.reading import reading_questions
from lit_attn.data.scenes.rooms import make_scene
scenes = [make_scene(3, "val", index) for index in range(400)]
pickle.dump([(scene, reading_questions(scene)) for scene in scenes], sys.stdout.buffer)
"""
Asked = list[tuple[Scene, tuple[ReadingQuestion, ...]]]


@pytest.fixture(scope="module")
def asked(run_elsewhere: Callable[..., bytes]) -> Asked:
    return pickle.loads(run_elsewhere(MAKE))  # noqa: S301


def test_they_depend_on_the_scene_only(asked: Asked) -> None:
    for scene, found in asked[:20]:
        assert reading_questions(scene) == found
        assert reading_questions(scene, 1) == found[:1]


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        reading_questions(make_scene(0, "train", 0), -1)


def test_rooms_without_words_have_none_and_others_have_three(asked: Asked) -> None:
    for scene, found in asked:
        printed = [thing for thing in scene.things if thing.word is not None]
        assert bool(found) == bool(printed)
        assert len({question.annotation.tokens for question in found}) == len(found) <= 3
    assert sum(len(found) == 3 for _, found in asked) > 0.9 * sum(bool(found) for _, found in asked)


def test_the_answer_is_read_off_the_thing_asked_about(asked: Asked) -> None:
    shapes: Counter[str] = Counter()
    for scene, found in asked:
        for question in found:
            a = question.annotation
            shapes[question.frame.rsplit(" ", 1)[0]] += 1
            linked = [phrase for phrase in a.phrases if phrase.objects]
            thing = scene.things[linked[0].objects[0]]
            assert linked[0].objects[0] in question.causes
            assert thing.word is not None
            assert set(question.causes) == {i for phrase in linked for i in phrase.objects}
            if question.frame.startswith("word"):
                assert question.answer == thing.word in WORDS
                assert thing.word not in a.tokens
            elif question.frame.startswith("color"):
                assert question.answer == thing.color in COLORS
                assert thing.word in a.tokens
                assert [other.word for other in scene.things].count(thing.word) == 1
            else:
                assert question.answer == thing.kind
                assert thing.word in a.tokens
    assert len(shapes) == len(READING_FRAMES)
    assert min(shapes.values()) > 10


def test_a_plain_phrase_fits_one_thing_only(asked: Asked) -> None:
    for scene, found in asked:
        for question in found:
            if question.frame.startswith("word plain"):
                a = question.annotation
                phrase = next(phrase for phrase in a.phrases if phrase.objects)
                inside = a.tokens[phrase.span[0] + 1 : phrase.span[1]]
                fitting = [
                    i
                    for i, thing in enumerate(scene.things)
                    if any(
                        set(inside) <= {*name.split(), thing.color, thing.size, thing.material}
                        for pair in ((thing.kind, ""), *KINDS[thing.kind].synonyms)
                        for name in pair
                    )
                ]
                assert fitting == list(phrase.objects), a.text


def test_landmarks_really_help(asked: Asked) -> None:
    relations = {kind: [r for r, k in KIND_OF_RELATION.items() if k == kind] for kind in set(KIND_OF_RELATION.values())}
    count = 0
    for scene, found in asked:
        for question in found:
            linked = {phrase.span: phrase.objects for phrase in question.annotation.phrases}
            assert bool(question.annotation.triples) == question.frame.startswith("word related")
            for triple in question.annotation.triples:
                (target,), (landmark,) = linked[triple.target], linked[triple.landmark]
                assert any(holds(relation, scene, target, landmark) for relation in relations[triple.kind])
                count += 1
    assert count > 50


def test_ten_people_agree_up_to_spelling(asked: Asked) -> None:
    different = 0
    for _, found in asked:
        for question in found:
            assert len(question.answers) == 10
            assert question.answers.count(question.answer) >= 6
            assert all(question.answer in given.lower() for given in question.answers)
            different += len(set(question.answers)) > 1
    assert different > 100


def test_trees_are_valid(asked: Asked) -> None:
    for _, found in asked:
        for question in found:
            a = question.annotation
            assert a.tokens[-1] == "?"
            assert [a.deps[i] for i, head in enumerate(a.heads) if head == i] == ["ROOT"]
            for i in range(len(a)):
                steps = 0
                while a.heads[i] != i:
                    i, steps = a.heads[i], steps + 1
                    assert steps < len(a)
