"""Is a true sentence found true, and a false one false? The grammar's own text, changed text, and stories worked out on paper."""

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from lit_attn.data.scenes.caption_frames import CAPTION_FRAMES
from lit_attn.data.scenes.checking import Verdict, check, text_scores
from lit_attn.data.scenes.lexicon import NAMES, NUMBERS, RELATION_WORDS, VERBS, article, noun_phrase, postures
from lit_attn.data.scenes.meaning import Count, Description, Meaning, SceneFacts, satisfied
from lit_attn.data.scenes.paragraph_frames import CONTINUATIONS, OPENINGS
from lit_attn.data.scenes.solving import possible
from lit_attn.data.scenes.telling import Sentence
from lit_attn.data.scenes.world import COLORS, HORIZON, KINDS, ROOMS, Relation, Scene, Thing, holds

Tokens = tuple[str, ...]
FRAMES = {frame.name: frame for frame in (*CAPTION_FRAMES, *OPENINGS, *CONTINUATIONS)}
SCENES = 310
CHECK = """
import pickle, sys
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.checking import check
from lit_attn.data.scenes.meaning import SceneFacts, satisfied
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.rooms import make_scene
scenes = [make_scene(4, "test", index) for index in range(int(sys.argv[1]))]
facts = [SceneFacts(scene) for scene in scenes]
own, others, paragraphs = [], [], []
for i in range(len(scenes)):
    for told in captions(scenes[i], 5):
        tokens = told.annotation.tokens
        own.append((told, check(tokens, facts[i])))
        for j in (i - 1, i - 5, i - 9):
            (verdict,) = check(tokens, facts[j])
            others.append((verdict, satisfied(told.meaning, facts[j])))
    told = paragraph(scenes[i])
    text = " ".join(sentence.annotation.text for sentence in told)
    for j in (i, i - 1):
        verdicts = check(text, facts[j])
        shares = [satisfied(verdict.meaning, facts[j]) for verdict in verdicts if verdict.meaning is not None]
        paragraphs.append((i == j, told, verdicts, shares))
pickle.dump((scenes[:100], own, others, paragraphs), sys.stdout.buffer)
"""


class Checked(NamedTuple):
    """What another process found out about the grammar's text."""

    scenes: list[Scene]
    """The first ones."""
    own: list[tuple[Sentence, tuple[Verdict, ...]]]
    """Captions, five per scene, with the verdicts for their own scene."""
    others: list[tuple[Verdict, float]]
    """Verdicts for other scenes, with the share of the facts that hold there."""
    paragraphs: list[tuple[bool, tuple[Sentence, ...], tuple[Verdict, ...], list[float]]]
    """Whether the scene is their own, the sentences, the verdicts and the share of the facts understood that hold."""


@pytest.fixture(scope="module")
def checked(run_elsewhere: Callable[..., bytes]) -> Checked:
    return Checked(*pickle.loads(run_elsewhere(CHECK, SCENES)))  # noqa: S301


# The grammar's own text.


def test_every_caption_is_understood_as_it_was_meant_and_true_of_its_scene(checked: Checked) -> None:
    assert len(checked.own) == 5 * SCENES
    assert {told.frame for told, _ in checked.own} == {frame.name for frame in CAPTION_FRAMES}
    for told, verdicts in checked.own:
        assert verdicts == (Verdict(told.annotation.text, True, True, told.meaning),)


def test_captions_are_as_true_of_other_scenes_as_their_meaning(checked: Checked) -> None:
    assert len(checked.others) == 15 * SCENES
    assert all(verdict.understood and verdict.true == (share == 1) for verdict, share in checked.others)
    assert 0 < sum(verdict.true for verdict, _ in checked.others) < 100


