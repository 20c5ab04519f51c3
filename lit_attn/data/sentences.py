"""What does the user want to see painted? Their own sentences, from a file or from the command line itself.

Words are cut as AttnGAN cuts captions: runs of letters and digits, lower-case, without what is not ASCII. Words that the
model does not know are left out, and said so.
"""

import csv
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lit_attn.errors import UserError, did_you_mean
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger(__name__)

SUFFIXES = (".txt", ".csv")
COLUMN = "caption"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Sentence:
    """Words that are known, and their ids."""

    words: tuple[str, ...]
    ids: tuple[int, ...]


def split_words(text: str) -> tuple[str, ...]:
    """The words of a caption by AttnGAN's rule."""
    found = (word.encode("ascii", "ignore").decode("ascii") for word in _WORD.findall(text.lower()))
    return tuple(word for word in found if word)


def read_sentences(source: str, vocabulary: CaptionWords, max_words: int) -> list[Sentence]:
    """The sentences of a file, or of a text with one per line, in their order."""
    if os.path.isfile(source) or source.lower().endswith(SUFFIXES):
        lines = _read_file(Path(source))
        where = source
    else:
        lines = [(number, line) for number, line in enumerate(source.rstrip().split("\n"), 1)]
        where = "data.sentences"
    if not lines:
        raise UserError(f"{where} has no sentence. Write one per line.")
    return [_known(line, f"{where}, line {number}", vocabulary, max_words) for number, line in lines]


def _read_file(path: Path) -> list[tuple[int, str]]:
    """Sentences with the numbers of their lines."""
    try:
        if path.suffix.lower() == ".csv":
            return _read_table(path)
        text = path.read_text(encoding="utf-8-sig").rstrip()
    except FileNotFoundError as error:
        raise UserError(
            f"There is no file of sentences {path}. Name one that ends in {' or '.join(SUFFIXES)}, or give the sentence."
        ) from error
    except OSError as error:
        raise UserError(f"Cannot read the sentences {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The sentences {path} are not UTF-8: {error}. Save the file as UTF-8.") from error
    except csv.Error as error:
        raise UserError(f"The sentences {path} are no table of comma-separated values: {error}.") from error
    return list(enumerate(text.split("\n"), 1)) if text else []


def _read_table(path: Path) -> list[tuple[int, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        columns = rows.fieldnames or ()
        if COLUMN not in columns:
            listed = f" It has {', '.join(columns)}." if columns else ""
            raise UserError(f"{path} has no column {COLUMN!r}.{listed}{did_you_mean(COLUMN, columns)}")
        return [(rows.line_num, row[COLUMN] or "") for row in rows]


def _known(line: str, where: str, vocabulary: CaptionWords, max_words: int) -> Sentence:
    said = split_words(line)
    if not said:
        raise UserError(f"{where} has no words: {line.strip()!r}. Write a sentence, or remove the line.")
    words = tuple(word for word in said if word in vocabulary.ids)
    unknown = tuple(dict.fromkeys(word for word in said if word not in vocabulary.ids))
    if not words:
        near = did_you_mean(unknown[0], vocabulary.words)
        raise UserError(
            f"{where}: the model knows no word of {line.strip()!r}.{near} Use words of its training captions."
        )
    if unknown:
        log.warning("%s: the model does not know %s; left out of %r.", where, ", ".join(unknown), line.strip())
    if len(words) > max_words:
        log.warning("%s: only the first %d words are used: %r.", where, max_words, " ".join(words[:max_words]))
    words = words[:max_words]
    return Sentence(words, tuple(vocabulary.ids[word] for word in words))
