"""Which letters does a word have, and roughly where? The pyramidal histogram of characters (Almazán et al. 2014).

A word is cut into 2, 3, 4 and 5 equal parts. A part has a bit for each of a-z and 0-9, set when at least half of the
character's own extent lies in it. Then come 50 frequent pairs of letters in each half of the word. All is lower-cased and
other characters are dropped; a word without any left is all zeros.

M4C's inputs come from a C program that divides in single precision, and rounding decides whether an overlap of exactly one
half counts ("the" and "hello" have such). So every quotient here is float32, in that program's order.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Bool, Float32
from numpy.typing import NDArray

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PAIRS = (
    "th", "he", "in", "er", "an", "re", "es", "on", "st", "nt", "en", "at", "ed", "nd", "to", "or", "ea", "ti", "ar",
    "te", "ng", "al", "it", "as", "is", "ha", "et", "se", "ou", "of", "le", "sa", "ve", "ro", "ra", "ri", "hi", "ne",
    "me", "de", "co", "ta", "ec", "si", "ll", "so", "na", "li", "la", "el",
)  # fmt: skip
LEVELS = (2, 3, 4, 5)
PAIR_LEVEL = 2
DIM = len(LETTERS) * sum(LEVELS) + len(PAIRS) * PAIR_LEVEL
"""604."""

_LETTER = {letter: i for i, letter in enumerate(LETTERS)}
_PAIR = {pair: i for i, pair in enumerate(PAIRS)}


def phoc(words: Sequence[str]) -> Float32[np.ndarray, "n 604"]:
    """One row of 0 and 1 per word: level by level and part by part the letters, then half by half the pairs."""
    found = np.zeros((len(words), DIM), np.float32)
    first_pair = len(LETTERS) * sum(LEVELS)
    for row, word in zip(found, words, strict=True):
        kept = "".join(letter for letter in word.lower() if letter in _LETTER)
        parts, places = _inside(len(kept), 1, LEVELS)
        row[parts * len(LETTERS) + np.array([_LETTER[letter] for letter in kept], np.int64)[places]] = 1
        pairs = np.array([_PAIR.get(kept[i : i + 2], -1) for i in range(len(kept) - 1)], np.int64)
        parts, places = _inside(len(kept), 2, (PAIR_LEVEL,))
        known = pairs[places] >= 0
        row[first_pair + parts[known] * len(PAIRS) + pairs[places][known]] = 1
    return found


@cache
def _inside(length: int, width: int, levels: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Parts of a word, counted over all levels, and the places of the runs of `width` characters that lie in them."""
    if length < width:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    tables = [_half_inside(length, width, level) for level in levels]
    parts, places = np.concatenate(tables).nonzero()
    return parts, places


def _half_inside(length: int, width: int, level: int) -> Bool[np.ndarray, "parts places"]:
    """Whether at least half of each run of characters lies in each of `level` parts of the word."""
    place = np.arange(length - width + 1, dtype=np.float32)
    start, end = place / np.float32(length), (place + np.float32(width)) / np.float32(length)
    part = np.arange(level, dtype=np.float32)[:, None]
    part_start, part_end = part / np.float32(level), (part + np.float32(1)) / np.float32(level)
    overlap = np.minimum(end, part_end) - np.maximum(start, part_start)
    return overlap / (end - start) >= np.float32(0.5)
