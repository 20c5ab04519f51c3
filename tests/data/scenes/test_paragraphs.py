"""Do paragraphs hang together? The room comes first, pronouns have something to refer to, nothing is told twice."""

import pickle
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from lit_attn.data.scenes.meaning import satisfied
from lit_attn.data.scenes.paragraph_frames import CONTINUATIONS, OPENINGS
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.telling import Sentence
from lit_attn.data.scenes.world import COLORS, KIND_OF_RELATION, Scene, holds

MAKE = """
import pickle, sys
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.rooms import make_scene
scenes = [make_scene(3, "val", index) for index in range(400)]
pickle.dump([(scene, paragraph(scene)) for scene in scenes], sys.stdout.buffer)
"""
Told = list[tuple[Scene, tuple[Sentence, ...]]]


@pytest.fixture(scope="module")
def told(run_elsewhere: Callable[..., bytes]) -> Told:
    return pickle.loads(run_elsewhere(MAKE))  # noqa: S301


def test_a_scene_has_one_paragraph(told: Told) -> None:
    for scene, sentences in told[:15]:
        assert paragraph(scene) == sentences


def test_a_room_with_too_little_in_it_is_an_error() -> None:
    scene = make_scene(0, "train", 0)
    bare = Scene(scene.seed, scene.split, scene.index, scene.room, scene.things[:1])
    with pytest.raises(ValueError, match="too little in it for 4 sentences: 1 things"):
        paragraph(bare)


def test_four_to_six_true_sentences_that_open_with_the_room(told: Told) -> None:
    lengths = Counter(len(sentences) for _, sentences in told)
    assert set(lengths) == {4, 5, 6}
    openings = {frame.name for frame in OPENINGS}
    for scene, sentences in told[:60]:
        assert sentences[0].frame in openings
        assert all(sentence.frame not in openings for sentence in sentences[1:])
        assert scene.room in sentences[0].annotation.text
        assert all(satisfied(sentence.meaning, scene) == 1.0 for sentence in sentences)
        assert len({sentence.annotation.tokens for sentence in sentences}) == len(sentences)


def test_trees_have_one_root_and_no_cycle(told: Told) -> None:
    for _, sentences in told:
        for sentence in sentences:
            a = sentence.annotation
            assert [a.deps[i] for i, head in enumerate(a.heads) if head == i] == ["ROOT"]
            for i in range(len(a)):
                seen = {i}
                while a.heads[i] != i:
                    i = a.heads[i]
                    assert i not in seen
                    seen.add(i)


def test_a_thing_is_new_once_and_known_afterwards(told: Told) -> None:
    for scene, sentences in told:
        known: set[int] = set()
        for sentence in sentences:
            a = sentence.annotation
            for phrase in a.phrases:
                words = a.tokens[phrase.span[0] : phrase.span[1]]
                if len(phrase.objects) != 1:
                    continue
                (thing,) = phrase.objects
                assert (words[0] == "the") == (thing in known), (words, [s.annotation.text for s in sentences])
                if words[0] == "another":
                    kind = scene.things[thing].kind
                    assert any(scene.things[i].kind == kind for i in known), a.text
                known.add(thing)


def test_a_definite_phrase_means_only_one_of_the_known_things(told: Told) -> None:
    for scene, sentences in told:
        known: set[int] = set()
        for sentence in sentences:
            a = sentence.annotation
            before = set(known)
            for phrase in a.phrases:
                words = a.tokens[phrase.span[0] : phrase.span[1]]
                if len(phrase.objects) == 1:
                    (thing,) = phrase.objects
                    if words[0] == "the" and words[-1] != "one":
                        kind, colors = scene.things[thing].kind, [word for word in words if word in COLORS]
                        rivals = [i for i in before - {thing} if scene.things[i].kind == kind]
                        assert all(colors and scene.things[i].color != colors[0] for i in rivals), a.text
                    known.add(thing)


def test_they_and_it_follow_a_sentence_that_named_something(told: Told) -> None:
    pronouns: Counter[str] = Counter()
    for _, sentences in told:
        for before, sentence in pairwise(sentences):
            a, named = sentence.annotation, [p for p in before.annotation.phrases if p.objects]
            first = a.tokens[0]
            if first in ("it", "they"):
                pronouns[first] += 1
                assert named or any(word in before.annotation.tokens for word in ("it", "they"))
            if first == "they":
                assert len({i for phrase in named for i in phrase.objects}) >= 2
    assert pronouns["it"] > 40
    assert pronouns["they"] > 10


def test_triples_and_colors_are_true(told: Told) -> None:
    ways = {kind: [r for r, k in KIND_OF_RELATION.items() if k == kind] for kind in set(KIND_OF_RELATION.values())}
    for scene, sentences in told:
        for sentence in sentences:
            a = sentence.annotation
            linked = {phrase.span: phrase.objects for phrase in a.phrases}
            for triple in a.triples:
                for target in linked[triple.target]:
                    for landmark in linked[triple.landmark]:
                        assert any(holds(r, scene, target, landmark) for r in ways[triple.kind]), a.text
            for phrase in a.phrases:
                inside = a.tokens[phrase.span[0] : phrase.span[1]]
                for i in phrase.objects:
                    assert all(word == scene.things[i].color for word in inside if word in COLORS)


def test_no_relation_between_two_things_is_told_twice(told: Told) -> None:
    for _, sentences in told:
        pairs = []
        for sentence in sentences:
            linked = {phrase.span: phrase.objects for phrase in sentence.annotation.phrases}
            for triple in sentence.annotation.triples:
                ends = linked[triple.target], linked[triple.landmark]
                if len(ends[0]) == len(ends[1]) == 1:
                    pairs.append(frozenset(ends[0] + ends[1]))
        assert len(set(pairs)) == len(pairs), [sentence.annotation.text for sentence in sentences]


def test_most_frames_are_in_use_and_phrases_vary(told: Told) -> None:
    used = Counter(sentence.frame for _, sentences in told for sentence in sentences)
    assert len(used) >= 0.9 * len(OPENINGS + CONTINUATIONS)
    texts = [sentence.annotation.text for _, sentences in told for sentence in sentences]
    for phrase in ("another ", "the other one", "in the background", "on the right", "to the left of", "on the wall"):
        assert sum(phrase in text for text in texts) >= 5, phrase