def test_every_paragraph_is_true_of_its_scene(checked: Checked) -> None:
    assert sum(own for own, *_ in checked.paragraphs) == SCENES
    for own, told, verdicts, _ in checked.paragraphs:
        text = [sentence.annotation.text for sentence in told]
        assert [verdict.sentence for verdict in verdicts] == text
        assert not own or all(verdict.true for verdict in verdicts), text
        for sentence, verdict in zip(told, verdicts, strict=True):
            meant, found = sentence.meaning, verdict.meaning
            assert found is not None
            assert [variable.kind for variable in found.variables] == [variable.kind for variable in meant.variables]
            assert replace(found, variables=()) == replace(meant, variables=())


def test_a_true_sentence_has_a_true_meaning_and_other_rooms_seldom_fit(checked: Checked) -> None:
    true = 0
    for own, _, verdicts, shares in checked.paragraphs:
        assert all(share == 1 for verdict, share in zip(verdicts, shares, strict=True) if verdict.true)
        true += sum(verdict.true for verdict in verdicts) if not own else 0
    assert 0 < true < 100


# Changed captions: the words and, independently of them, the meaning.


def times(tokens: Tokens, words: Tokens) -> list[int]:
    return [i for i in range(len(tokens)) if tokens[i : i + len(words)] == words]


def swapped(tokens: Tokens, old: Tokens, new: Tokens) -> Tokens | None:
    """The tokens with other words in one place, and the article in front of them put right."""
    spots = times(tokens, old)
    if len(spots) != 1:
        return None
    before, after = tokens[: spots[0]], tokens[spots[0] + len(old) :]
    if before and before[-1] in ("a", "an"):
        before = (*before[:-1], article(new[0]))
    return (*before, *new, *after)


def change(meaning: Meaning, **values: object) -> Meaning | None:
    """The meaning with an attribute `name=(old, new)` changed; None unless just one of its descriptions has it."""
    ((name, (old, new)),) = values.items()  # type: ignore[misc]
    descriptions = [*meaning.variables, *(count.description for count in meaning.counts)]
    if sum(getattr(description, name) == old for description in descriptions) != 1:
        return None
    described = [replace(d, **{name: new}) if getattr(d, name) == old else d for d in descriptions]
    size = len(meaning.variables)
    counts = [replace(c, description=d) for c, d in zip(meaning.counts, described[size:], strict=True)]
    return replace(meaning, variables=tuple(described[:size]), counts=tuple(counts))


def other_relations(told: Sentence) -> Iterator[tuple[Tokens | None, Meaning | None]]:
    """Left becomes right and so on, wherever one relation is told in one place. ("on" stands in many places.)"""
    tokens, meaning = told.annotation.tokens, told.meaning
    allowed = [tie.allowed for tie in FRAMES[told.frame].ties if tie.allowed is not None]
    present = {r for r, _, _ in meaning.relations} | {c.relation for c in meaning.counts if c.relation is not None}
    for old in present - {Relation.ON}:
        ways = {way.tokens for way in RELATION_WORDS[old]}
        spoken = [way for way in ways for _ in times(tokens, way)]
        for new in Relation:
            if len(spoken) == 1 and all(new in relations for relations in allowed):
                relations = tuple((new if r is old else r, t, m) for r, t, m in meaning.relations)
                counts = tuple(replace(c, relation=new if c.relation is old else c.relation) for c in meaning.counts)
                mutant = replace(meaning, relations=relations, counts=counts)
                yield swapped(tokens, spoken[0], RELATION_WORDS[new][0].tokens), mutant


def mutants(told: Sentence, rng: Random) -> Iterator[tuple[str, Tokens, Meaning]]:
    tokens, meaning = told.annotation.tokens, told.meaning
    changes: list[tuple[str, Tokens | None, Meaning | None]] = []
    for old, new in product(COLORS, rng.sample(COLORS, 3)):
        changes.append(("color", swapped(tokens, (old,), (new,)), change(meaning, color=(old, new))))
    for old in {variable.kind for variable in meaning.variables}:
        alike = [k for k in KINDS if postures(k) == postures(old) and KINDS[k].surface == KINDS[old].surface]
        for new, (name, _) in product(rng.sample(alike, min(3, len(alike))), NAMES[old]):
            words = tuple(name.split()), tuple(NAMES[new][0][0].split())
            changes.append(("kind", swapped(tokens, *words), change(meaning, kind=(old, new))))
    changes += [("relation", *pair) for pair in other_relations(told)]
    if meaning.room is not None:
        for new in rng.sample(ROOMS, 3):
            words = swapped(tokens, tuple(meaning.room.split()), tuple(new.split()))
            changes.append(("room", words, replace(meaning, room=new)))
    for count in meaning.counts:
        for number in (2, 3, 7):
            words = swapped(tokens, (NUMBERS[count.number],), (NUMBERS[number],))
            changes.append(("count", words, replace(meaning, counts=(replace(count, number=number),))))
    for what, words, mutant in changes:
        if words is not None and mutant is not None:
            yield what, words, mutant


