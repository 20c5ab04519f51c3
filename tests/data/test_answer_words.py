"""Are answer words those of the file, and do ids become the answer that was meant?"""

import pytest

from lit_attn.data.answer_words import END, SPECIALS, AnswerWords
from lit_attn.errors import UserError

WORDS = AnswerWords((*SPECIALS, "the", "red", "'s", "bear"))


def test_a_file_comes_back(tmp_path):
    WORDS.write(tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_text().split("\n")[:5] == ["<pad>", "<s>", "</s>", "<unk>", "the"]
    assert AnswerWords.read(tmp_path / "words.txt") == WORDS


def test_carriage_returns_and_empty_lines_at_the_end_do_not_count(tmp_path):
    (tmp_path / "words.txt").write_bytes("\r\n".join((*WORDS.words, "", "")).encode())
    assert AnswerWords.read(tmp_path / "words.txt") == WORDS


def test_a_file_without_special_words_is_told_what_it_lacks(tmp_path):
    (tmp_path / "words.txt").write_text("yes\nthe\nunanswerable\nin\n")
    with pytest.raises(
        UserError, match=r"words.txt: .*open with <pad>, <s>, </s>, <unk>, these with yes, the.* four lines"
    ):
        AnswerWords.read(tmp_path / "words.txt")


def test_a_word_that_is_listed_twice_is_named():
    with pytest.raises(UserError, match="list 'red' twice"):
        AnswerWords((*SPECIALS, "red", "blue", "red"))


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(UserError, match="Cannot read the answer words .*absent.txt: No such file"):
        AnswerWords.read(tmp_path / "absent.txt")
    (tmp_path / "words.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="words.txt is no text file"):
        AnswerWords.read(tmp_path / "words.txt")


def test_the_most_common_words_of_cleaned_answers_come_first():
    answers = ["Joe's", "joe?", "the bar", "bar", "BAR,", "zoo", "ant", "</s>"]
    assert AnswerWords.most_common(answers, 4).words == (*SPECIALS, "bar", "joe", "'s", "ant")


def test_ids_become_words_and_copied_tokens_up_to_the_end():
    copied = len(WORDS) + 1
    assert WORDS.decode([4, 5, copied, 6, END, 7], ["x", "joe"]) == "the red joe's"
    assert WORDS.decode([END, 4], []) == ""
    assert WORDS.decode([7], []) == "bear"


def test_special_words_are_never_meant():
    assert set(WORDS.ids) == {"the", "red", "'s", "bear"}
    assert WORDS.ids["the"] == 4


def test_the_fingerprint_tells_orders_apart():
    assert AnswerWords((*SPECIALS, "red", "the")).fingerprint != AnswerWords((*SPECIALS, "the", "red")).fingerprint
