"""Are the sentences of SST-2 read as they are distributed, in word pieces or in words?"""

import pytest

from lit_attn.data.sst2 import FILES, Sst2, read_sst2
from lit_attn.errors import UserError

ROWS = {
    "train": "1,A fine film!\n0,A dull plot\n1,a fine plot of a fine film\n",
    "val": "0,a film\n1,fine\n0,dull film\n",
    "test": "1,A FINE strange film\n",
}


@pytest.fixture
def folder(tmp_path):
    for split, rows in ROWS.items():
        (tmp_path / FILES[split]).write_text("label,sentence\n" + rows)
    return tmp_path


@pytest.fixture
def tokenizer(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    return str(tmp_path)


def test_words_of_training_are_the_vocabulary(folder):
    data = Sst2(str(folder), min_count=2)
    assert data.vocabulary.words == ("<pad>", "<start>", "<end>", "<unk>", "a", "fine", "film", "plot")
    (sentence,) = data.dataset("test").sentences
    assert sentence.words == ("<start>", "a", "fine", "strange", "film", "<end>")
    assert sentence.ids == (1, 4, 5, data.unknown, 6, 2)
    assert (sentence.answer, sentence.sample_id) == (1, "test_binary_sent.csv:2")
    assert data.reference_scores("val") == {"majority_accuracy": 2 / 3}
    assert data.answers == ("negative", "positive")


def test_word_pieces_and_the_users_own_sentences(folder, tokenizer):
    data = Sst2(str(folder), tokenizer=tokenizer, max_tokens=4, sentences="fine films\na")
    first, second = data.dataset("predict").sentences
    assert first.words == ("[CLS]", "fine", "film", "[SEP]")
    assert first.ids == (2, 6, 7, 3)
    assert (second.ids, second.answer) == ((2, 5, 3), -1)
    assert data.unknown == 1
    batch = data.collate(data.dataset("train").sentences)
    assert batch.tokens.shape == (3, 4)
    assert data.lengths(data.dataset("val")) == [4, 3, 4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [("2,a film\n", "expected 0 .negative. or 1 .positive."), ("", "has no sentences below its header")],
)
def test_damaged_files_are_named(folder, rows, message):
    (folder / FILES["val"]).write_text("label,sentence\n" + rows)
    with pytest.raises(UserError, match=message):
        Sst2(str(folder)).dataset("val")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 2}, "data.max_tokens must be at least 3"),
        ({"min_count": 0}, "data.min_count must be at least 1"),
        ({"sentences": "fine\n \nfilm"}, "sentence-2 has no words"),
    ],
)
def test_mistakes_are_named(folder, settings, message):
    with pytest.raises(UserError, match=message):
        Sst2(str(folder), **settings).dataset("predict")


def test_the_real_files(shared_data):
    found = {split: read_sst2(shared_data("sst2") / file) for split, file in FILES.items()}
    assert {split: len(rows) for split, rows in found.items()} == {"train": 6920, "val": 872, "test": 1821}
    assert {one.label for rows in found.values() for one in rows} == {0, 1}
