"""What does a word read in a picture mean? Vectors of OCR tokens, 300 wide.

- A fastText file `x.vec` or `x.vec.gz` (text: a line "words width", then a word and its numbers per line). It is converted
  once into two arrays beside it, or in `~/.cache/lit_attn` where that folder cannot be written, which are then mapped into
  memory: no process holds more than the pages it uses. A file of 2 million words takes 2.4 GB on disk. A word that is not in
  the file is all zeros.
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


def open_word_vectors(path: Path | None) -> WordVectors:
    """The vectors of a file, or those made of spelling where there is none."""
    vectors: WordVectors
    if path is None:
        vectors, source = SpellingVectors(), "their spelling; name a fastText file with data.word_vectors for meaning"
    elif not path.is_file():
        raise UserError(f"data.word_vectors {str(path)!r} is no file. Name a fastText .vec, .vec.gz or .bin file.")
    elif path.suffix == ".bin":
        vectors, source = ModelVectors(path), str(path)
    elif path.suffix == ".vec" or path.suffixes[-2:] == [".vec", ".gz"]:
        vectors, source = FileVectors(path), str(path)
    else:
        raise UserError(f"data.word_vectors {str(path)!r} is neither .vec, .vec.gz nor .bin.")
    log.info("Vectors of OCR tokens come from %s.", source)
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
        with _opened(path) as file:
            count, dim = map(int, file.readline().split())
            rows = open_memmap(target, "w+", np.float32, (count, dim))
            hashes = np.zeros(count, np.uint64)
            for i in range(count):
                word, _, numbers = file.readline().decode("utf-8", "replace").rstrip().partition(" ")
                rows[i] = np.array(numbers.split(" "), np.float32)
                hashes[i] = _hash(word)
            rows.flush()
    except (OSError, EOFError, ValueError) as error:
        raise UserError(
            f"{path} is no complete fastText text file, a line 'words width' and then a word with its numbers per line: "
            f"{error}."
        ) from error
    return hashes


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
