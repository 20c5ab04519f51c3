"""Can the word probes be asked of language models, BERT and LXMERT, and do word pieces add up to words?"""

import pytest
import tokenizers
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
from lit_attn.types import Annotation, TextBatch

TEXTS = [text for i in range(3) for text in ScenesCaptions.texts(make_scene(0, "val", i))]
VOCABULARY = 307


def byte_pieces(start: bool = True):
    """A tokenizer of bytes like GPT-2's, learnt from the texts."""
    found = tokenizers.ByteLevelBPETokenizer()
    found.train_from_iterator([text.text for text in TEXTS], vocab_size=VOCABULARY, special_tokens=["<s>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=found._tokenizer, bos_token="<s>" if start else None, clean_up_tokenization_spaces=False
    )


def word_pieces():
    """A tokenizer like BERT's, with [CLS] and [SEP] around a text."""
    found = tokenizers.BertWordPieceTokenizer()
    found.train_from_iterator([text.text for text in TEXTS], vocab_size=90, min_frequency=1)
    found._tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, found.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=found._tokenizer)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def gpt2():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=6, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def bert():
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=20, num_attention_heads=6, num_hidden_layers=2
    )
    return transformers.BertModel(config)


def plain(*words: str) -> Annotation:
    n = len(words)
    return Annotation(words, words, ("NOUN",) * n, (0,) * n, ("dep",) * n)


@pytest.mark.parametrize("made", [llama, gpt2])
def test_language_models_answer_word_probes(made):
    net = made().eval()
    model = LanguageModel(adapt(net), byte_pieces(), 64)
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


@pytest.mark.parametrize("align", ["predict", "input"])
@pytest.mark.parametrize("start", [True, False])
def test_a_slow_reader_of_the_library_s_own_maps_counts_the_same(align, start):
    """Word by word, piece by piece, from what transformers returns; pieces found by cutting every word by itself."""
    torch.manual_seed(0)
    net = gpt2().eval().double()
    tokenizer = byte_pieces(start)
    model = LanguageModel(adapt(net), tokenizer, 64)
    board = Board(model.net, [PartOfSpeech(align=align)])
    for batch in model.batches(TEXTS, size=4):
        with board.listening(batch):
            model.read(batch)
    net.config._attn_implementation = "eager"
    part, whole = 0.0, 0.0
    for text in TEXTS:
        ids, of = ([tokenizer.bos_token_id], [None]) if start else ([], [])
        for i, word in enumerate(text.tokens):
            pieces = tokenizer.encode(word if i == 0 else f" {word}", add_special_tokens=False)
            ids, of = ids + pieces, of + [i] * len(pieces)
        with torch.no_grad():
            weights = net(input_ids=torch.tensor([ids]), output_attentions=True).attentions[1][0, 4]
        for i in range(len(text.tokens)):
            rows = [t for t, word in enumerate(of) if word == i]
            rows = [t - 1 for t in rows if t > 0] if align == "predict" else rows
            for j, tag in enumerate(text.pos):
                columns = [t for t, word in enumerate(of) if word == j and t > 0]
                if rows and columns:
                    weight = float(weights[rows][:, columns].sum()) / len(rows)
                    part += weight * (tag == "NOUN")
                    whole += weight
    (found,) = (v.value for v in board.values() if (v.site, v.head, v.metric) == ("decoder.1.self", 4, "pos_noun"))
    assert found == pytest.approx(part / whole, abs=1e-12)


def test_emoji_and_accents_keep_to_their_words():
    """Pieces of one character, joined characters, combining marks, another script, and a word without any piece."""
    words = ("naïve", "😀", "👩‍👩‍👧", "e\u0301t\u00e9", "日本語", "\u200d", "sofa")
    for tokenizer, causal in ((byte_pieces(), True), (word_pieces(), False)):
        model = LanguageModel(adapt((gpt2 if causal else bert)().eval()), tokenizer, 64, causal)
        (own,) = model.batch([plain(*words)], ["x"]).word_of.tolist()
        held = [word for word in own if word >= 0]
        assert held == sorted(held), "words come in their order"
        assert set(held) >= {0, 1, 2, 3, 4, 6}
        assert own[0] == -1, "START and [CLS] are no words"
        board = Board(model.net, [PartOfSpeech(), Dependencies(), ObjectWords()])
        batch = model.batch([plain(*words)], ["x"])
        with board.listening(batch):
            model.read(batch)
        assert all(0 <= v.value <= 1 + 1e-6 for v in board.values() if v.rows)


