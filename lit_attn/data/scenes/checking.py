"""Is what somebody wrote about a room true? Sentence by sentence, against everything that is known about the scene.

A sentence is understood if the grammar can make it (see `parsing`), and true if some things of the scene make all its
facts hold, together with the facts of the true sentences before it that speak of the same things (see `discourse`). Of
several ways to take a sentence, one that is true is enough; the ways that are true are followed further.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from .discourse import Step, Story, steps
from .meaning import Meaning, SceneFacts
from .parsing import readings
from .world import Scene

_STORIES = 8
_STEPS = 64
"""How many ways to take a text, and a sentence of it, are followed; the grammar's own text needs a few."""
END = "."
scene_facts = lru_cache(maxsize=1024)(SceneFacts)
"""Kept for the next validation, which comes back to the same scenes."""


@dataclass(frozen=True)
class Verdict:
    """What is to be said of one sentence."""

    sentence: str
    """Its words, joined by blanks."""
    understood: bool
    """Whether it is a sentence of the grammar."""
    true: bool
    """Whether it is understood and all that it says holds."""
    meaning: Meaning | None
    """What it says; references to earlier sentences have the kind of the thing they mean, where that is known."""


def check(text: str | Sequence[str], scene: Scene | SceneFacts) -> tuple[Verdict, ...]:
    """One verdict per sentence, in order. A text that breaks off is read as if its last sentence ended there."""
    facts = scene if isinstance(scene, SceneFacts) else scene_facts(scene)
    stories: tuple[Story, ...] = (Story(),)
    verdicts: list[Verdict] = []
    for words in sentences(text.split() if isinstance(text, str) else text):
        complete = words if words[-1] == END else (*words, END)
        found = readings(complete, first=not verdicts)
        ways = [
            *islice((step for story in stories for reading in found for step in steps(story, reading, facts)), _STEPS)
        ]
        best = [way for way in ways if way.true] or ways
        stories = tuple(way.story for way in best[:_STORIES]) or tuple(story.interrupted() for story in stories)
        verdicts.append(_verdict(words, best))
    return tuple(verdicts)


def text_scores(texts: Mapping[int, str], scenes: Callable[[int], Scene]) -> dict[str, float]:
    """How much of what was written about some scenes is true.

    `true_sentences` and `understood_sentences` are per cent of all sentences, `sentences` is their mean number per text,
    `true_per_text` the mean number of different true ones. Higher is better. Shares of nothing are NaN.
    """
    verdicts = [check(text, scenes(image)) for image, text in texts.items()]
    written = [verdict for one in verdicts for verdict in one]
    return {
        "true_sentences": 100 * _mean([verdict.true for verdict in written]),
        "understood_sentences": 100 * _mean([verdict.understood for verdict in written]),
        "sentences": _mean([len(one) for one in verdicts]),
        "true_per_text": _mean([len({verdict.sentence for verdict in one if verdict.true}) for one in verdicts]),
    }


def sentences(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    start = 0
    for i, word in enumerate(words):
        if word == END or i + 1 == len(words):
            yield tuple(words[start : i + 1])
            start = i + 1


def _verdict(words: tuple[str, ...], best: list[Step]) -> Verdict:
    understood = bool(best)
    return Verdict(" ".join(words), understood, understood and best[0].true, best[0].meaning if understood else None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
