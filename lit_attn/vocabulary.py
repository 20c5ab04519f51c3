"""Which number stands for a word of a caption? Ids as the captioner uses them: 0 is START, END and padding at once.

Files are those of the public label preparation (`ix_to_word` of `cocotalk.json`), and our weights carry their own words,
because ids of the same words differ between preparations. SCAN's vocabulary, with four special ids, is in `data.vocab`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lit_attn.errors import UserError

END = 0
UNKNOWN = "UNK"


@dataclass(frozen=True)
class CaptionWords:
    """Words by id, from 1 on. `UNK`, if there is one, stands for all others."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise UserError("A vocabulary needs at least one word.")
        twice = [word for word, count in Counter(self.words).items() if count > 1]
        if twice:
            raise UserError(f"The vocabulary lists {twice[0]!r} twice.")

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], min_count: int) -> "CaptionWords":
        """Words that occur at least `min_count` times, in order of first occurrence; then UNK if any is rarer."""
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = tuple(word for word, count in counts.items() if count >= min_count and word != UNKNOWN)
        return cls(kept if len(kept) == len(counts) else (*kept, UNKNOWN))

    @classmethod
    def read(cls, path: Path) -> "CaptionWords":
        """The words of a JSON with `ix_to_word`, as label preparation writes it."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))["ix_to_word"]
            words = tuple(raw[str(i)] for i in range(1, len(raw) + 1))
        except OSError as error:
            raise UserError(f"Cannot read the vocabulary {path}: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no JSON with ix_to_word, ids from 1 ({error!r}).") from error
        return cls(words)

    def __len__(self) -> int:
        """Number of ids, END among them: the size of the model's vocabulary."""
        return len(self.words) + 1

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, 1)}

    @property
    def unknown(self) -> int | None:
        """The id that stands for unknown words."""
        return self.ids.get(UNKNOWN)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any word or its place changes: a checkpoint only fits the words it was trained with."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of words, without START and END. Unknown words are left out where there is no UNK."""
        found = (self.ids.get(token, self.unknown) for token in tokens)
        return [i for i in found if i is not None]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words up to the first END."""
        words = []
        for i in ids:
            if i == END:
                break
            words.append(self.words[i - 1])
        return words
