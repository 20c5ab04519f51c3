"""Which words may an answer have besides those read in the picture? M4C's fixed vocabulary of answer words.

The file is MMF's `fixed_answer_vocab_textvqa_5k.txt`: one word per line, the first four `<pad>`, `<s>`, `</s>` and `<unk>`. An
id from the number of these words on points at an OCR token.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lit_attn.checkpoint import SUFFIXES as WEIGHTS
from lit_attn.checkpoint import read_answers
from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.ops.answers import clean

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIALS))


@dataclass(frozen=True)
class AnswerWords:
    """Words by id."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise UserError(_opening(self.words))
        twice = [word for word, count in Counter(self.words).items() if count > 1]
        if twice:
            raise UserError(f"The answer words list {twice[0]!r} twice.")

    @classmethod
    def most_common(cls, answers: Iterable[str], size: int) -> "AnswerWords":
        """The `size` most frequent words of cleaned answers, ties by spelling, after the four special ones."""
        counts = Counter(word for answer in answers for word in clean(answer).split() if word not in SPECIALS)
        return cls(SPECIALS + tuple(sorted(counts, key=lambda word: (-counts[word], word))[:size]))

    @classmethod
    def read(cls, path: Path) -> "AnswerWords":
        """Of weights, or one word per line: there outer blanks and empty lines at the end do not count."""
        if path.suffix in WEIGHTS:
            return cls(read_answers(path))
        try:
            words = tuple(line.strip() for line in path.read_text(encoding="utf-8").rstrip().split("\n"))
        except OSError as error:
            raise UserError(f"Cannot read the answer words {path}: {error.strerror}.") from error
        except ValueError as error:
            raise UserError(f"{path} is no text file of answer words: {error}.") from error
        try:
            return cls(words)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def write(self, path: Path) -> None:
        """One word per line."""
        write_text(path, "".join(f"{word}\n" for word in self.words))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Of real words only: no answer means a special one."""
        return {word: i for i, word in enumerate(self.words) if i >= len(SPECIALS)}

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any word or its place changes: a checkpoint only fits the words it was trained with."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def decode(self, ids: Iterable[int], ocr_words: Sequence[str]) -> str:
        """The answer up to `</s>`: words and OCR tokens joined by blanks, `'s` joined to the word before it, as in MMF."""
        spoken = []
        for i in ids:
            if i == END:
                break
            spoken.append(self.words[i] if i < len(self.words) else ocr_words[i - len(self.words)])
        return " ".join(spoken).replace(" 's", "'s")


def _opening(words: Sequence[str]) -> str:
    return (
        f"Answer words open with {', '.join(SPECIALS)}, these with {', '.join(words[: len(SPECIALS)])}. "
        "Put these four lines before the first word."
    )
