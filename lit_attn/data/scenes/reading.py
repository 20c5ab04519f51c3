"""What can only be answered by reading? Questions about the words printed on things, each with ten people's answers.

Most ask for the word itself ("what does the sign say ?"), some find a thing by its word ("what color is the box that
says tea ?"). Ten answers per question, as in VQA and TextVQA: people agree on the word, not on how to write it.
"""

from dataclasses import dataclass
from random import Random

from ...types import Annotation
from .drafts import Scout
from .layout import text_random
from .lexicon import article
from .meaning import Description
from .question_frames import QUERY_TEXTS, RELATED, fill_gap, number_frames
from .questions import word_question
from .world import Relation, Scene

ANSWERERS = 10
_TRIES = 40
_READ = (
    "what_word/nsubjpass>printed is/auxpass>printed printed/ROOT on/prep>printed A/pobj>on {A} ?/punct>printed",
    "what/dobj>say does/aux>say A/nsubj>say {A} say/ROOT ?/punct>say",
    "which_word/nsubj>is is/ROOT on/prep>is A/pobj>on {A} ?/punct>is",
    "what/nsubjpass>written is/auxpass>written written/ROOT on/prep>written A/pobj>on {A} ?/punct>written",
    "what/dobj>read can/aux>read you/nsubj>read read/ROOT on/prep>read A/pobj>on {A} ?/punct>read",
)
READING_FRAMES = {
    "word plain": number_frames("word plain", *(fill_gap(text, "") for text in _READ)),
    "word related": number_frames("word related", *(fill_gap(text, RELATED) for text in _READ)),
    "color plain": number_frames("color of the word", *(fill_gap(text, "") for text in QUERY_TEXTS["color"])),
    "kind plain": number_frames("kind of the word", *(fill_gap(text, "") for text in QUERY_TEXTS["kind"][:2])),
}
"""Shape to its wordings."""


@dataclass(frozen=True)
class ReadingQuestion:
    """A question that needs reading."""

    annotation: Annotation
    answer: str
    answers: tuple[str, ...]
    """What ten people wrote; most of them `answer` itself."""
    causes: tuple[int, ...]
    """The thing with the word, and the landmark that helps to find it."""
    frame: str = ""
    """Shape and number of its wording."""


def reading_questions(scene: Scene, count: int = 3) -> tuple[ReadingQuestion, ...]:
    """Up to `count` different questions: none where nothing is printed, fewer where little can be asked clearly."""
    if count < 0:
        raise ValueError(f"Cannot make {count} reading questions; `count` must be 0 or more.")
    printed = [i for i, thing in enumerate(scene.things) if thing.word is not None]
    scout = Scout(scene, text_random(scene, "reading"))
    asked: dict[tuple[str, ...], ReadingQuestion] = {}
    for _ in range(_TRIES * count if printed else 0):
        if len(asked) == count:
            break
        question = _ask(scout, scout.pick(printed))
        if question is not None:
            asked.setdefault(question.annotation.tokens, question)
    return tuple(asked.values())


def _ask(scout: Scout, i: int) -> ReadingQuestion | None:
    """A question about the word on thing i, or about the thing with this word; None if it would not be clear."""
    scene, draw = scout.scene, scout.rng.random
    thing = scene.things[i]
    assert thing.word is not None
    chance = draw()
    phrases: dict[str, tuple[Description, tuple[int, ...]]] = {}
    relations: list[Relation] = []
    causes = [i]
    description: Description | None
    if chance < 0.25:
        shape, answer = ("color plain", thing.color) if chance < 0.17 else ("kind plain", thing.kind)
        description = Description(thing.kind if shape == "color plain" else None, word=thing.word)
        if sum(other.word == thing.word for other in scene.things) > 1:
            return None
    elif chance < 0.6:
        shape, answer = "word plain", thing.word
        description = scout.definite(i)
    else:
        shape, answer = "word related", thing.word
        landmark = scout.pick(scout.everything)
        relation, found = scout.relation(landmark)
        named = scout.definite(landmark)
        if i not in found or named is None:
            return None
        description = scout.definite(i, among=found)
        phrases["B"] = (named, (landmark,))
        relations.append(relation)
        causes.append(landmark)
    if description is None:
        return None
    phrases["A"] = (description, (i,))
    frame = scout.pick(READING_FRAMES[shape])
    annotation = word_question(frame, phrases, relations, scene, scout.rng)
    opening = {"color plain": "it is", "kind plain": article(answer)}.get(shape, "it says")
    answers = ten_answers(answer, scout.rng, opening)
    return ReadingQuestion(annotation, answer, answers, tuple(sorted(causes)), frame.name)


def ten_answers(answer: str, rng: Random, opening: str = "it says") -> tuple[str, ...]:
    """An answer as ten people write it: at least six exactly so, the others in capitals, in quotes or in a clause."""
    ways = (answer.capitalize(), answer.upper(), f'"{answer}"', f"{answer}.", f"{opening} {answer}", answer)
    different = int(rng.random() * 5)
    answers = [answer] * (ANSWERERS - different)
    answers += [ways[int(rng.random() * len(ways))] for _ in range(different)]
    rng.shuffle(answers)
    return tuple(answers)
