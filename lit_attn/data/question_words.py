"""Which number stands for a word of a question? Ids 0 to 3 are padding, unknown, start and end, as CLEVR's tools have them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lit_attn.errors import UserError

SPECIALS = ("<pad>", "<unk>", "<start>", "<end>")
UNKNOWN = 1


@dataclass(frozen=True)
class QuestionWords:
    """Words by id."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise UserError(
                f"The words of questions open with {', '.join(SPECIALS)}; these with {', '.join(self.words[:4])}."
            )

    @classmethod
    def build(cls, questions: Iterable[Sequence[str]]) -> "QuestionWords":
        """All words, sorted."""
        return cls(SPECIALS + tuple(sorted({word for question in questions for word in question} - {*SPECIALS})))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any word or its place changes."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode(self, words: Iterable[str]) -> tuple[int, ...]:
        """One id per word, without start and end."""
        return tuple(self.ids.get(word, UNKNOWN) for word in words)
