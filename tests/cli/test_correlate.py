"""Does `lit-attn correlate` compare our network and one of Hugging Face, and name mistakes?"""

import csv

import pytest

from lit_attn.data.linzen import Linzen
from tests.cli.conftest import run_inside


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which a tiny network was trained."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["--run", "a", "--data.train_sentences", "16", "--trainer.max_epochs", "1"]
    done = run_inside(folder, "fit", "tiny/agreement", *words)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Folders of a tiny classifier and of a tiny network without a head, and a CSV."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "plot"]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=11,
        max_position_embeddings=17, num_labels=2,
    )  # fmt: skip
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    for name, kind in (("classifier", BertForSequenceClassification), ("headless", BertModel)):
        kind(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "sentences.csv").write_text(
        "label,sentence\n1,a fine film\n0,a dull plot film\n1,a fine plot of a film\n"
    )
    (folder / "columns.csv").write_text("labels,sentence\n1,a fine film\n")
    (folder / "class.csv").write_text("label,sentence\n1,a film\n2,a fine film\n")
    (folder / "empty.csv").write_text("label,sentence\n1,a film\n0,\n")
    (folder / "word.csv").write_text("label,sentence\ngood,a film\n")
    return folder


def test_our_network(trained):
    done = run_inside(trained, "correlate", "a", "--samples", "5", "--out", "found")
    assert done.returncode == 0, done.stderr
    assert "a on the grammar, 5 sentences, against gradient" in done.stdout
    assert "published" not in done.stdout, "the data are others"
    with (trained / "found" / "correlations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 * 2 * 2
    assert {row["samples"] for row in rows} == {"5"}
    assert all(-1 <= float(row["mean"]) <= 1 for row in rows)
    assert (trained / "found" / "correlations.png").stat().st_size > 1000
    assert (trained / "found" / "correlations.md").read_text() == done.stdout


def test_a_classifier_of_hugging_face(bert):
    words = ["--data", "sentences.csv", "--against", "gradient", "--out", "found"]
    for rows in ("target", "max"):
        done = run_inside(bert, "correlate", "hf:classifier", *words, "--rows", rows)
        assert done.returncode == 0, done.stderr
        assert "3 sentences, against gradient" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hf:headless", "--data", "sentences.csv"], "no classifier of the BERT family but BertModel"),
        (["hf:classifier"], "Name a CSV with the columns label and sentence"),
        (["hf:classifier", "--data", "columns.csv"], "has no column 'label'. Did you mean 'labels'?"),
        (["hf:classifier", "--data", "class.csv"], "class.csv:3 has class 2, but hf:classifier knows 2 classes"),
        (["hf:classifier", "--data", "empty.csv"], "line 3 has an empty sentence"),
        (["hf:classifier", "--data", "word.csv"], "line 2 has the label 'good'"),
        (["hf:classifier", "--data", "none.csv"], "Cannot read the sentences none.csv"),
        (["hf:.", "--data", "sentences.csv"], "cannot be loaded"),
        (["nobody"], "There is no model 'nobody'"),
        (["nobody", "--samples", "0"], "--samples must be at least 1"),
        (["hf:classifier", "--data", "sentences.csv", "--against", "blankout"], "Did you mean 'blank_out'?"),
    ],
)
def test_mistakes_are_named(bert, words, message):
    done = run_inside(bert, "correlate", *words, "--out", "found")
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())


def test_weights_that_read_linzen_need_its_folder(trained, monkeypatch):
    monkeypatch.setattr("lit_attn.cli.correlated_models.grammar_words", lambda: Linzen)
    monkeypatch.setattr(Linzen, "words", (), raising=False)
    done = run_inside(trained, "correlate", "a", "--out", "found")
    assert done.returncode == 2
    assert "name the folder of numpred.* files with --data" in done.stderr
