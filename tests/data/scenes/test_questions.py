"""Are answers right? A second machine reads boxes itself and runs every program; wording, balance and causes are checked."""

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from lit_attn.data.scenes.programs import ANSWERS, Step, execute
from lit_attn.data.scenes.question_frames import QUESTION_FRAMES
from lit_attn.data.scenes.questions import KINDS_OF_QUESTION, Question, questions
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, KIND_OF_RELATION, KINDS, MATERIALS, Scene

MAKE = """
import pickle, sys
from lit_attn.data.scenes.questions import questions
from lit_attn.data.scenes.rooms import make_scene
scenes = [make_scene(3, "test", index) for index in range(300)]
pickle.dump([(scene, questions(scene)) for scene in scenes], sys.stdout.buffer)
"""
WALL_KINDS = {"picture", "poster", "sign", "mirror", "clock", "window"}
SHELTERS = {"table", "desk"}
Asked = list[tuple[Scene, tuple[Question, ...]]]


@pytest.fixture(scope="module")
def asked(run_elsewhere: Callable[..., bytes]) -> Asked:
    return pickle.loads(run_elsewhere(MAKE))  # noqa: S301


def stands(relation: str, scene: Scene, target: int, landmark: int) -> bool:
    """The geometry of the relations, read once more from boxes."""
    if target == landmark:
        return False
    a, b = scene.things[target], scene.things[landmark]
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = a.box, b.box
    a_wall, b_wall = a.kind in WALL_KINDS, b.kind in WALL_KINDS
    a_floor, b_floor = a.support is None and not a_wall, b.support is None and not b_wall
    shared = max(0.0, min(ax2, bx2) - max(ax1, bx1)) / min(ax2 - ax1, bx2 - bx1)
    gap = max(0.0, max(ax1, bx1) - min(ax2, bx2))
    between = (ax1 + ax2 - bx1 - bx2) / 2
    if relation in ("right of", "in front of", "below"):
        reverse = {"right of": "left of", "in front of": "behind", "below": "above"}[relation]
        return stands(reverse, scene, landmark, target)
    return {
        "on": a.support == landmark,
        "under": a_floor and b.kind in SHELTERS and bx1 <= ax1 and ax2 <= bx2 and ay1 >= by1 + (by2 - by1) / 3
        and ay2 <= by2 + 0.02,
        "left of": between < -0.08,
        "behind": a_floor and b_floor and b.foot - a.foot > 0.06 and shared > 0.25,
        "next to": a.support == b.support and a_wall == b_wall and abs(a.foot - b.foot) < 0.12 and shared < 0.2 and gap < 0.08
        and (not a_wall or abs(ay1 + ay2 - by1 - by2) < 0.24),
        "above": a_wall and ay2 <= by1 + 0.02 and shared > 0.5,
        "near": a.support is None and b.support is None and a_wall == b_wall and abs(a.foot - b.foot) < 0.2 and gap < 0.15,
    }[relation]  # fmt: skip


def answer_again(program: tuple[Step, ...], scene: Scene) -> str:
    """An executor of sets: recursion from the last step, no shared code with `execute`."""

    def of(n: int) -> object:
        function, inputs, constants = program[n]
        if function == "scene":
            return set(range(len(scene.things)))
        given = [of(i) for i in inputs]
        if function.startswith("filter_"):
            return {i for i in given[0] if vars(scene.things[i])[function[7:]] == constants[0]}  # type: ignore[attr-defined]
        if function == "unique":
            (only,) = given[0]  # type: ignore[misc]
            return only
        if function == "relate":
            return {i for i in range(len(scene.things)) if stands(constants[0], scene, i, given[0])}  # type: ignore[arg-type]
        if function.startswith("query_"):
            return vars(scene.things[given[0]])[function[6:]]  # type: ignore[index]
        return {
            "union": lambda: given[0] | given[1],
            "intersect": lambda: given[0] & given[1],
            "count": lambda: len(given[0]),
            "exist": lambda: "yes" if given[0] else "no",
            "less_than": lambda: "yes" if given[0] < given[1] else "no",
            "greater_than": lambda: "yes" if given[0] > given[1] else "no",
        }.get(function, lambda: "yes" if given[0] == given[1] else "no")()  # type: ignore[operator, arg-type]

    return str(of(len(program) - 1))


def test_questions_depend_on_the_scene_only(asked: Asked) -> None:
    for scene, found in asked[:6]:
        assert questions(scene) == found
        assert questions(scene, 4) == found[:4]


def test_a_negative_number_of_questions_is_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        questions(make_scene(0, "train", 0), -2)


def test_answers_agree_with_another_machine(asked: Asked) -> None:
    for scene, found in asked:
        for question in found:
            assert answer_again(question.program, scene) == question.answer, question.annotation.text
            assert question.answer in ANSWERS


def test_the_stored_answer_and_causes_are_those_of_execute(asked: Asked) -> None:
    for scene, found in asked[:40]:
        for question in found:
            assert execute(question.program, scene) == (question.answer, question.causes)


def test_programs_have_the_form_of_clevr(asked: Asked) -> None:
    last = {
        "exist": {"exist"},
        "count": {"count"},
        "query_attribute": {"query_color", "query_size", "query_material", "query_kind"},
        "compare_attribute": {"equal_color", "equal_size", "equal_material"},
        "compare_integer": {"equal_integer", "less_than", "greater_than"},
    }
    for _, found in asked:
        for question in found:
            assert question.program[-1].function in last[question.kind]
            assert question.program[0].function == "scene"
            read = [i for step in question.program for i in step.inputs]
            assert sorted(read) == list(range(len(question.program) - 1))
            assert all(i < n for n, step in enumerate(question.program) for i in step.inputs)


