"""Does the label of a detection say the phrase's own noun? Links without any vectors: by spelling, or by lemma.

The head noun must be the last word of the description ("a red chair" and "blue chair"). Then the score is how much the content
words of both agree: twice the words that are in both, over the words of each together (Dice). So "red chair" comes
before "chair", and "chair" before "blue chair". Everything else cannot be compared, and a phrase may stay without a link.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lit_attn.data.linking.linker import Linker, PhraseWords, Scores

FUNCTION_TAGS = frozenset(("DET", "PRON", "ADP", "CCONJ", "SCONJ", "PART", "AUX"))
_PLURALS = (("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", ""), ("men", "man"), ("people", "person"))


class Matching(Linker):
    """Links equal nouns: `exact` as they are spelt, `lemma` in any number, and whatever plural a label is in."""

    def __init__(self, by: Literal["exact", "lemma"]) -> None:
        self.identity = by

    def compare(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        described = [tuple(text.split()) for text in descriptions]
        return np.array([[self._score(phrase, words) for words in described] for phrase in phrases], np.float64)

    def _score(self, phrase: PhraseWords, description: tuple[str, ...]) -> float:
        if not self._equal(phrase, phrase.head, description[-1]):
            return -np.inf
        content = [i for i, tag in enumerate(phrase.tags) if tag not in FUNCTION_TAGS or i == phrase.head]
        shared = sum(any(self._equal(phrase, i, word) for i in content) for word in description)
        return 2 * shared / (len(content) + len(description))

    def _equal(self, phrase: PhraseWords, place: int, word: str) -> bool:
        if phrase.words[place] == word:
            return True
        return self.identity == "lemma" and phrase.lemmas[place] in _singulars(word)


def _singulars(word: str) -> set[str]:
    """The word and whatever it may be a plural of: labels have no lemmas."""
    stems = {word[: -len(end)] + single for end, single in _PLURALS if word.endswith(end) and len(word) > len(end) + 1}
    return {word, *stems} | ({"person"} if word == "people" else set()) | ({"man"} if word == "men" else set())
