"""How does a linker compare the noun phrases of a text with the descriptions of detections? What all linkers share.

Scores are larger for likelier links and mean nothing between linkers. Every text is compared once, so that detections with the
same description have the same score to the bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from lit_attn.types import Annotation, Phrase

Scores = Float64[np.ndarray, "p r"]


class PhraseWords(NamedTuple):
    """A noun phrase as linkers see it: lower-cased."""

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    tags: tuple[str, ...]
    head: int
    """Which of the words is the head noun."""

    @property
    def text(self) -> str:
        return " ".join(self.words)


def phrase_words(annotation: Annotation, phrase: Phrase) -> PhraseWords:
    """The words of a phrase, without signs such as commas."""
    places = [i for i in range(*phrase.span) if annotation.pos[i] not in ("PUNCT", "SPACE") or i == phrase.head]
    words, lemmas = (tuple(source[i].lower() for i in places) for source in (annotation.tokens, annotation.lemmas))
    return PhraseWords(words, lemmas, tuple(annotation.pos[i] for i in places), places.index(phrase.head))


class Linker(ABC):
    """Compares phrases with descriptions such as "red chair": an attribute, perhaps, and a label."""

    identity: str
    """Its name, and the files behind it: links of another identity are made anew."""

    def scores(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        """Of every phrase with every description; minus infinity where they cannot be compared."""
        texts = [text.lower() for text in descriptions]
        different, different_texts = list(dict.fromkeys(phrases)), [t for t in dict.fromkeys(texts) if t.split()]
        table = np.full((len(different), len(different_texts) + 1), -np.inf)  # the last column: no description
        if different and different_texts:
            table[:, :-1] = self.compare(different, different_texts)
        rows = {phrase: i for i, phrase in enumerate(different)}
        columns = {text: i for i, text in enumerate(different_texts)}
        down = np.array([rows[phrase] for phrase in phrases], np.int64)
        across = np.array([columns.get(text, len(columns)) for text in texts], np.int64)
        return table[down[:, None], across[None]]

    def read_ahead(self, phrases: Iterable[PhraseWords], descriptions: Iterable[str]) -> None:  # noqa: B027
        """What will be compared soon, so that a network can read much of it at once."""

    @abstractmethod
    def compare(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        """The same for phrases and descriptions that all differ; descriptions are lower-cased and have words."""
