"""Which verb follows, VBZ or VBP? The sentences of Linzen et al. (2016), read as they are distributed.

`numpred.train`, `.val`, `.test` and `.test.1` to `.test.5` hold a label, a tab, and the words before the verb; rare words are
already replaced by their part of speech. A file `.test.k` holds sentences with k attractors, nouns of the other number between
the subject and the verb; the others are `natural`: their attractors are not counted.

All files of a folder are pooled and split anew by the text of a sentence, so that no text is in two splits, whatever files are
there: the published comparison did so, with a tenth for training and a hundredth for validation. By default four fifths are for
training and a twentieth for validation, because the few files that are small enough to pass on hold 80,522 sentences.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from lit_attn.checkpoint import read_question_words
from lit_attn.data.labelled_sentences import (
    LabelledSentence,
    SentenceList,
    WordedSentenceData,
    between_marks,
)
from lit_attn.data.question_words import SPECIALS, QuestionWords
from lit_attn.data.scenes.rooms import digest
from lit_attn.errors import UserError

PREFIX = "numpred."
NATURAL = "natural"
NATURAL_FILES = ("train", "val", "test")
MOST_ATTRACTORS = 5
ANSWERS = ("VBZ", "VBP")
"""Singular and plural."""
KINDS = (NATURAL, *(f"attractors_{k}" for k in range(1, MOST_ATTRACTORS + 1)))
Kinds = Literal["all", "natural"]


@dataclass(frozen=True)
class Line:
    """A sentence as it is distributed."""

    source: str
    """File and number of its line."""
    kind: str
    answer: int
    words: tuple[str, ...]


def read_folder(root: Path) -> list[Line]:
    """All sentences of the files that are there, file by file."""
    files = {f"{PREFIX}{name}": NATURAL for name in NATURAL_FILES}
    files |= {f"{PREFIX}test.{k}": f"attractors_{k}" for k in range(1, MOST_ATTRACTORS + 1)}
    found = [(root / name, kind) for name, kind in files.items() if (root / name).is_file()]
    if not found:
        raise UserError(
            f"data.root {str(root)!r} holds none of Linzen's files: {', '.join(files)}. Name the folder that has them."
        )
    return [line for path, kind in found for line in read_file(path, kind)]


def read_file(path: Path, kind: str) -> list[Line]:
    """The sentences of one file. A damaged line stops the reading and is named."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}. Fetch the file again.") from error
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    lines = text.removesuffix("\n").split("\n")
    return [_read_line(line, path, number, kind) for number, line in enumerate(lines, 1)]


def _read_line(line: str, path: Path, number: int, kind: str) -> Line:
    where = f"{path}, line {number}"
    label, tab, rest = line.partition("\t")
    if not tab or "\t" in rest:
        shown = line if len(line) <= 60 else line[:60] + "…"
        raise UserError(f"{where} is no label, tab and words: {shown!r}. Repair the line, or fetch the file again.")
    if label not in ANSWERS:
        raise UserError(f"{where} has the label {label!r}; expected {' or '.join(ANSWERS)}.")
    words = tuple(rest.split())
    if not words:
        raise UserError(f"{where} has no words before its verb. Take the line out.")
    return Line(f"{path.name}:{number}", kind, ANSWERS.index(label), words)


def split_of(words: tuple[str, ...], seed: int, train_share: float, val_share: float) -> str:
    """`train`, `val` or `test`, from the text and the seed alone."""
    place = digest("linzen", seed, " ".join(words)) / 2**64
    return "train" if place < train_share else "val" if place < train_share + val_share else "test"


