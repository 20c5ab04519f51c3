"""Is a sentence of a review good or bad news? SST-2 as CSV files with the columns `label` and `sentence`.

Socher et al. (2013), two classes, as it is passed on with 6,920, 872 and 1,821 whole sentences. Sentences are read in word pieces
of a BERT's tokenizer, or in words of a vocabulary of our own.
"""

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lit_attn.data.labelled_sentences import LabelledSentence, SentenceData, SentenceList, own_lines
from lit_attn.data.question_tokens import QuestionTokens, VocabularyTokens, WordPieces
from lit_attn.data.vocab import Vocabulary, tokenize
from lit_attn.errors import UserError, did_you_mean

COLUMNS = ("label", "sentence")
FILES = {"train": "train_binary_sent.csv", "val": "dev_binary_sent.csv", "test": "test_binary_sent.csv"}
ANSWERS = ("negative", "positive")


@dataclass(frozen=True)
class Judged:
    """A sentence and the number of its class."""

    sample_id: str
    text: str
    label: int


def read_sst2(path: Path) -> list[Judged]:
    """All rows of a file in their order."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            for column in COLUMNS:
                if column not in names:
                    near = did_you_mean(column, names)
                    raise UserError(
                        f"{path} has no column {column!r}.{near} Its columns: {', '.join(names) or 'none'}."
                    )
            found = [_judged(row, path, rows.line_num) for row in rows]
    except OSError as error:
        raise UserError(f"Cannot read the sentences {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}.") from error
    if not found:
        raise UserError(f"{path} has no sentences below its header.")
    return found


def _judged(row: dict[str, str], path: Path, line: int) -> Judged:
    text, label = (row["sentence"] or "").strip(), (row["label"] or "").strip()
    if not text:
        raise UserError(f"{path}, line {line} has an empty sentence. Take it out.")
    if not label.isdecimal():
        raise UserError(f"{path}, line {line} has the label {label!r}; expected the number of a class, from 0.")
    return Judged(f"{path.name}:{line}", text, int(label))


class Sst2(SentenceData):
    """Sentences of reviews.

    Args:
        root: Folder with the three files.
        tokenizer: Folder or hub name of a BERT tokenizer; wins over `vocabulary`.
        vocabulary: A vocabulary JSON, or weights that hold their words; without either, the words that training has at least
            `min_count` times.
        max_tokens: Longer sentences lose their last words.
        sentences: Your own, for `predict`: a text file with one per line, or the sentence itself.
        seed: Of the order of training.
    """

    def __init__(
        self,
        root: str,
        tokenizer: str | None = None,
        vocabulary: str | None = None,
        min_count: int = 2,
        max_tokens: int = 64,
        sentences: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 64,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        for name, value, least in (("max_tokens", max_tokens, 3), ("min_count", min_count, 1)):
            if value < least:
                raise UserError(f"data.{name} must be at least {least}, got {value}.")
        self.root, self.tokenizer, self.vocabulary_path = Path(root), tokenizer, vocabulary
        self.min_count, self.max_tokens, self.sentences = min_count, max_tokens, sentences
        self._datasets: dict[str, SentenceList] = {}

    @property
    def answers(self) -> tuple[str, ...]:
        return ANSWERS

    @cached_property
    def vocabulary(self) -> QuestionTokens:
        if self.tokenizer is not None:
            return WordPieces(self.tokenizer)
        if self.vocabulary_path is not None:
            return VocabularyTokens.read(Path(self.vocabulary_path))
        return VocabularyTokens(Vocabulary.build((tokenize(one.text) for one in self._judged("train")), self.min_count))

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def unknown(self) -> int:
        return self.vocabulary.unknown

    def dataset(self, stage: str) -> SentenceList:
        if stage == "predict" and self.sentences is not None:
            return SentenceList(
                [self._encoded(i, f"sentence-{i + 1}", text, -1) for i, text in enumerate(own_lines(self.sentences))]
            )
        split = stage if stage in ("train", "val") else "test"
        if split not in self._datasets:
            judged = self._judged(split)
            self._datasets[split] = SentenceList(
                [self._encoded(i, one.sample_id, one.text, one.label) for i, one in enumerate(judged)]
            )
        return self._datasets[split]

    def reference_scores(self, stage: str) -> dict[str, float]:
        """What the more frequent class, counted on the very sentences, would score."""
        labels = [one.label for one in self._judged("val" if stage == "val" else "test")]
        return {"majority_accuracy": max(labels.count(label) for label in range(len(ANSWERS))) / len(labels)}

    def _judged(self, split: str) -> list[Judged]:
        path = self.root / FILES[split]
        found = read_sst2(path)
        for one in found:
            if one.label >= len(ANSWERS):
                raise UserError(f"{one.sample_id} has the label {one.label}; expected 0 (negative) or 1 (positive).")
        return found

    def _encoded(self, number: int, name: str, text: str, label: int) -> LabelledSentence:
        ids, words = self.vocabulary.encode(text, self.max_tokens)
        if len(ids) < 3:
            raise UserError(f"{name} has no words: {text!r}. Write a sentence.")
        return LabelledSentence(number, name, words, ids, label)