def test_a_changed_caption_is_as_true_as_its_changed_meaning(checked: Checked) -> None:
    rng = Random(3)
    seen: dict[tuple[str, bool], int] = {}
    for i, scene in enumerate(checked.scenes):
        facts = SceneFacts(scene)
        for told, _ in checked.own[5 * i : 5 * i + 3]:
            for what, tokens, meaning in mutants(told, rng):
                (verdict,) = check(tokens, facts)
                expected = satisfied(meaning, facts) == 1
                assert verdict.understood, verdict
                assert verdict.meaning == meaning
                assert verdict.true == expected, verdict
                seen[what, expected] = seen.get((what, expected), 0) + 1
    assert all(seen[what, False] > 20 for what in ("color", "kind", "relation", "room", "count")), seen
    assert sum(count for (_, true), count in seen.items() if true) > 50, seen


# Stories.


def test_it_is_one_thing_for_which_both_sentences_hold(checked: Checked) -> None:
    """Two sentences about one thing, against trying all things for it and for its two landmarks."""
    rng = Random(5)
    seen = {(first, second): 0 for first in (True, False) for second in (True, False)}
    for scene in checked.scenes:
        facts, span = SceneFacts(scene), range(len(scene.things))
        for _ in range(5):
            a, b, c = (rng.choice(scene.things) for _ in range(3))
            if not postures(a.kind):
                continue
            color = rng.choice((None, a.color, rng.choice(COLORS)))
            one, two = rng.choices(tuple(Relation), k=2)
            real = [(r, j) for r in Relation for j in span if holds(r, scene, scene.things.index(a), j)]
            if rng.random() < 0.6:
                one, j = rng.choice(real)
                b = scene.things[j]
            if rng.random() < 0.5:
                two, j = rng.choice(real)
                c = scene.things[j]
            subject = noun_phrase("a", (color,) if color else (), a.kind).tokens
            marks = [noun_phrase("a", (), mark.kind).tokens for mark in (b, c)]
            ways = [RELATION_WORDS[relation][0].tokens for relation in (one, two)]
            verb = VERBS[postures(a.kind)[0], "one"].tokens
            verdicts = check(
                ("there", "is", *subject, *ways[0], *marks[0], ".", "it", *verb, *ways[1], *marks[1], "."), facts
            )
            fits = [i for i in span if scene.things[i].kind == a.kind and color in (None, scene.things[i].color)]
            near = [i for i in fits if any(scene.things[j].kind == b.kind and holds(one, scene, i, j) for j in span)]
            whichever = near or [i for i in span if scene.things[i].kind == a.kind]
            also = any(scene.things[j].kind == c.kind and holds(two, scene, i, j) for i in whichever for j in span)
            assert [verdict.understood for verdict in verdicts] == [True, True]
            assert [verdict.true for verdict in verdicts] == [bool(near), also], verdicts
            seen[bool(near), also] += 1
    assert min(seen.values()) > 20, seen


