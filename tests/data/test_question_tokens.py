"""Is a question read the same way everywhere, and cut where the model stops reading?"""

import pytest
from transformers import BertTokenizer

from lit_attn.data.question_tokens import VocabularyTokens, WordPieces
from lit_attn.data.vocab import SPECIALS, Vocabulary
from lit_attn.errors import UserError

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "what", "is", "the", "sign", "##s", "?"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    return tmp_path


def test_words_stand_between_start_and_end():
    tokens = VocabularyTokens(Vocabulary((*SPECIALS, "what", "?")))
    assert tokens.encode("What now?", 20) == ((1, 4, 3, 5, 2), ("<start>", "what", "now", "?", "<end>"))
    assert tokens.encode("What now?", 4) == ((1, 4, 3, 2), ("<start>", "what", "now", "<end>"))
    assert tokens.encode("  ", 20) == ((1, 2), ("<start>", "<end>"))
    assert len(tokens) == 6


def test_pieces_stand_between_cls_and_sep(folder):
    tokens = WordPieces(str(folder))
    assert tokens.encode("What signs?", 20) == ((2, 5, 8, 9, 10, 3), ("[CLS]", "what", "sign", "##s", "?", "[SEP]"))
    assert tokens.encode("What signs?", 4)[1] == ("[CLS]", "what", "sign", "[SEP]")
    assert tokens.encode("", 20)[1] == ("[CLS]", "[SEP]")
    assert len(tokens) == len(PIECES)


def test_a_saved_tokenizer_serves_too(folder, tmp_path):
    BertTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    one, other = WordPieces(str(folder)), WordPieces(str(tmp_path / "saved"))
    assert one.encode("what is the sign", 20) == other.encode("what is the sign", 20)
    assert one.fingerprint == other.fingerprint


def test_fingerprints_tell_vocabularies_apart(folder):
    before = WordPieces(str(folder)).fingerprint
    (folder / "vocab.txt").write_text("\n".join([*PIECES[:-2], "?", "##s"]))
    assert WordPieces(str(folder)).fingerprint != before
    assert VocabularyTokens(Vocabulary(SPECIALS)).fingerprint == Vocabulary(SPECIALS).fingerprint


def test_a_tokenizer_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for source in (str(tmp_path), str(tmp_path / "absent")):
        with pytest.raises(UserError, match=f"data.tokenizer '{source}' is no BERT tokenizer"):
            WordPieces(source)
