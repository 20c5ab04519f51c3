"""Does a caption say what its references say, rare phrases counting most? CIDEr-D and CIDEr (Vedantam et al., 2015).

A sentence is one vector for each n from 1 to 4: the count of every n-gram times log(pictures / max(1, pictures that have
it in their references)). A reference is compared with the hypothesis by the cosine of the vectors. CIDEr-D takes the
smaller of the two counts in the product, so that repeating a word does not pay, and multiplies by exp(-d² / 2σ²), d
being the difference of lengths. The score is ten times the mean over n and references: from 0 to 10.

The "CIDEr" that COCO evaluation prints is CIDEr-D with document frequencies from the very references it is given; there a
single picture scores 0, because everything said of it is said of every picture. The published code counts lengths in
bigrams; the difference is the same, except for an empty sentence, and that scores 0 either way.

What is new is the order of work. The references of a picture are turned around once into a table from n-gram to the
references that hold it, kept for the next hypothesis about the picture, in this call or in a later one; a hypothesis
then costs one look per n-gram, not one per n-gram and reference.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float64

from lit_attn.errors import UserError

Token = Hashable
Ngram = tuple[Token, ...]
Sentence = Sequence[Token]

LONGEST = 4
END = 0


def ngrams(tokens: Sentence) -> list[dict[Ngram, int]]:
    """How often each n-gram occurs: one table for each n from 1 to 4."""
    shifted = [tokens[start:] for start in range(LONGEST)]
    tables: list[dict[Ngram, int]] = []
    for n in range(1, LONGEST + 1):
        table: dict[Ngram, int] = {}
        for ngram in zip(*shifted[:n], strict=False):
            table[ngram] = table.get(ngram, 0) + 1
        tables.append(table)
    return tables


def with_end(ids: Sequence[int]) -> tuple[int, ...]:
    """The ids up to the first END, which is kept, as the self-critical reward wants them; all when there is none."""
    return tuple(ids[: ids.index(END) + 1] if END in ids else ids)


def check_pairs(hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]) -> None:
    """Every hypothesis needs a list of references, and every list at least one."""
    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} hypotheses but {len(references)} lists of references: give one for each.")
    for place, own in enumerate(references):
        if not own:
            raise UserError(f"Hypothesis {place} has no references: leave it out, or give at least one.")


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many pictures' references each n-gram of 1 to 4 tokens occurs, and over how many pictures it was counted."""

    counts: Mapping[Ngram, int | float]
    pictures: int | float

    def __post_init__(self) -> None:
        largest = max(self.counts.values(), default=1)
        if not self.pictures >= largest >= 0:
            raise UserError(
                f"Document frequencies over {self.pictures} pictures cannot hold an n-gram of {largest} pictures: "
                "count them again from the references."
            )

    @classmethod
    def count(cls, references: Iterable[Sequence[Sentence]]) -> "DocumentFrequencies":
        """From the references of each picture. However often a picture's references repeat an n-gram, it counts once."""
        counts: Counter[Ngram] = Counter()
        pictures = 0
        for own in references:
            pictures += 1
            counts.update({ngram for tokens in own for table in ngrams(tokens) for ngram in table})
        return cls(dict(counts), pictures)


_Match = tuple[int, float, float]
"""Which reference holds the n-gram, how often it counts at most, and what each time adds to the product of vectors,
already divided by the norm of the reference. A plain tuple, because making named ones takes half of the time."""


class _Picture(NamedTuple):
    lengths: list[int]
    matches: dict[Ngram, list[_Match]]


@final
class CiderD:
    """Scores hypotheses under fixed document frequencies. `clipped=False, sigma=math.inf` is plain CIDEr.

    The tables of the last `remembered` pictures are kept, about 40 kB each; they are found by the references themselves.
    """

    def __init__(
        self,
        frequencies: DocumentFrequencies,
        *,
        clipped: bool = True,
        sigma: float = 6.0,
        remembered: int = 2000,
    ) -> None:
        self._counts = frequencies.counts
        self._rarity = {
            count: math.log(frequencies.pictures) - math.log(max(1.0, count))
            for count in {0, *frequencies.counts.values()}
        }
        self._clipped = clipped
        self._sigma = sigma
        self._remembered = remembered
        self._pictures: OrderedDict[tuple[Ngram, ...], _Picture] = OrderedDict()

    def scores(
        self, hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]
    ) -> Float64[np.ndarray, " hypotheses"]:
        """One score per hypothesis, from 0 to 10, against its own references."""
        check_pairs(hypotheses, references)
        pairs = zip(hypotheses, references, strict=True)
        return np.array([self._score(tokens, self._picture(own)) for tokens, own in pairs], dtype=np.float64)

    def _score(self, tokens: Sentence, picture: _Picture) -> float:
        cosines = [0.0] * len(picture.lengths)
        for table in ngrams(tokens):
            squares = 0.0
            products = [0.0] * len(cosines)
            for ngram, times in table.items():
                weight = times * self._rarity[self._counts.get(ngram, 0)]
                squares += weight * weight
                for reference, most, gain in picture.matches.get(ngram, ()):
                    products[reference] += gain * (times if times < most else most)
            if squares > 0:
                norm = math.sqrt(squares)
                cosines = [cosine + product / norm for cosine, product in zip(cosines, products, strict=True)]
        total = 0.0
        for cosine, length in zip(cosines, picture.lengths, strict=True):
            total += cosine * math.exp(-((len(tokens) - length) ** 2) / (2 * self._sigma**2))
        return 10 * total / LONGEST / len(cosines)

    def _picture(self, references: Sequence[Sentence]) -> _Picture:
        """The table of these references, from memory or made now."""
        key = tuple(tuple(tokens) for tokens in references)
        picture = self._pictures.get(key)
        if picture is None:
            picture = self._pictures[key] = self._cook(key)
            if len(self._pictures) > self._remembered:
                self._pictures.popitem(last=False)
        else:
            self._pictures.move_to_end(key)
        return picture

    def _cook(self, references: tuple[Ngram, ...]) -> _Picture:
        matches: dict[Ngram, list[_Match]] = {}
        for reference, tokens in enumerate(references):
            for table in ngrams(tokens):
                rarities = [self._rarity[self._counts.get(ngram, 0)] for ngram in table]
                pairs = zip(table.values(), rarities, strict=True)
                norm = math.sqrt(sum([(times * rarity) ** 2 for times, rarity in pairs]))
                for (ngram, times), rarity in zip(table.items(), rarities, strict=True):
                    if rarity > 0:
                        match = (reference, times if self._clipped else math.inf, times * rarity * rarity / norm)
                        if ngram in matches:
                            matches[ngram].append(match)
                        else:
                            matches[ngram] = [match]
        return _Picture([len(tokens) for tokens in references], matches)


def cider_d(
    hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]]
) -> Float64[np.ndarray, " hypotheses"]:
    """CIDEr-D as COCO evaluation prints it, 0 to 10: one hypothesis per picture, document frequencies from all references."""
    return CiderD(DocumentFrequencies.count(references), remembered=1).scores(hypotheses, references)
