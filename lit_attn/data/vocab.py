"""Which number stands for a word? Vocabularies of the matching models, in the file format that SCAN distributes."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nltk.tokenize import NLTKWordTokenizer

from lit_attn.errors import UserError

PAD, START, END, UNKNOWN = "<pad>", "<start>", "<end>", "<unk>"
SPECIALS = (PAD, START, END, UNKNOWN)

_TOKENIZER = NLTKWordTokenizer()
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def tokenize(caption: str) -> list[str]:
    """Lower-cased NLTK word tokens, sentence by sentence.

    NLTK's own `word_tokenize` finds sentences with a model that is a separate download; captions are short, so here a
    sentence ends at a full stop, exclamation or question mark before white space.
    """
    return [token for part in _SENTENCE_END.split(caption.lower().strip()) for token in _TOKENIZER.tokenize(part)]


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where the tokens of `tokenize` lie in the text, in characters."""
    places = [i for i, letter in enumerate(text) for _ in letter.lower() if not letter.isspace()]
    spans, at = [], 0
    for token in tokens:
        # NLTK writes a quotation mark as two signs; a letter may be longer in lower case.
        length = 1 if token in ("``", "''") and text[places[at]] == '"' else len(token)
        spans.append((places[at], places[at + length - 1] + 1))
        at += length
    return spans


@dataclass(frozen=True)
class Vocabulary:
    """Words by id. Ids 0 to 3 are padding, start, end and unknown."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[:4] != SPECIALS:
            raise UserError(
                f"A vocabulary opens with {', '.join(SPECIALS)}; this one with {', '.join(self.words[:4])}."
            )
        if len(set(self.words)) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise UserError(f"The vocabulary lists {twice!r} twice.")

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], min_count: int) -> "Vocabulary":
        """Words that occur at least `min_count` times, most frequent first, ties by spelling."""
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = sorted((w for w, n in counts.items() if n >= min_count), key=lambda w: (-counts[w], w))
        return cls(SPECIALS + tuple(word for word in kept if word not in SPECIALS))

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """A vocabulary JSON with `word2idx`, `idx2word` and `idx`, as SCAN distributes it."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            words = tuple(raw["idx2word"][str(i)] for i in range(int(raw["idx"])))
        except OSError as error:
            raise UserError(f"Cannot read the vocabulary {path}: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not a vocabulary JSON with word2idx, idx2word and idx ({error!r}).") from error
        return cls(words)

    def write(self, path: Path) -> None:
        raw = {
            "word2idx": {word: i for i, word in enumerate(self.words)},
            "idx2word": {str(i): word for i, word in enumerate(self.words)},
            "idx": len(self.words),
        }
        path.write_text(json.dumps(raw, ensure_ascii=False), encoding="utf-8")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any word or its place changes: a checkpoint only fits the vocabulary it was trained with."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids with START and END around them."""
        unknown = self.ids[UNKNOWN]
        return [self.ids[START], *(self.ids.get(token, unknown) for token in tokens), self.ids[END]]

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.words[i] for i in ids]