def test_kinds_mix_and_answers_are_balanced(asked: Asked) -> None:
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for _, found in asked:
        assert len({question.program for question in found}) == len(found)
        for question in found:
            answers[question.kind][question.answer] += 1
    total = sum(sum(counter.values()) for counter in answers.values())
    assert set(answers) == set(KINDS_OF_QUESTION)
    for kind, counter in answers.items():
        assert sum(counter.values()) > 0.1 * total, kind
    for kind in ("exist", "compare_attribute", "compare_integer"):
        assert 0.44 < answers[kind]["yes"] / sum(answers[kind].values()) < 0.56, kind
    numbers = answers["count"]
    assert set(numbers) == set("012345")
    assert max(numbers.values()) < 0.35 * sum(numbers.values())
    assert {"small", "large", "red", "wooden", "desk"} <= set(answers["query_attribute"])


def test_every_shape_has_three_wordings_and_all_are_in_use(asked: Asked) -> None:
    assert all(len(frames) >= 3 for frames in QUESTION_FRAMES.values())
    used = {question.frame for _, found in asked for question in found}
    every = {frame.name for frames in QUESTION_FRAMES.values() for frame in frames}
    assert used <= every
    assert len(used) > 0.95 * len(every)


def test_grammar_and_references(asked: Asked) -> None:
    names = {
        kind.name: {kind.name, kind.plural, *(n for pair in kind.synonyms for n in pair)} for kind in KINDS.values()
    }
    for scene, found in asked:
        for question in found:
            a = question.annotation
            assert a.tokens[-1] == "?"
            assert [a.deps[i] for i, head in enumerate(a.heads) if head == i] == ["ROOT"]
            for i in range(len(a)):
                steps = 0
                while a.heads[i] != i:
                    i, steps = a.heads[i], steps + 1
                    assert steps < len(a)
            for phrase in a.phrases:
                inside = a.tokens[phrase.span[0] : phrase.span[1]]
                assert phrase.head == phrase.span[1] - 1
                assert a.pos[phrase.head] == "NOUN"
                for i in phrase.objects:
                    thing = scene.things[i]
                    allowed = names[thing.kind] | {"thing", "things", "object", "objects"}
                    assert any(f" {' '.join(inside)}".endswith(f" {name}") for name in allowed), a.text
                    assert all(w == thing.color for w in inside[:-1] if w in COLORS)
                    assert all(w == thing.material for w in inside[:-1] if w in MATERIALS)
                if inside[0] == "the" and phrase.objects:
                    assert len(phrase.objects) == 1, a.text


def test_triples_hold(asked: Asked) -> None:
    kinds = {
        kind: [r.value for r, k in KIND_OF_RELATION.items() if k == kind]
        for kind in ("region", "direction", "distance")
    }
    count = 0
    for scene, found in asked:
        for question in found:
            linked = {phrase.span: phrase.objects for phrase in question.annotation.phrases}
            for triple in question.annotation.triples:
                for target in linked[triple.target]:
                    (landmark,) = linked[triple.landmark]
                    count += 1
                    assert any(stands(relation, scene, target, landmark) for relation in kinds[triple.kind])
    assert count > 300


def keep(scene: Scene, kept: set[int]) -> Scene:
    """The scene with only some things left; supports are renumbered."""
    order = sorted(kept)
    things = []
    for i in order:
        thing = scene.things[i]
        support = order.index(thing.support) if thing.support in kept else None
        fields = {**vars(thing), "support": support}
        things.append(type(thing)(**fields))
    return Scene(scene.seed, scene.split, scene.index, scene.room, tuple(things))


def test_causes_are_enough_for_the_answer(asked: Asked) -> None:
    """With only its causes left (and what they rest on), a scene still gives the answer; without them it does not."""
    checked = changed = 0
    for scene, found in asked:
        for question in found:
            if question.kind in ("exist", "query_attribute", "count", "compare_attribute"):
                resting = {scene.things[i].support for i in question.causes} - {None}
                rest = keep(scene, {*question.causes, *resting})  # type: ignore[arg-type]
                try:
                    answer = answer_again(question.program, rest)
                except ValueError:
                    assert resting - set(question.causes), question.annotation.text
                    continue
                checked += 1
                if not resting - set(question.causes):
                    assert answer == question.answer, question.annotation.text
            if question.kind == "exist" and question.answer == "yes" and question.frame.startswith("exist plain"):
                gone = keep(scene, set(range(len(scene.things))) - set(question.causes))
                assert answer_again(question.program, gone) == "no"
                changed += 1
    assert checked > 1000
    assert changed > 20


def test_execute_explains_its_errors() -> None:
    scene = make_scene(0, "train", 0)
    with pytest.raises(ValueError, match="No function 'sing' takes"):
        execute((Step("sing"),), scene)
    with pytest.raises(ValueError, match="describe the thing more closely"):
        execute((Step("scene"), Step("unique", (0,)), Step("query_kind", (1,))), scene)
    with pytest.raises(ValueError, match="gives no answer"):
        execute((Step("scene"),), scene)
    with pytest.raises(ValueError, match="gives no answer"):
        execute((), scene)
