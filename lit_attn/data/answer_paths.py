"""How is a decoder taught to spell an answer? Paths through answer words and OCR tokens, and one of them as targets.

As MMF's M4C does it. A word of an answer may be said in several ways: as an answer word, or by copying any OCR token that
reads the same; so an answer has many paths, of which at most 20 are kept after every word. Ten people's answers are
followed one by one, repeated ones repeatedly. At step 0 every first word has the soft score of its best answer; one path is
taught from there on, with 1 at each step and `</s>` at the end if there is room. Without any path nothing counts.

`mark_duplicates` marks at each later step all ways to say the word. The code base of the 2022 comparison does so with one gap:
where its path copies a token, other tokens that read the same stay unmarked.
MMF draws the path anew every epoch; here it depends on the seed and the question alone, so that a resumed run is exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from lit_attn.data.answer_words import END, PAD, START, AnswerWords
from lit_attn.ops.answers import clean, soft_scores

MOST_PATHS = 20
"""Per answer."""

Path = tuple[int, ...]
"""Ids of answer words, and from their number on of OCR tokens."""


@dataclass(frozen=True)
class Lesson:
    """What the decoder reads and should say at each step."""

    previous: tuple[int, ...]
    scores: Mapping[tuple[int, int], float]
    """Step and id to a target score; all others are 0."""
    counted: int
    """Steps, from the first on, that count in the loss."""


def copies(words: AnswerWords, ocr_words: Sequence[str]) -> dict[str, list[int]]:
    """Every word among the OCR tokens, and the ids that say it: its answer word if there is one, then the tokens."""
    ways: dict[str, list[int]] = {}
    for place, word in enumerate(ocr_words):
        ways.setdefault(word, [words.ids[word]] if word in words.ids else []).append(len(words) + place)
    return ways


def answer_paths(answer: str, words: AnswerWords, copied: Mapping[str, list[int]]) -> list[Path]:
    """All ways to say a cleaned answer, at most 20; none if a word of it cannot be said. `copied` is of `copies`."""
    paths: list[Path] = [()]
    for word in answer.split():
        ways = copied.get(word) or ([words.ids[word]] if word in words.ids else [])
        paths = [(*path, way) for path in paths for way in ways][:MOST_PATHS]
    return [path for path in paths if path]


def all_paths(answers: Sequence[str], words: AnswerWords, ocr_words: Sequence[str]) -> list[tuple[str, Path]]:
    """Cleaned answers with their paths, answer by answer. `ocr_words` are clean."""
    copied = copies(words, ocr_words)
    cleaned = [clean(answer) for answer in answers]
    return [(answer, path) for answer in cleaned for path in answer_paths(answer, words, copied)]


def draw(seed: int, question_id: int, count: int) -> int:
    """Which of `count` paths a question teaches."""
    return Random(f"{seed} {question_id}").randrange(count)


def lesson(
    answers: Sequence[str],
    words: AnswerWords,
    ocr_words: Sequence[str],
    max_steps: int,
    choose: Callable[[int], int],
    mark_duplicates: bool = False,
) -> Lesson:
    """Targets of a question along one of its paths. `choose` gets the number of paths; `ocr_words` are clean."""
    paths = all_paths(answers, words, ocr_words)
    if not paths:
        return Lesson((PAD,) * max_steps, {}, 0)
    worth = soft_scores([clean(answer) for answer in answers])
    scores: dict[tuple[int, int], float] = {}
    for answer, other in paths:
        scores[0, other[0]] = max(scores.get((0, other[0]), 0.0), worth[answer])
    answer, path = paths[choose(len(paths))]
    copied = copies(words, ocr_words) if mark_duplicates else {}
    for step, (word, way) in enumerate(zip(answer.split(), path, strict=True)):
        if 0 < step < max_steps:
            scores.update({(step, same): 1.0 for same in copied.get(word, [way])})
    if len(path) < max_steps:
        scores[len(path), END] = 1.0
    previous = (START, *path)[:max_steps]
    return Lesson(previous + (PAD,) * (max_steps - len(previous)), scores, len(previous))
