"""How does a model read a question? As word pieces of a BERT tokenizer, or as words of a vocabulary of our own."""

from abc import ABC, abstractmethod
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from lit_attn.checkpoint import SUFFIXES as WEIGHTS
from lit_attn.checkpoint import read_question_words
from lit_attn.data.vocab import END, START, UNKNOWN, Vocabulary, token_spans, tokenize
from lit_attn.errors import UserError
from lit_attn.language.pieces import words_of_pieces

Encoded = tuple[tuple[int, ...], tuple[str, ...]]
"""Ids, and the word or word piece of each."""


class QuestionTokens(ABC):
    """Text to ids."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of ids."""

    @abstractmethod
    def encode(self, text: str, max_tokens: int) -> Encoded:
        """A start, the first words that find room, an end. Empty text has nothing between the two."""

    @abstractmethod
    def word_of(self, text: str, max_tokens: int) -> tuple[int, ...] | None:
        """Which word of `tokenize` each id of `encode` is a piece of, -1 for none. None where ids are whole words, one by one."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Words by id, to be kept with a model's weights; empty where others keep them, as a tokenizer's files do."""

    @property
    @abstractmethod
    def unknown(self) -> int:
        """The id of the unknown word."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes when any word or its place changes."""


class VocabularyTokens(QuestionTokens):
    """Lower-cased words of a vocabulary, between `<start>` and `<end>`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def read(cls, path: Path) -> "VocabularyTokens":
        """Of weights, or of a vocabulary JSON."""
        if path.suffix in WEIGHTS:
            return cls(Vocabulary(read_question_words(path)))
        return cls(Vocabulary.read(path))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str, max_tokens: int) -> Encoded:
        words = tokenize(text)[: max_tokens - 2]
        return tuple(self.vocabulary.encode(words)), (START, *words, END)

    def word_of(self, text: str, max_tokens: int) -> None:
        return None

    @property
    def words(self) -> tuple[str, ...]:
        return self.vocabulary.words

    @property
    def unknown(self) -> int:
        return self.vocabulary.words.index(UNKNOWN)

    @property
    def fingerprint(self) -> str:
        return self.vocabulary.fingerprint


class WordPieces(QuestionTokens):
    """Pieces of a BERT tokenizer, between `[CLS]` and `[SEP]`.

    Args:
        source: A folder with the tokenizer's files, or its name on the hub.
    """

    def __init__(self, source: str) -> None:
        from transformers import BertTokenizer

        missing = UserError(
            f"data.tokenizer {source!r} is no BERT tokenizer, neither a folder with tokenizer.json or vocab.txt nor a name on "
            "the hub that can be reached. Name one, or none for a vocabulary of our own."
        )
        folder = Path(source)
        if folder.is_dir() and not any((folder / file).exists() for file in ("tokenizer.json", "vocab.txt")):
            raise missing
        try:
            self._tokenizer: Any = BertTokenizer.from_pretrained(source)
        except (OSError, ValueError) as error:
            raise missing from error

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode(self, text: str, max_tokens: int) -> Encoded:
        ids = self._tokenizer(text, truncation=True, max_length=max_tokens)["input_ids"]
        return tuple(ids), tuple(self._tokenizer.convert_ids_to_tokens(ids))

    def word_of(self, text: str, max_tokens: int) -> tuple[int, ...]:
        found = self._tokenizer(text, truncation=True, max_length=max_tokens, return_offsets_mapping=True)
        return tuple(words_of_pieces(found["offset_mapping"], token_spans(text, tokenize(text))))

    @property
    def words(self) -> tuple[str, ...]:
        return ()

    @property
    def unknown(self) -> int:
        return int(self._tokenizer.unk_token_id)

    @cached_property
    def fingerprint(self) -> str:
        ids = self._tokenizer.get_vocab()
        return sha256("\n".join(sorted(ids, key=ids.__getitem__)).encode()).hexdigest()