OFFICE = Scene(
    0,
    "hand",
    0,
    "office",
    (
        Thing("desk", "brown", "large", "wooden", (0.1, 0.6, 0.42, 0.85), 0.85),
        Thing("desk", "black", "large", "metal", (0.55, 0.6, 0.9, 0.85), 0.85),
        Thing("lamp", "red", "small", "metal", (0.2, 0.45, 0.28, 0.6), 0.85, support=0),
        Thing("book", "blue", "small", "paper", (0.3, 0.54, 0.38, 0.6), 0.85, support=0),
        Thing("cup", "red", "small", "metal", (0.7, 0.54, 0.75, 0.6), 0.85, support=1, word="tea"),
        Thing("clock", "white", "small", "metal", (0.65, 0.1, 0.8, 0.25), HORIZON),
        Thing("clock", "black", "small", "metal", (0.15, 0.1, 0.3, 0.25), HORIZON),
        Thing("plant", "green", "small", "ceramic", (0.94, 0.63, 1.0, 0.85), 0.85),
    ),
)
"""A lamp and a book on the brown desk, a cup on the black one to its right; above them the black and the white clock,
crosswise; on the far right a plant."""

PLANT = "there is a plant in this office ."
ON_IT = "a lamp is on the desk ."


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        # "It" is one thing throughout.
        ("there is a black desk in this office . it stands below a white clock .", "tt"),
        ("there is a black desk in this office . it stands below a black clock .", "tf"),
        ("there is a desk in this office . it stands below a black clock . it is brown .", "ttt"),
        ("there is a desk in this office . it stands below a black clock . it is black .", "ttf"),
        ("there is a desk in this office . on it stands a cup . it is red . the desk is black .", "tttt"),
        ("there is a desk in this office . on it stands a cup . it is red . the desk is brown .", "tttf"),
        # "The desk" is one that was named, or else any.
        ("there is a black desk in this office . a cup is on the desk .", "tt"),
        ("there is a black desk in this office . a lamp is on the desk .", "tf"),
        ("there is a black clock in this office . a lamp is on the desk .", "tt"),
        ("there is a black desk in this office . on the right , there is a cup on the brown desk .", "tf"),
        ("there is another black desk below a clock . the desk is brown .", "tf"),
        (
            f"there is a black desk in this office . {'this is an office with a lamp and a book . ' * 20}{ON_IT}",
            "t" * 22,
        ),
        (
            f"there is a black desk in this office . {'this is an office with a lamp and a book . ' * 5}{ON_IT}",
            "ttttttf",
        ),
        ("there is a brown desk in this office . the desk has a lamp on it . it is brown . it is red .", "tttf"),
        ("there is a brown desk in this office . there is a lamp on it . it is brown .", "ttf"),
        ("there is a desk in this office . it is black and stands below a clock . it is black .", "ttt"),
        # "They" are two.
        ("this is an office with a lamp and a book . they are on a desk .", "tt"),
        ("this is an office with a lamp and a book . they are both on a black desk .", "tf"),
        ("this is an office with a lamp and a cup . they are on a desk .", "tf"),
        ("this is an office with a lamp and a lamp .", "f"),
        ("this is an office with a desk and another desk .", "t"),
        (
            "there is a brown desk in this office . a lamp and a book are on the desk . they are below a black clock .",
            "ttf",
        ),
        (f"{PLANT} there are two desks to the left of the plant . they are to the right of a brown desk .", "ttf"),
        (f"{PLANT} there are two desks to the left of the plant . they are to the left of a green plant .", "ttt"),
        (f"{PLANT} there are two desks to the left of the plant . they are below a clock .", "ttf"),
        (f"{PLANT} there are two clocks to the left of the plant . they are above a desk .", "ttf"),
        (f"{PLANT} there are three clocks to the left of the plant . they are to the left of a plant .", "tft"),
        # "Another" and "the other one" differ.
        (
            "there is a black desk in this office . to the left of it stands another desk . the other one is black .",
            "ttt",
        ),
        (
            "there is a black desk in this office . to the left of it stands another desk . the other one is brown .",
            "ttf",
        ),
        ("there is a brown desk in this office . to the left of it stands another desk .", "tf"),
        ("there is a black desk in this office . there is a desk below a clock . the other one is black .", "ttt"),
        (
            "there is a black desk in this office . there is a black desk below a clock . the other one is black .",
            "ttf",
        ),
        ("there is a black desk in this office . the other one is brown .", "tt"),
        ("there is a black desk in this office . the other one is black .", "tf"),
        ("there is a black desk in this office . there is another black desk below a clock .", "tf"),
        ("there is a lamp in this office . there is a lamp on a desk .", "tt"),
        ("there is a lamp in this office . there is another lamp on a desk .", "tf"),
        ("there is another lamp on a desk .", "f"),
        ("there is another cup that says tea on a desk .", "f"),
        ("there is another desk below a clock . there is another desk to the left of a plant .", "tt"),
        ("there is a desk next to another desk .", "f"),
        ("there is a desk to the left of another desk .", "t"),
        # A false sentence does not spoil the next one, but what is not there has no colour.
        ("there is a green desk in this office . it is black .", "ft"),
        ("there is a bed in this office . it is black . the bed is black . there is another bed on a desk .", "ffff"),
        ("there is a desk in this kitchen . it is black . it is brown .", "ftf"),
        # Counting.
        ("there are two clocks above a desk .", "f"),
        ("this is an office with two clocks and a lamp .", "t"),
        ("this is an office with three clocks and a lamp .", "f"),
        ("this is an office with two black clocks and a lamp .", "f"),
        # What is no sentence, and what comes after it.
        ("it is red .", "?"),
        ("the desk is black .", "?"),
        ("UNK UNK . it is red . it is on a black desk .", "?t?"),
        ("there is a black desk in this office . UNK . it is red .", "t?t"),
        ("UNK . they are on a desk . the other one is red .", "?tt"),
        ("UNK . it hangs above a desk . it stands above a desk .", "?tf"),
        ("the cup is on a desk .", "?"),
        ("a desk has a lamp to the left of it .", "?"),
        ("there is a desk in the office , and a cup stands on the desk .", "t"),
        ("there is a desk in the office , and a cup stands on the clock .", "?"),
        ("a red cup which is red stands on a desk .", "?"),
        ("a cup which is red stands on a desk .", "t"),
        ("a table hangs below a clock .", "?"),
        ("there is a black desk in this office . it hangs below a clock .", "t?"),
        ("there is an desk below a clock .", "?"),
        ("there is a cup on top of a bed .", "?"),
        ("there is a cup on top of a desk .", "t"),
        ("there is a red red cup on a desk .", "?"),
        (". . there is a cup on a desk", "??t"),
        ("there is a cup on a desk . there is a cup on", "t?"),
        ("there is a cup", "?"),
        ("", ""),
    ],
)
def test_stories_worked_out_on_paper(text: str, verdicts: str) -> None:
    found = check(text, OFFICE)
    assert " ".join(verdict.sentence for verdict in found) == text
    assert "".join("t" if v.true else "f" if v.understood else "?" for v in found) == verdicts
    assert all((verdict.meaning is not None) == verdict.understood for verdict in found)
    assert check(text.split(), SceneFacts(OFFICE)) == found


