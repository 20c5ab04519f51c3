"""Are Linzen's files read as they are distributed, split by text, and is damage named?"""

import os
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from lit_attn.data.linzen import Linzen, read_folder
from lit_attn.errors import UserError

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", "../shared")) / "data" / "linzen"


@pytest.fixture
def folder(tmp_path):
    natural = [f"{'VBZ' if i % 3 else 'VBP'}\tthe thing number w{i % 7} x{i}" for i in range(97)]
    (tmp_path / "numpred.val").write_text("\n".join(natural) + "\n")
    for k in (1, 2):
        crossed = [f"VBP\tthe keys of w{i % 5} y{k}-{i}" for i in range(41)]
        (tmp_path / f"numpred.test.{k}").write_text("\n".join(crossed) + "\n")
    return tmp_path


def test_every_sentence_is_in_one_split_and_texts_do_not_cross(folder):
    (folder / "numpred.test").write_text((folder / "numpred.test.1").read_text())  # as the full distribution has them
    data = Linzen(str(folder))
    assert sum(map(len, data.lines.values())) == 97 + 3 * 41
    texts = [{line.words for line in lines} for lines in data.lines.values()]
    assert all(one.isdisjoint(other) for one, other in combinations(texts, 2))
    again, other = Linzen(str(folder)), Linzen(str(folder), seed=1)
    assert again.lines == data.lines
    assert other.lines != data.lines


def test_labels_kinds_and_marks(folder):
    data = Linzen(str(folder), min_count=3)
    sample = data.dataset("train")[0]
    line = data.lines["train"][0]
    assert sample.words == ("<start>", *line.words, "<end>")
    assert sample.ids[0] == 2
    assert sample.ids[-1] == 3
    assert sample.ids[-2] == 1, "a word seen once is unknown"
    assert sample.sample_id == line.source
    assert (
        data.answers[sample.answer]
        == (folder / "numpred.val").read_text().split("\n")[int(line.source.rpartition(":")[2]) - 1].partition("\t")[0]
    )
    assert Counter(line.kind for lines in data.lines.values() for line in lines) == {
        "natural": 97,
        "attractors_1": 41,
        "attractors_2": 41,
    }


def test_training_takes_some_of_the_sentences_with_attractors(folder):
    kinds = Counter(sample.kind for sample in Linzen(str(folder), train_attractors=13).dataset("train").sentences)
    assert kinds["attractors_1"] + kinds["attractors_2"] == 13
    assert kinds["natural"] > 50
    assert all(len(line.words) == 5 for line in Linzen(str(folder), train_max_words=5).lines["train"])
    with pytest.raises(UserError, match="leave no sentences for train"):
        Linzen(str(folder), train_max_words=4).dataset("train")


def test_the_majority_is_counted_on_the_very_sentences(folder):
    data = Linzen(str(folder), train_share=0.1, val_share=0.1)
    answers = Counter(line.answer for line in data.lines["test"] if line.kind == "natural")
    scores = data.reference_scores("test")
    assert scores["majority_accuracy_natural"] == max(answers.values()) / sum(answers.values())
    assert scores["majority_accuracy_attractors_1"] == 1.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("VBZ the tab is missing", r"numpred.val, line 98 is no label, tab and words: 'VBZ the tab"),
        ("VBD\tthe label is wrong", r"numpred.val, line 98 has the label 'VBD'; expected VBZ or VBP"),
        ("VBZ\t", r"numpred.val, line 98 has no words before its verb"),
        ("VBZ\ttwo\ttabs", r"numpred.val, line 98 is no label, tab and words"),
        ("", r"numpred.val, line 98 is no label, tab and words: ''"),
    ],
)
def test_a_damaged_line_is_named(folder, line, message):
    file = folder / "numpred.val"
    file.write_text(file.read_text() + line + "\nVBZ\tthe last\n")
    with pytest.raises(UserError, match=message):
        Linzen(str(folder)).dataset("train")


def test_other_mistakes(folder, tmp_path_factory, caplog):
    with pytest.raises(UserError, match="holds none of Linzen's files"):
        Linzen(str(tmp_path_factory.mktemp("none"))).dataset("train")
    with pytest.raises(UserError, match="leave something for testing"):
        Linzen(str(folder), train_share=0.9, val_share=0.1)
    (folder / "numpred.test.3").write_bytes(b"VBZ\t\xff\xfe\n")
    with pytest.raises(UserError, match="numpred.test.3 is not UTF-8"):
        Linzen(str(folder)).dataset("train")
    (folder / "numpred.test.3").unlink()
    with pytest.raises(UserError, match="Line 2 of data.sentences is empty"):
        Linzen(str(folder), sentences="the keys\n\nthe thing").dataset("predict")
    own = Linzen(str(folder), sentences="The zebras of number").dataset("predict")
    assert own[0].words == ("<start>", "the", "zebras", "of", "number", "<end>")
    assert own[0].ids[2] == 1
    assert "zebras" in caplog.text


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs Linzen's files in {SHARED}")
def test_the_real_files():
    lines = read_folder(SHARED)
    assert len(lines) == 80522
    assert Counter((line.kind, line.answer) for line in lines)["natural", 0] == 10763
    assert max(len(line.words) for line in lines) == 48


def test_natural_sentences_may_come_several_times_without_making_words_frequent(folder):
    once, thrice = (Linzen(str(folder), train_attractors=13, natural_repeats=n, min_count=3) for n in (1, 3))
    counts = [Counter(sample.sample_id for sample in data.dataset("train").sentences) for data in (once, thrice)]
    for name, count in counts[0].items():
        assert count == 1
        assert counts[1][name] == (3 if name.startswith("numpred.val") else 1)
    assert counts[0].keys() == counts[1].keys()
    assert once.vocabulary.words == thrice.vocabulary.words
