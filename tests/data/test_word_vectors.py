"""Do words have the vectors of their file, and without one those of their spelling?"""

import gzip
import logging
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from lit_attn.data import word_vectors
from lit_attn.data.word_vectors import DIM, SpellingVectors, open_word_vectors
from lit_attn.errors import UserError

ROWS = {"stop": [0.5, -1.25, 3e-05], "the": [1.0, 2.0, 3.0], "café": [-7.0, 0.0, 1.0], "x.y": [4.0, 5.0, 6.0]}
TEXT = "4 3\n" + "".join(f"{word} {' '.join(map(str, row))} \n" for word, row in ROWS.items())


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")


def write(path: Path, text: str = TEXT) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def similarity(one: str, other: str) -> float:
    a, b = SpellingVectors()([one, other])
    return float(a @ b)


def arrays(folder: Path, words=tuple(ROWS), name: str = "words.txt") -> Path:
    np.save(folder / "x.npy", np.array(list(ROWS.values()), np.float32))
    if name.endswith(".txt"):
        (folder / name).write_text("\n".join(words))
    else:
        pyarrow = pytest.importorskip("pyarrow", reason='pip install "lit_attn[link]"')
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"index": list(words)}), folder / name)
    return folder / "x.npy"


@pytest.mark.parametrize("name", ["x.vec", "x.vec.gz", "x.txt", "x.txt.gz", "words.txt", "words.parquet"])
def test_words_have_the_rows_of_the_file_and_others_zeros(tmp_path, name):
    if name.startswith("words"):
        vectors = open_word_vectors(arrays(tmp_path, name=name))
    else:
        vectors = open_word_vectors(write(tmp_path / name, TEXT if ".vec" in name else TEXT.partition("\n")[2]))
    assert vectors.dim == 3
    found = vectors(["the", "nowhere", "café", "stop", "the", ""])
    np.testing.assert_array_equal(
        found, np.array([ROWS["the"], [0] * 3, ROWS["café"], ROWS["stop"], ROWS["the"], [0] * 3], np.float32)
    )
    assert vectors([]).shape == (0, 3)


def test_a_file_is_converted_once_and_again_when_it_changes(tmp_path, monkeypatch):
    path = write(tmp_path / "x.vec")
    open_word_vectors(path)
    copied: list[Path] = []
    original = word_vectors._copy_rows
    monkeypatch.setattr(
        word_vectors, "_copy_rows", lambda source, target: copied.append(source) or original(source, target)
    )
    assert open_word_vectors(path)(["stop"])[0, 1] == -1.25
    assert not copied
    write(path, TEXT.replace("-1.25", "-9.25"))
    assert open_word_vectors(path)(["stop"])[0, 1] == -9.25
    assert copied == [path]


def test_beside_a_file_in_a_folder_that_cannot_be_written_nothing_is(tmp_path, monkeypatch):
    path = write(tmp_path / "x.vec")
    monkeypatch.setattr(word_vectors.os, "access", lambda folder, mode: False)
    assert open_word_vectors(path)(["the"])[0].tolist() == [1, 2, 3]
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["x.vec"]
    assert len(list((tmp_path / "home" / ".cache" / "lit_attn").iterdir())) == 2


@pytest.mark.parametrize(
    "text", ["", "4\n", "9 3\nstop 1 2 3\n", "1 3\nstop 1 2\n", "1 3\nstop a b c\n", "1 3\nstop 1\n"]
)
def test_damaged_files_are_named_and_leave_nothing_behind(tmp_path, text):
    with pytest.raises(UserError, match="x.vec is no complete text file of word vectors"):
        open_word_vectors(write(tmp_path / "x.vec", text))
    assert [file.name for file in tmp_path.iterdir()] == ["x.vec"]


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="data.word_vectors .*absent.vec' is no file"):
        open_word_vectors(tmp_path / "absent.vec")
    with pytest.raises(UserError, match="x.csv' is neither .vec, .txt, .vec.gz, .txt.gz, .npy nor .bin"):
        open_word_vectors(write(tmp_path / "x.csv"))


def test_a_word_of_glove_may_hold_blanks(tmp_path):
    vectors = open_word_vectors(write(tmp_path / "x.txt", "the 1 2 3\n. . . 4 5 6\n"))
    assert vectors([". . .", "the"]).tolist() == [[4, 5, 6], [1, 2, 3]]


def test_arrays_without_their_words_are_refused(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"x\.npy has the shape \(4, 3\), and 3 words are listed beside it"):
        open_word_vectors(arrays(tmp_path, ("a", "b", "c")))
    (tmp_path / "more.txt").write_text("x")
    with pytest.raises(UserError, match=r"needs one list of its words beside it.* there is more\.txt, words\.txt"):
        open_word_vectors(tmp_path / "x.npy")
    for file in tmp_path.glob("*.txt"):
        file.unlink()
    (tmp_path / "w.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(UserError, match=r"w\.parquet (is no complete list of words|needs the package pyarrow)"):
        open_word_vectors(tmp_path / "x.npy")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match=r'needs the package pyarrow: pip install "lit_attn\[link\]"'):
        open_word_vectors(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(b"no array")
    with pytest.raises(UserError, match=r"x\.npy is no complete array of word vectors"):
        open_word_vectors(tmp_path / "x.npy")


def test_a_model_needs_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(UserError, match="x.bin needs the package fasttext .*name the .vec file"):
        open_word_vectors(write(tmp_path / "x.bin"))


def test_a_model_is_asked_for_every_word(tmp_path, monkeypatch):
    class Model:
        def get_dimension(self) -> int:
            return 2

        def get_word_vector(self, word: str) -> np.ndarray:
            return np.array([len(word), 1.0])

    monkeypatch.setitem(sys.modules, "fasttext", types.SimpleNamespace(load_model=lambda path: Model()))
    vectors = open_word_vectors(write(tmp_path / "x.bin"))
    assert vectors.dim == 2
    assert vectors(["tea", "coffee"]).tolist() == [[3, 1], [6, 1]]
    assert vectors([]).shape == (0, 2)


def test_similar_spelling_gives_similar_vectors():
    assert similarity("restaurant", "restaurants") > 0.7
    assert similarity("coffee", "coffees") > 0.5
    assert abs(similarity("coffee", "toilet")) < 0.2
    assert similarity("tea", "tea") == pytest.approx(1.0, abs=1e-6)


def test_spelling_vectors_are_unit_vectors_and_the_empty_word_is_zero():
    found = SpellingVectors()(["a", "", "日本", "x" * 40])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 1, 1], atol=1e-6)
    assert SpellingVectors()([]).shape == (0, DIM)


def test_spelling_vectors_are_the_same_in_every_process():
    code = "from lit_attn.data.word_vectors import SpellingVectors as S; print(S()(['tea','open']).tobytes().hex())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert there == SpellingVectors()(["tea", "open"]).tobytes().hex()


def test_it_is_said_where_vectors_come_from(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "lit_attn"):
        open_word_vectors(None)
        open_word_vectors(write(tmp_path / "x.vec"))
    assert "come from their spelling; name a file with data.word_vectors" in caplog.text
    assert "x.vec" in caplog.messages[-1]