def test_long_texts_are_cut_and_that_is_said(caplog, tmp_path):
    short = LanguageModel(adapt(gpt2().eval()), byte_pieces(), 5)
    board = Board(short.net, [PartOfSpeech(), Dependencies()])
    for batch in short.batches(TEXTS[:3]):
        assert batch.tokens.shape == (3, 5)
        with board.listening(batch):
            short.read(batch)
    assert "3 of 3 texts are longer than the model's 5 tokens and cut" in caplog.text
    whole = LanguageModel(adapt(gpt2().eval()), byte_pieces(), 64)
    (batch,) = whole.batches(TEXTS[:2], words=[3, 4])
    assert (batch.word_of.amax(-1) + 1).tolist() == [3, 4]
    with pytest.raises(UserError, match="The text b has no words for this model"):
        whole.batch([plain()], ["b"])
    (one,) = whole.batches([plain("stop")])
    with Board(whole.net, [PartOfSpeech(), ObjectWords()]).listening(one):
        whole.read(one)


def test_annotation_and_pieces_that_disagree_are_named(tmp_path):
    model = LanguageModel(adapt(gpt2().eval()), byte_pieces(), 64)
    good = model.batch(TEXTS[:2], ["first", "second"])
    wrong = TextBatch(good.tokens, good.token_mask, good.word_of, (TEXTS[0], plain("a", "b")), good.sample_id)
    board = Board(model.net, [PartOfSpeech()])
    with pytest.raises(UserError, match=r"annotation of second does not fit its text.*has 2"), board.listening(wrong):
        model.read(wrong)


def test_models_are_read_from_folders_and_what_is_missing_is_named(tmp_path):
    net = gpt2()
    net.save_pretrained(tmp_path / "causal")
    byte_pieces().save_pretrained(tmp_path / "causal")
    model = read_language_model(str(tmp_path / "causal"))
    assert (model.causal, model.longest) == (True, 64)
    assert model.batch(TEXTS[:1], ["a"]).word_of[0, 0] == -1
    assert not model.batch(TEXTS[:1], ["a"]).drop_first
    unopened = read_language_model(str(tmp_path / "causal"), opened=False).batch(TEXTS[:1], ["a"])
    assert unopened.drop_first
    assert unopened.word_of[0, 0] == 0
    bert().save_pretrained(tmp_path / "encoder")
    word_pieces().save_pretrained(tmp_path / "encoder")
    assert not read_language_model(str(tmp_path / "encoder")).causal
    with pytest.raises(UserError, match="There is no file"):
        read_language_model(str(tmp_path / "none.gguf"))
    with pytest.raises(UserError, match="cannot be loaded"):
        read_language_model(str(tmp_path))


def test_a_missing_package_is_named_in_whole_sentences(tmp_path, monkeypatch):
    def without(*names, **options):
        raise ImportError("Please install gguf to load a GGUF checkpoint.")

    (tmp_path / "model.gguf").write_bytes(b"")
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", without)
    with pytest.raises(UserError, match=r'GGUF checkpoint\. pip install "lit_attn\[gguf\]"'):
        read_language_model(str(tmp_path / "model.gguf"))


def test_lxmert_and_bert_answer_in_python():
    """Word pieces between [CLS] and [SEP]; LXMERT's words also look at regions that show what they name."""
    encoder = LanguageModel(adapt(bert().eval()), word_pieces(), 64, causal=False)
    words = encoder.batch(TEXTS[:3], ["a", "b", "c"])
    board = Board(encoder.net, [PartOfSpeech(), Dependencies()])
    with board.listening(words):
        encoder.read(words)
    assert any(v.metric == "dep_det" and v.rows for v in board.values())
    shown = torch.arange(7).expand(3, -1)
    texts = TextBatch(
        words.tokens, words.token_mask, words.word_of, words.annotations, words.sample_id, region_object=shown
    )
    config = transformers.LxmertConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=20, num_attention_heads=3, l_layers=1, x_layers=1,
        r_layers=1, visual_feat_dim=11,
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
