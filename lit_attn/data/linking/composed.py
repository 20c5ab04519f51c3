"""Do a phrase and a description mean the same, by the vectors of their words? GloVe add and multiply.

The vectors of all words of a text are added or multiplied element by element, and two texts compared by the cosine. Words
that have no vector are passed over; a text without any vector cannot be compared. Articles count, as in the paper.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64

from lit_attn.data.linking.linker import Linker, PhraseWords, Scores
from lit_attn.data.word_vectors import WordVectors
from lit_attn.ops.linking import cosines


class Composed(Linker):
    """Texts as sums or products of word vectors."""

    def __init__(self, how: Literal["add", "multiply"], vectors: WordVectors, source: str) -> None:
        self.identity = f"glove_{how} {source}"
        self._combine = np.add if how == "add" else np.multiply
        self._vectors = vectors

    def compare(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        own = np.stack([self._composed(phrase.words) for phrase in phrases])
        return cosines(own, np.stack([self._composed(text.split()) for text in descriptions]))

    def _composed(self, words: Sequence[str]) -> Float64[np.ndarray, " d"]:
        rows = self._vectors(words).astype(np.float64)
        known = rows[rows.any(1)]
        return self._combine.reduce(known, axis=0) if len(known) else np.zeros(self._vectors.dim)