def test_they_are_the_ones_that_were_counted() -> None:
    more = [
        Thing("cup", c, "small", "metal", (x, 0.54, x + 0.04, 0.6), 0.85, 0)
        for c, x in (("blue", 0.12), ("pink", 0.38))
    ]
    scene = replace(OFFICE, things=(*OFFICE.things, *more))
    told = "there is a brown desk in this office . there are two cups on the desk ."
    for words, true in (("left of a plant", True), ("right of a lamp", False)):
        assert [v.true for v in check(f"{told} they are to the {words} .", scene)] == [True, True, true]
    assert [v.true for v in check(f"{told} the blue cup is on a desk .", scene)] == [True, True, True]
    assert [v.true for v in check(f"{told} the red cup is on a desk .", scene)] == [True, True, False]


def test_a_reference_has_the_kind_of_its_thing() -> None:
    verdicts = check(
        "there is a black desk in this office . it stands below a clock . the other one is brown .", OFFICE
    )
    assert [verdict.meaning for verdict in verdicts] == [
        Meaning((Description("desk", "black"),), room="office"),
        Meaning((Description("desk"), Description("clock")), ((Relation.BELOW, 0, 1),)),
        Meaning((Description("desk", "brown"),)),
    ]
    (counted,) = check("there are two clocks above a desk .", OFFICE)
    assert counted.meaning == Meaning(
        (Description("desk"),), counts=(Count(Description("clock"), 2, Relation.ABOVE, 0),)
    )


