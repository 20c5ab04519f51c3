"""Can the word probes be asked of language models, BERT and LXMERT?"""

import pytest
import torch
import transformers

from lit_attn.adapters.language import LanguageModel, read_language_model
from lit_attn.adapters.load import adapt
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionTape
from lit_attn.probes.board import Board
from lit_attn.probes.dependencies import Dependencies
from lit_attn.probes.object_words import ObjectWords
from lit_attn.probes.part_of_speech import PartOfSpeech
from lit_attn.probes.phrases import PhraseGrounding
from lit_attn.types import TextBatch


class Halves:
    """A tokenizer that cuts words longer than three letters in two."""

    def encode(self, text, add_special_tokens):
        word = text.strip()
        parts = [word] if len(word) <= 3 else [word[:2], word[2:]]
        return [sum(part.encode()) % 97 for part in parts]


def llama():
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=97, n_embd=24, n_layer=2, n_head=6))


TEXTS = [text for i in range(3) for text in ScenesCaptions.texts(make_scene(0, "val", i))]


@pytest.mark.parametrize("made", [llama, gpt2])
def test_language_models_answer_word_probes(made):
    net = made().eval()
    model = LanguageModel(adapt(net), Halves(), 64)
    board = Board(model.net, [PartOfSpeech(align="input"), Dependencies("input"), ObjectWords("input")])
    for batch in model.batches(TEXTS, size=7):
        given = {"input_ids": batch.tokens, "attention_mask": batch.token_mask.long()}
        with torch.no_grad(), AttentionTape(model.net) as tape, board.listening(batch):
            heard = model.net(**given).logits
        with torch.no_grad():
            torch.testing.assert_close(
                net(**given).logits[batch.token_mask], heard[batch.token_mask], rtol=1e-4, atol=1e-5
            )
        for record in tape:
            torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-6)
    values = board.values()
    assert {(v.site, v.head) for v in values} == {(f"decoder.{i}.self", h) for i in range(2) for h in range(6)}
    assert all(0 <= v.value <= 1 for v in values if v.rows)
    assert board.findings(values)[0].n == 12


def test_a_long_text_is_cut_and_a_missing_file_named(tmp_path):
    short = LanguageModel(adapt(gpt2().eval()), Halves(), 5)
    (batch,) = short.batches(TEXTS[:3])
    assert batch.tokens.shape == (3, 5)
    with pytest.raises(UserError, match="There is no file"):
        read_language_model(str(tmp_path / "none.gguf"))


def test_lxmert_and_bert_answer_in_python():
    """Word pieces between [CLS] and [SEP]; LXMERT's words also look at regions that show what they name."""
    words = LanguageModel(adapt(gpt2().eval()), Halves(), 64).batch(TEXTS[:3], ["a", "b", "c"])
    shown = torch.arange(7).expand(3, -1)
    texts = TextBatch(
        words.tokens, words.token_mask, words.word_of, words.annotations, words.sample_id, region_object=shown
    )
    config = transformers.LxmertConfig(
        vocab_size=97, hidden_size=24, intermediate_size=20, num_attention_heads=3, l_layers=1, x_layers=1, r_layers=1,
        visual_feat_dim=11,
    )  # fmt: skip
    net = adapt(transformers.LxmertModel(config).eval())
    board = Board(net, [PartOfSpeech(), PhraseGrounding(shuffles=9)])
    with torch.no_grad(), board.listening(texts):
        net(
            input_ids=texts.tokens,
            attention_mask=texts.token_mask.long(),
            visual_feats=torch.randn(3, 7, 11),
            visual_pos=torch.rand(3, 7, 4),
        )
    names = {(v.site, v.metric) for v in board.values() if v.rows}
    assert ("language.0.self", "pos_noun") in names
    assert ("cross.0.language", "phrase_grounding") in names
    bert = adapt(
        transformers.BertModel(
            transformers.BertConfig(
                vocab_size=97, hidden_size=24, intermediate_size=20, num_attention_heads=3, num_hidden_layers=1
            )
        ).eval()
    )
    board = Board(bert, [PartOfSpeech(), Dependencies()])
    with torch.no_grad(), board.listening(texts):
        bert(input_ids=texts.tokens, attention_mask=texts.token_mask.long())
    assert any(v.metric == "dep_det" and v.rows for v in board.values())
