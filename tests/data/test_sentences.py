"""Are the user's own sentences read as they were written, and bad ones named?"""

import logging

import pytest

from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.data.sentences import read_sentences, split_words
from lit_attn.errors import UserError
from lit_attn.vocabulary import CaptionWords

KNOWN = CaptionWords(("a", "red", "bird", "with", "wings", "caf"))


def words(source: str, most: int = 20) -> list[tuple[str, ...]]:
    found = read_sentences(source, KNOWN, most)
    assert all(sentence.ids == tuple(KNOWN.ids[word] for word in sentence.words) for sentence in found)
    return [sentence.words for sentence in found]


def test_words_are_cut_by_the_rule_of_the_captions():
    assert split_words("A red-winged BIRD's nest, 2nd floor.") == (
        "a",
        "red",
        "winged",
        "bird",
        "s",
        "nest",
        "2nd",
        "floor",
    )
    assert split_words("Café ☕ 猫") == ("caf",)
    assert split_words(" .,! ") == ()


def test_a_text_file_has_a_sentence_per_line(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes("\ufeffA red bird.\r\na bird with red wings\n\n".encode())
    assert words(str(path)) == [("a", "red", "bird"), ("a", "bird", "with", "red", "wings")]


def test_a_table_has_a_column_of_captions(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('id,caption\n7,"a red, red bird"\n8,wings\n')
    assert words(str(path)) == [("a", "red", "red", "bird"), ("wings",)]


def test_the_sentence_itself_may_be_given():
    assert words("A red bird.") == [("a", "red", "bird")]
    assert words("a bird\nred wings") == [("a", "bird"), ("red", "wings")]
    assert words("a red bird " * 400, most=3) == [("a", "red", "bird")], "longer than a file name may be"


def test_unknown_words_are_left_out_and_named_once(caplog, tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("a red bird\na shiny bird with shiny, blue wings\n")
    with caplog.at_level(logging.WARNING):
        assert words(str(path))[1] == ("a", "bird", "with", "wings")
    (record,) = caplog.records
    assert "line 2: the model does not know shiny, blue;" in record.message
    assert "a shiny bird with shiny, blue wings" in record.message


def test_a_long_sentence_is_cut_and_told(caplog):
    with caplog.at_level(logging.WARNING):
        assert words("a red bird with wings", most=3) == [("a", "red", "bird")]
    assert "only the first 3 words are used: 'a red bird'" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", "a bird\n\nred wings\n", "x.txt, line 2 has no words: ''"),
        ("x.txt", "a bird\n...\n", r"x.txt, line 2 has no words: '\.\.\.'"),
        ("x.txt", "a bird\nwngs\n", "x.txt, line 2: the model knows no word of 'wngs'. Did you mean 'wings'"),
        ("x.txt", "\n \n", "x.txt has no sentence"),
        ("x.csv", "captions\na bird\n", "no column 'caption'. It has captions. Did you mean 'captions'"),
        ("x.csv", "", "no column 'caption'"),
        ("x.csv", "caption\n", "x.csv has no sentence"),
        ("x.csv", 'caption,id\n"a\nbird",1\n,2\n', "x.csv, line 4 has no words"),
    ],
)
def test_bad_lines_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        words(str(tmp_path / name))


def test_bad_files_are_named(tmp_path):
    with pytest.raises(UserError, match="There is no file of sentences .*gone.txt"):
        words(str(tmp_path / "gone.txt"))
    (tmp_path / "latin.txt").write_bytes(b"a bird caf\xe9\n")
    with pytest.raises(UserError, match="latin.txt are not UTF-8"):
        words(str(tmp_path / "latin.txt"))
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(UserError, match="Cannot read the sentences .*folder.txt: Is a directory"):
        words(str(tmp_path / "folder.txt"))
    with pytest.raises(UserError, match="data.sentences, line 1 has no words: ''"):
        words("")


def test_prediction_takes_the_sentences_and_no_pictures():
    data = ScenesPictures(sentences="a red cup on a table .\nthe blue sofa", eval_batch_size=2, test_scenes=3)
    (batch,) = data.predict_dataloader()
    assert batch.sample_id == batch.picture_name == ("sentence-1", "sentence-2")
    assert batch.words == (("a", "red", "cup", "on", "a", "table"), ("the", "blue", "sofa"))
    assert [data.vocabulary.words[i - 1] for i in batch.tokens[1][batch.token_mask[1]].tolist()] == [*batch.words[1]]
    assert batch.image is batch.word_cells is batch.main_kind is batch.looks is batch.main_thing is None
    assert batch.caption_id.tolist() == batch.class_id.tolist() == [0, 1]
    assert data.show(0, "predict") is None
    assert [len(one) for one in data.test_dataloader()] == [2, 1], "other stages keep their pictures"
