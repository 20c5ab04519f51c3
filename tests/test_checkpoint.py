"""Do weights travel with the words and answers that belong to them?"""

from pathlib import Path

import pytest
import torch

from lit_attn.checkpoint import Weights, read_answers, read_question_words, read_weights, write_weights
from lit_attn.data.answer_words import AnswerWords
from lit_attn.data.clevr import ClevrVocabulary
from lit_attn.data.question_tokens import VocabularyTokens
from lit_attn.errors import UserError

WORDS = ("<pad>", "<unk>", "<start>", "<end>", "cube", "é")
TEXT = ("<pad>", "<start>", "<end>", "<unk>", "sign")
SAID = ("<pad>", "<s>", "</s>", "<unk>", "stop")


def written(path: Path, words: tuple[str, ...] | None, answers: tuple[str, ...] | None) -> Path:
    """As safetensors, or as a checkpoint."""
    tensors = {"net.x": torch.arange(3.0)}
    if path.suffix == ".safetensors":
        write_weights(Weights(path, tensors, {"dim": 5}, "print", words, "some.Task", answers), path)
    else:
        kept = {"words": words, "answers": answers}
        torch.save({"state_dict": tensors} | {k: list(v) for k, v in kept.items() if v is not None}, path)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
def test_words_and_answers_come_back(tmp_path, suffix):
    path = written(tmp_path / f"x{suffix}", WORDS, ("yes", "nó"))
    found = read_weights(path)
    assert (found.words, found.answers) == (WORDS, ("yes", "nó"))
    assert torch.equal(found.tensors["net.x"], torch.arange(3.0))
    vocabulary = ClevrVocabulary.read(path)
    assert (vocabulary.words.words, vocabulary.answers) == (WORDS, ("yes", "nó"))
    reader = written(tmp_path / f"y{suffix}", TEXT, SAID)
    assert AnswerWords.read(reader).words == SAID
    assert VocabularyTokens.read(reader).words == TEXT


def test_what_weights_do_not_hold_is_told(tmp_path):
    path = written(tmp_path / "x.safetensors", None, None)
    assert read_weights(path).answers is None
    with pytest.raises(UserError, match="x.safetensors hold no answers"):
        read_answers(path)
    with pytest.raises(UserError, match="x.safetensors hold no words of questions: they answer no questions"):
        read_question_words(path)
    path = written(tmp_path / "y.safetensors", (), SAID)
    with pytest.raises(UserError, match="trained with a tokenizer, name it"):
        read_question_words(path)
