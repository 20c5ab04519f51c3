"""Are questions of imdb files read as they are distributed, and does no file get to run anything?"""

import os
import pickle

import numpy as np
import pytest

from lit_attn.data.imdb import read_imdb, read_object_array
from lit_attn.errors import UserError
from tests.reference.reading_files import mmf_entry, study_entry, write_imdb


class Calls:
    """Pickles as a call of `os.system`."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("header", [True, False])
def test_mmf_questions(tmp_path, header):
    first = mmf_entry(5, "0054c91397f2fe05", "what brand?", ["nokia"] * 10, ["NOKIA", "5:30"], objects=3)
    second = mmf_entry(6, "77", "who?", [], [], objects=0)
    write_imdb(tmp_path / "imdb_train_ocr_en.npy", [first, second], header)
    questions = read_imdb(tmp_path / "imdb_train_ocr_en.npy")
    assert [question.question_id for question in questions] == [5, 6]
    assert questions[0].text == "what brand?"
    assert questions[0].answers == ("nokia",) * 10
    assert questions[0].ocr_tokens == ("NOKIA", "5:30")
    np.testing.assert_array_equal(questions[0].ocr_boxes, first["ocr_normalized_boxes"])
    np.testing.assert_array_equal(questions[0].object_boxes, first["obj_normalized_boxes"])
    assert questions[0].keys[:2] == ("0054c91397f2fe05", "train/0054c91397f2fe05")
    assert questions[1].answers == questions[1].ocr_tokens == ()
    assert questions[1].ocr_boxes.shape == questions[1].object_boxes.shape == (0, 4)


def test_questions_of_the_comparison_use_googles_tokens_and_no_boxes_of_others(tmp_path):
    write_imdb(tmp_path / "x.npy", [study_entry(3, "ab", "what?", ["tea"] * 10, ["TEA", "cup"])])
    (question,) = read_imdb(tmp_path / "x.npy")
    assert question.ocr_tokens == ("TEA", "cup")
    assert question.ocr_boxes is None
    assert question.object_boxes is None


def test_test_questions_have_no_answers_and_odd_ids_become_places(tmp_path):
    entry = {"question": "what?", "image_id": 12, "question_id": "q-7", "answers": None}
    write_imdb(tmp_path / "x.npy", [entry])
    (question,) = read_imdb(tmp_path / "x.npy")
    assert (question.question_id, question.picture, question.answers) == (1, "12", ())
    assert question.ocr_tokens is None


@pytest.mark.parametrize("where", ["entry", "inside an entry"])
def test_no_code_of_a_file_runs(tmp_path, where):
    marker = tmp_path / "ran"
    evil = Calls(f"touch {marker}")
    write_imdb(tmp_path / "x.npy", [evil if where == "entry" else {"question": "a", "image_id": evil}])
    with pytest.raises(UserError, match="x.npy is refused: it wants to use posix.system"):
        read_imdb(tmp_path / "x.npy")
    assert not marker.exists()
    np.load(tmp_path / "x.npy", allow_pickle=True)
    assert marker.exists(), "the file is harmless, so this test proves nothing"


def test_a_pickle_behind_the_header_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "x.npy"
    write_imdb(path, [{"question": "a"}])
    header = path.read_bytes()[:128]
    for other in ([1, 2], np.zeros(2)):
        path.write_bytes(header + pickle.dumps(other, 4))
        with pytest.raises(UserError, match="x.npy is damaged: its header announces 2 entries") as caught:
            read_object_array(path)
        assert caught.type is UserError


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"question": "a"}], "entry 1 is no question of TextVQA: KeyError\\('image_id'\\)"),
        ([{"question": "a", "image_id": 3, "ocr_tokens": 5}], "entry 1 is no question"),
        ([{"question": "a", "image_id": 3, "ocr_normalized_boxes": [1, 2, 3]}], "entry 1 is no question"),
        (["what?"], "entry 1 is of type str; a question is a dict"),
    ],
)
def test_entries_that_are_no_questions_are_named(tmp_path, entries, message):
    write_imdb(tmp_path / "x.npy", entries)
    with pytest.raises(UserError, match=f"x.npy: {message}"):
        read_imdb(tmp_path / "x.npy")


def test_other_files_are_named(tmp_path):
    with pytest.raises(UserError, match="Cannot read .*absent.npy: No such file"):
        read_imdb(tmp_path / "absent.npy")
    np.save(tmp_path / "numbers.npy", np.zeros((2, 3)))
    with pytest.raises(UserError, match="numbers.npy holds an array \\(2, 3\\) of float64; an imdb file holds"):
        read_imdb(tmp_path / "numbers.npy")
    (tmp_path / "text.npy").write_text("hello, this is no array")
    with pytest.raises(UserError, match="text.npy is no .npy file"):
        read_imdb(tmp_path / "text.npy")
    write_imdb(tmp_path / "cut.npy", [{"question": "a", "image_id": 3}])
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-9])
    with pytest.raises(UserError, match="cut.npy is no complete pickle"):
        read_imdb(tmp_path / "cut.npy")
