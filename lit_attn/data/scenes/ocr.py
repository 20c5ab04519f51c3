"""What would a text reader find in a scene? The printed words, with its mistakes."""

from dataclasses import dataclass
from random import Random

from .rooms import digest
from .world import Box, Scene

_MISSED = 0.1
_MISREAD = 0.1
_SPURIOUS = 0.1
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LOOKALIKES = str.maketrans("abcdefghijklmnopqrstuvwxyz0123456789", "o6eoct9nlix1nh0qgn5fvuvkv2olz8asb138")


@dataclass(frozen=True)
class OcrToken:
    """A piece of text and where it was read."""

    text: str
    box: Box
    confidence: float
    thing: int
    """The thing that carries it; -1 if there is no such text."""


def read_text(scene: Scene) -> tuple[OcrToken, ...]:
    """What was read, from the most to the least confident. Some words are missed, some misread, some made up."""
    rng = Random(digest(scene.seed, scene.split, scene.index, "text"))
    tokens = []
    for number, thing in enumerate(scene.things):
        if thing.word is None or rng.random() < _MISSED:
            continue
        misread = rng.random() < _MISREAD
        text = _misread(thing.word, rng) if misread else thing.word
        confidence = rng.uniform(0.4, 0.8) if misread else rng.uniform(0.7, 1.0)
        tokens.append(OcrToken(text, _text_box(thing.box, rng), confidence, number))
    if rng.random() < _SPURIOUS:
        text = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 3)))
        x, y = 0.92 * rng.random(), 0.95 * rng.random()
        tokens.append(OcrToken(text, (x, y, x + 0.08, y + 0.05), rng.uniform(0.1, 0.5), -1))
    return tuple(sorted(tokens, key=lambda token: -token.confidence))


def _misread(word: str, rng: Random) -> str:
    """The word with one character taken for another that looks like it."""
    place = rng.randrange(len(word))
    return word[:place] + word[place].translate(_LOOKALIKES) + word[place + 1 :]


def _text_box(box: Box, rng: Random) -> Box:
    """The inner part of the thing's box, its edges a little off."""
    x1, y1, x2, y2 = box
    width, height = x2 - x1, y2 - y1
    off = [0.04 * (2 * rng.random() - 1) for _ in range(4)]
    return (
        x1 + (0.1 + off[0]) * width,
        y1 + (0.25 + off[1]) * height,
        x2 - (0.1 + off[2]) * width,
        y2 - (0.1 + off[3]) * height,
    )