def test_the_search_agrees_with_trying_everything(checked: Checked) -> None:
    rng = Random(13)
    found = 0
    for scene in checked.scenes:
        scene = replace(scene, things=scene.things[:5])
        facts, span = SceneFacts(scene), range(len(scene.things))
        options = {i: rng.randrange(1 << facts.size) | rng.randrange(1 << facts.size) for i in (2, 3, 5, 7, 11)}
        bonds = [(*rng.sample((2, 3, 5, 7), 2), rng.choice((None, None, *Relation))) for _ in range(rng.randint(1, 4))]
        about = {2}
        for _ in bonds:
            about |= {i for bond in bonds for i in bond[:2] if about & set(bond[:2])}
        expected = any(
            all(options[i] >> chosen[i] & 1 for i in about)
            and all(
                chosen[i] != chosen[j] if relation is None else holds(relation, scene, chosen[i], chosen[j])
                for i, j, relation in bonds
                if i in about
            )
            for chosen in (dict(zip(sorted(about), row, strict=True)) for row in product(span, repeat=len(about)))
        )
        assert possible(options, bonds, [2], facts) == expected, (options, bonds)
        found += expected
    assert 20 < found < 80


# Anything at all.


def test_no_text_is_too_strange_or_too_long(checked: Checked) -> None:
    scenes, rng = checked.scenes[:40], Random(11)
    told = [sentence.annotation.tokens for _, paragraph, _, _ in checked.paragraphs for sentence in paragraph]
    words = sorted({word for sentence in told for word in sentence} | {"UNK", "<unk>", "…", "0"})
    texts = [[word for sentence in rng.choices(told, k=12) for word in sentence if rng.random() < 0.98] for _ in scenes]
    texts += [rng.choices(words, k=50) for _ in scenes]
    texts += [[word for sentence in rng.choices(told, k=300) for word in sentence], rng.choices(words, k=5000)]
    texts += [["a"] * 5000, ["."] * 1000, ["another", "desk", "is", "below", "another", "clock", "."] * 100]
    texts.append(("there is a desk below a clock . " + "the desk is below the clock . " * 200).split())
    understood = 0
    for text, scene in zip(texts, [*scenes, *scenes, *scenes[:6]], strict=True):
        verdicts = check(text, scene)
        understood += sum(verdict.understood for verdict in verdicts)
        assert " ".join(verdict.sentence for verdict in verdicts) == " ".join(text)
        assert all(verdict.understood for verdict in verdicts if verdict.true)
    assert understood > 300


def test_scores_of_texts() -> None:
    texts = {
        3: "there is a cup on a desk . there is a cup on a desk . there is a bed on a desk . UNK",
        5: "there is a lamp on a desk .",
        8: "",
    }
    scores = text_scores(texts, {3: OFFICE, 5: OFFICE, 8: OFFICE}.__getitem__)
    assert scores == pytest.approx(
        {"true_sentences": 60.0, "understood_sentences": 80.0, "sentences": 5 / 3, "true_per_text": 2 / 3}
    )
    kitchen = replace(OFFICE, things=OFFICE.things[:2])
    assert text_scores({0: texts[5]}, lambda _: kitchen)["true_sentences"] == 0.0


def test_scores_of_nothing_are_not_numbers() -> None:
    scores = text_scores({}, lambda _: OFFICE)
    assert set(scores) == {"true_sentences", "understood_sentences", "sentences", "true_per_text"}
    assert all(math.isnan(value) for value in scores.values())
    silent = text_scores({0: ""}, lambda _: OFFICE)
    assert math.isnan(silent["true_sentences"])
    assert silent["sentences"] == silent["true_per_text"] == 0.0
