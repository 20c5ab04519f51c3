"""What can one be asked about a scene? Questions of the five CLEVR kinds with program, answer and the causes of it.

Answers are drawn first and questions sought for them, so that yes and no are equally likely and no number rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ...types import Annotation
from .drafts import LANDMARKS, SHAPES, Draft, Scout
from .frames import Frame
from .grammar import Fragment, Link, Part, assemble
from .layout import text_random
from .lexicon import ANYTHING, NAMES, noun_phrase, relation_words
from .meaning import Description
from .programs import ANSWERS, Relating, Step, Value, execute, run
from .question_frames import QUESTION_FRAMES
from .world import KIND_OF_RELATION, Relation, Scene

__all__ = ["ANSWERS", "KINDS_OF_QUESTION", "Question", "Step", "execute", "questions", "word_question"]

KINDS_OF_QUESTION = tuple(SHAPES)
_TRIES = 30
_ROUNDS = 8
MOST_LANDMARKS = max(LANDMARKS.values())
_COUNTS = ("0", "1", "2", "3", "4", "5")


@dataclass(frozen=True)
class Question:
    """A question about a scene."""

    annotation: Annotation
    program: tuple[Step, ...]
    answer: str
    """One of `ANSWERS`."""
    kind: str
    """exist, count, query_attribute, compare_attribute or compare_integer."""
    causes: tuple[int, ...]
    """Things that the answer rests on: those selected at the end, and landmarks on the way."""
    frame: str = ""
    """Shape and number of its wording."""


def questions(
    scene: Scene,
    count: int = 10,
    landmarks: int = MOST_LANDMARKS,
    *,
    kinds: Sequence[str] = KINDS_OF_QUESTION,
    fewer: bool = False,
) -> tuple[Question, ...]:
    """`count` different questions, the kinds in turn; the first ones do not depend on `count`.

    `landmarks` is the largest number of things by which a question finds others: 0 asks by looks alone. A scene that allows
    less than `count` questions is an error, unless there may be `fewer`.
    """
    if count < 0 or landmarks < 0:
        raise ValueError(f"Cannot make count={count} questions with landmarks={landmarks}; both must be 0 or more.")
    scout = Scout(scene, text_random(scene, "questions"))
    asked: list[Question] = []
    seen: set[tuple[Step, ...]] = set()
    for n in range(count * _ROUNDS):
        if len(asked) == count:
            break
        kind = kinds[n % len(kinds)]
        question = _ask(scout, kind, landmarks)
        if question is not None and question.program not in seen:
            seen.add(question.program)
            asked.append(question)
    if len(asked) < count and not fewer:
        raise ValueError(f"Scene {scene.scene_id} allows only {len(asked)} different questions, not count={count}.")
    return tuple(asked)


def _ask(scout: Scout, kind: str, landmarks: int) -> Question | None:
    """A question of a kind whose answer was drawn beforehand; None if none was found."""
    scene, rng = scout.scene, scout.rng
    makers = [maker for maker in SHAPES[kind] if LANDMARKS[maker[2]] <= landmarks]
    maker, name, way = makers[int(rng.random() * len(makers))]
    wanted = _wanted(kind, rng)
    for _ in range(_TRIES):
        draft = maker(scout, name, way, wanted)
        values = _values(draft, scene, scout.relating) if draft is not None else None
        if draft is None or values is None or (wanted is not None and values[-1].content != wanted):
            continue
        answer = values[-1].content
        assert isinstance(answer, str)
        wordings = QUESTION_FRAMES[draft.shape]
        frame = wordings[int(rng.random() * len(wordings))]
        return Question(
            _word(draft, frame, values, scene, rng),
            tuple(draft.steps),
            answer,
            kind,
            tuple(sorted(values[-1].causes)),
            frame.name,
        )
    return None


def _wanted(kind: str, rng: Random) -> str | None:
    if kind == "query_attribute":
        return None
    return _COUNTS[int(rng.random() * len(_COUNTS))] if kind == "count" else "yes" if rng.random() < 0.5 else "no"


def _values(draft: Draft, scene: Scene, relating: Relating) -> list[Value] | None:
    """What the steps give; None for a draft without sense: a phrase that should name one thing and does not."""
    try:
        values = run(draft.steps, scene, relating)
    except ValueError:
        return None
    ends = [value.content for value, step in zip(values, draft.steps, strict=True) if step.function == "unique"]
    return values if len(set(ends)) == len(ends) and values[-1].content in _POSSIBLE else None


_POSSIBLE = frozenset(ANSWERS)


def _word(draft: Draft, frame: Frame, values: list[Value], scene: Scene, rng: Random) -> Annotation:
    phrases = {}
    for letter, (description, at) in draft.phrases.items():
        content = values[at].content
        assert isinstance(content, tuple)
        phrases[letter] = (description, content)
    return word_question(frame, phrases, draft.relations, scene, rng)


def word_question(
    frame: Frame,
    phrases: Mapping[str, tuple[Description, tuple[int, ...]]],
    relations: list[Relation],
    scene: Scene,
    rng: Random,
) -> Annotation:
    """Fills a question frame with described things and, tie by tie, with relations."""
    parts = []
    anything = ANYTHING[int(rng.random() * len(ANYTHING))]
    for item in frame.items:
        words, dep = item.fragment, item.dep
        objects: tuple[int, ...] = ()
        if item.what == "thing":
            description, objects = phrases[item.letter]
            words = _phrase(description, item.form, anything, rng)
        elif item.what == "relation":
            landmarks = phrases[frame.ties[item.tie].landmark][1]
            words = relation_words(relations[item.tie], scene.things[landmarks[0]].kind, rng)
            dep = dep or ("advmod" if words.pos[words.head] == "ADV" else "prep")
        assert words is not None, f"a question frame cannot hold {item.what}"
        parts.append(Part(words, dep, item.parent, objects, item.completes))
    links = [
        Link(tie.target_item, tie.item, tie.landmark_item, KIND_OF_RELATION[relation])
        for tie, relation in zip(frame.ties, relations, strict=True)
        if tie.target_item >= 0 and tie.landmark_item >= 0
    ]
    return assemble(parts, links)


def _phrase(description: Description, form: str, anything: tuple[str, str], rng: Random) -> Fragment:
    """ "the red cup"; "a red cup", "any red cups" or "red cups" if the frame says so."""
    names = NAMES[description.kind] if description.kind is not None else (anything,)
    name = names[0 if rng.random() < 0.7 else -1]
    adjectives = tuple(x for x in (description.size, description.color, description.material) if x is not None)
    plural = form in ("any", "bare")
    determiner = {"a": "a", "any": "any", "bare": None}.get(form, "the")
    return noun_phrase(determiner, adjectives, name[plural], plural, description.word, int(rng.random() * 3))