class Linzen(WordedSentenceData):
    """Sentences of Linzen et al.

    Args:
        root: Folder with the files.
        train_share, val_share: Of all sentences; the rest is for testing.
        eval_kinds: `all` sentences, or the `natural` ones alone.
        train_attractors: At most so many sentences with counted attractors in training. In all of them every noun between
            subject and verb has the other number; with many of them a network learns to contradict the last noun.
        natural_repeats: So often an epoch has each natural sentence: with few of these among many attractors the same happens.
        train_max_words: Longer sentences are left out of training: a batch is as long as its longest.
        vocabulary: Weights whose words are used; without, the words of training are counted.
        min_count: Words that training has less often are unknown. Blanking a word out puts the unknown word in its place: it
            should have been seen.
        sentences: Your own, for `predict`.
        seed: Of the split and of the order of training.
    """

    def __init__(
        self,
        root: str,
        train_share: float = 0.8,
        val_share: float = 0.05,
        train_attractors: int = 6000,
        natural_repeats: int = 1,
        eval_kinds: Kinds = "all",
        train_max_words: int | None = None,
        vocabulary: str | None = None,
        min_count: int = 10,
        sentences: str | None = None,
        batch_size: int = 64,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 42,
    ) -> None:
        super().__init__(sentences, batch_size, eval_batch_size, num_workers, seed)
        if train_share <= 0 or val_share <= 0 or train_share + val_share >= 1:
            raise UserError(
                f"data.train_share and data.val_share are above 0 and leave something for testing; got {train_share} and "
                f"{val_share}."
            )
        for name, value in (("min_count", min_count), ("natural_repeats", natural_repeats)):
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        self.root = Path(root)
        self.train_share, self.val_share = train_share, val_share
        self.train_attractors, self.eval_kinds = train_attractors, eval_kinds
        self.natural_repeats = natural_repeats
        self.train_max_words = train_max_words
        self.vocabulary_source = vocabulary
        self.min_count = min_count
        self._datasets: dict[str, SentenceList] = {}

    @property
    def answers(self) -> tuple[str, ...]:
        return ANSWERS

    @property
    def kinds(self) -> tuple[str, ...]:
        return KINDS

    @cached_property
    def lines(self) -> dict[str, list[Line]]:
        """By split, in the order of the files."""
        found: dict[str, list[Line]] = {"train": [], "val": [], "test": []}
        for line in read_folder(self.root):
            found[split_of(line.words, self.seed, self.train_share, self.val_share)].append(line)
        return found

    @cached_property
    def vocabulary(self) -> QuestionWords:
        if self.vocabulary_source is not None:
            return QuestionWords(read_question_words(Path(self.vocabulary_source)))
        counts = Counter(word for line in set(self._of_stage("train")) for word in line.words)
        kept = sorted(word for word, count in counts.items() if count >= self.min_count and word not in SPECIALS)
        return QuestionWords(SPECIALS + tuple(kept))

    def dataset(self, stage: str) -> SentenceList:
        if stage == "predict" and self.sentences is not None:
            return self.own_sentences()
        split = stage if stage in ("train", "val") else "test"
        if split not in self._datasets:
            self._datasets[split] = SentenceList(self._encoded(split))
        return self._datasets[split]

    def _of_stage(self, stage: str) -> list[Line]:
        found = self._training_lines() if stage == "train" else self._evaluation_lines(stage)
        if not found:
            raise UserError(f"The files in {self.root} leave no sentences for {stage}. Change the shares.")
        return found

    def _evaluation_lines(self, stage: str) -> list[Line]:
        return [line for line in self.lines[stage] if self.eval_kinds == "all" or line.kind == NATURAL]

    def _training_lines(self) -> list[Line]:
        """The natural ones, then those with attractors in an order that depends on text and seed alone."""
        limit = self.train_max_words
        short = [line for line in self.lines["train"] if limit is None or len(line.words) <= limit]
        natural = [line for line in short if line.kind == NATURAL]
        others = sorted(
            (line for line in short if line.kind != NATURAL),
            key=lambda line: digest("attractors", self.seed, *line.words),
        )
        return natural * self.natural_repeats + others[: self.train_attractors]

    def _encoded(self, split: str) -> list[LabelledSentence]:
        return [
            LabelledSentence(i, line.source, *between_marks(line.words, self.vocabulary), line.answer, line.kind)
            for i, line in enumerate(self._of_stage(split))
        ]

    def reference_scores(self, stage: str) -> dict[str, float]:
        """What the more frequent verb of each kind, counted on the very sentences, would score."""
        counts = Counter((line.kind, line.answer) for line in self._of_stage("val" if stage == "val" else "test"))
        totals = {kind: counts[kind, 0] + counts[kind, 1] for kind in KINDS}
        best = {kind: max(counts[kind, 0], counts[kind, 1]) for kind in KINDS}
        scores = {f"majority_accuracy_{kind}": best[kind] / totals[kind] for kind in KINDS if totals[kind]}
        return {"majority_accuracy": sum(best.values()) / sum(totals.values())} | scores
