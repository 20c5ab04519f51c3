"""Do words keep their numbers?"""

import json

import pytest

from lit_attn.data.vocab import Vocabulary, tokenize
from lit_attn.errors import UserError


def test_tokens_are_lower_case_words_and_marks():
    assert tokenize("A man's dog isn't here. It ran, fast!") == [
        "a", "man", "'s", "dog", "is", "n't", "here", ".", "it", "ran", ",", "fast", "!",
    ]  # fmt: skip


def test_build_keeps_frequent_words_by_count_then_spelling():
    vocabulary = Vocabulary.build([["b", "a", "a"], ["c", "b", "a"], ["d"]], min_count=2)
    assert vocabulary.words == ("<pad>", "<start>", "<end>", "<unk>", "a", "b")
    assert vocabulary.encode(["b", "zebra"]) == [1, 5, 3, 2]
    assert vocabulary.decode([1, 4, 2]) == ["<start>", "a", "<end>"]


def test_files_in_the_published_layout_come_back(tmp_path):
    vocabulary = Vocabulary.build([["naïve", "a"]], min_count=1)
    vocabulary.write(tmp_path / "vocab.json")
    raw = json.loads((tmp_path / "vocab.json").read_text())
    assert raw["word2idx"]["a"] == 4
    assert raw["idx2word"]["4"] == "a"
    assert raw["idx"] == 6
    assert Vocabulary.read(tmp_path / "vocab.json") == vocabulary


def test_fingerprint_feels_the_order():
    specials = ("<pad>", "<start>", "<end>", "<unk>")
    assert Vocabulary((*specials, "a", "b")).fingerprint != Vocabulary((*specials, "b", "a")).fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "is not a vocabulary JSON"),
        ('{"idx": 3}', "is not a vocabulary JSON"),
        ('{"idx": 1, "idx2word": {"0": "a"}}', "opens with <pad>"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(UserError, match=message):
        Vocabulary.read(tmp_path / "v.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="Cannot read the vocabulary .*v.json: No such file"):
        Vocabulary.read(tmp_path / "v.json")


def test_no_word_twice():
    with pytest.raises(UserError, match="lists 'a' twice"):
        Vocabulary(("<pad>", "<start>", "<end>", "<unk>", "a", "a"))
