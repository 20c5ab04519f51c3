"""Which networks are refused, and why? How are the others loaded?"""

import json

import pytest
import timm
import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel

from lit_attn.adapters.encoder import EncoderAdapter
from lit_attn.adapters.load import HUGGING_FACE, adapt, load
from lit_attn.adapters.timm_vit import TimmVitAdapter
from lit_attn.attribution.explain import explain
from lit_attn.attribution.lrp import lrp
from lit_attn.attribution.targets import best
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionTape
from tests.adapters.worlds import SMALL, VOCABULARY, WORLDS, ids, text

TINY_SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 6, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}


def test_windows_and_points_are_refused_with_the_reason():
    swin = transformers.SwinModel(transformers.SwinConfig(**TINY_SWIN))
    with pytest.raises(UserError, match="SwinModel attends within windows"):
        adapt(swin)
    with pytest.raises(UserError, match="attends within windows"):
        adapt(
            timm.create_model("swin_tiny_patch4_window7_224", depths=(1, 1, 1, 1), embed_dim=12, num_heads=(1, 1, 1, 1))
        )
    for kind in ("deformable_detr", "rt_detr", "grounding-dino"):
        model = nn.Identity()
        model.config = AutoConfig.for_model(kind)
        with pytest.raises(UserError, match="attends to a few sampled points"):
            adapt(model)


def test_unknown_families_name_the_known_ones():
    config = AutoConfig.for_model("convbert")
    for name, value in SMALL.items():
        setattr(config, name, value)
    with pytest.raises(UserError, match="type 'convbert' are not adapted.*Adapted: bert, roberta"):
        adapt(AutoModel.from_config(config))
    with pytest.raises(UserError, match="Linear is no network whose attention can be heard"):
        adapt(nn.Linear(2, 2))
    parallel = timm.create_model(
        "vit_tiny_patch16_224", depth=1, block_fn=timm.models.vision_transformer.ParallelScalingBlock
    )
    with pytest.raises(UserError, match="Block 0 of VisionTransformer is ParallelScalingBlock"):
        adapt(parallel)
    with pytest.raises(UserError, match="has known streams"):
        adapt(text("bert").net, streams={"*": ("a", "b")})


def test_what_a_plan_cannot_hold_is_refused():
    for name, kind, options in (
        ("bert", transformers.BertLMHeadModel, {"is_decoder": True, "add_cross_attention": True}),
        ("gpt2", transformers.GPT2LMHeadModel, {"add_cross_attention": True}),
    ):
        config = AutoConfig.for_model(name, **options)
        for key, value in SMALL.items():
            setattr(config, key, value)
        with pytest.raises(UserError, match="attends to another network"):
            adapt(kind(config))
    config = transformers.VisualBertConfig(**SMALL, bypass_transformer=True)
    with pytest.raises(UserError, match="bypass_transformer adds pictures after its layers"):
        adapt(transformers.VisualBertModel(config))
    twins = text("bert").net
    twins.second = text("bert").net
    with pytest.raises(UserError, match="holds more than one network"):
        adapt(twins)


@pytest.mark.parametrize(
    ("name", "match"),
    [("detr", "from every query"), ("gpt2", "from every word"), ("visual_bert", "last but one token")],
)
def test_networks_that_answer_from_many_rows_ask_for_one(name, match):
    net = adapt(WORLDS[name]().net)
    with pytest.raises(UserError, match=match):
        net.plan()
    assert net.plan(1).target.row == 1


def test_a_vit_that_pools_has_no_row_of_its_own():
    options = {"img_size": 12, "patch_size": 4, "embed_dim": 12, "depth": 1, "num_heads": 3, "num_classes": 5}
    net = adapt(timm.create_model("vit_tiny_patch16_224", global_pool="avg", class_token=False, **options))
    with pytest.raises(UserError, match="pools its patches \\('avg'\\)"):
        net.plan()
    found = explain(net, net.plan(4), lambda net: net(torch.randn(2, 3, 12, 12)), best, ["gae"])["gae"]
    assert found.streams["patches"].shape == (2, 9)


def test_a_causal_or_masked_vit_is_heard_as_such():
    world = WORLDS["timm"]()
    net = adapt(world.net)
    with torch.no_grad(), AttentionTape(net) as tape:
        found = net(**world.inputs, is_causal=True)
        expected = world.net(**world.inputs, is_causal=True)
    assert torch.equal(tape.records[0].key_mask, torch.ones(11, 11).tril().bool().expand(3, 11, 11))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_attention_that_is_not_one_product_is_refused():
    world = WORLDS["bert"]()
    attention = world.net.encoder.layer[1].attention.self
    plain = type(attention).forward

    def twice(*given, **named):
        plain(attention, *given, **named)
        return plain(attention, *given, **named)

    attention.forward = twice
    net = adapt(world.net)
    reason = "'encoder.1.self' cannot be heard: BertSelfAttention multiplies .* 2 times"
    with pytest.raises(UserError, match=reason), AttentionTape(net):
        net(**world.inputs)
    assert "forward" in attention.__dict__, "what somebody else put there stays"


# From folders and hubs


@pytest.fixture
def folder(tmp_path):
    config = transformers.BertConfig(**SMALL, num_labels=3)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_is_loaded_with_its_tokenizer(folder):
    loaded = load(f"hf:{folder}")
    assert isinstance(loaded.net, EncoderAdapter)
    assert isinstance(loaded.net.model, transformers.BertForSequenceClassification)
    assert not loaded.net.training
    assert loaded.processor is None
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "sofa"]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    loaded = load(f"hf:{folder}")
    inputs = loaded.processor(["a red sofa"], return_tensors="pt")
    assert inputs["input_ids"].tolist() == [[2, 5, 6, 7, 3]]
    assert loaded.net(**inputs).logits.shape == (1, 3)


def test_incomplete_weights_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["BertForTokenClassification"]
    (folder / "config.json").write_text(json.dumps(config))
    load(f"hf:{folder}")  # the same names, a head of the same shape
    config["architectures"] = ["BertForMaskedLM"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="lack cls.predictions.*would be random"):
        load(f"hf:{folder}")


def test_families_are_refused_before_their_weights_are_read(tmp_path):
    transformers.SwinConfig(**TINY_SWIN).save_pretrained(tmp_path / "swin")
    with pytest.raises(UserError, match="swin attends within windows"):
        load(f"hf:{tmp_path / 'swin'}")
    AutoConfig.for_model("convbert").save_pretrained(tmp_path / "convbert")
    with pytest.raises(UserError, match="'convbert' are not adapted"):
        load(f"hf:{tmp_path / 'convbert'}")
    transformers.BertConfig(**SMALL).save_pretrained(tmp_path / "bert")
    with pytest.raises(UserError, match="cannot be loaded: .*name a local folder that holds config.json"):
        load(f"hf:{tmp_path / 'bert'}")


def test_a_hub_that_cannot_be_reached_points_to_folders(monkeypatch):
    def offline(*given, **named):
        assert named.get("trust_remote_code") is False
        raise OSError("We couldn't connect to the hub.\nCheck your network.")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", offline)
    with pytest.raises(
        UserError, match="'some/bert' cannot be loaded: We couldn't connect to the hub. .* hf:path/to/folder"
    ):
        load("hf:some/bert")

    def unreachable(*given, **named):
        raise RuntimeError("No route to the hub.")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(UserError, match="'vit_tiny_patch16_224' cannot be loaded: No route .* timm:path/to/folder"):
        load("timm:vit_tiny_patch16_224")


def test_weights_of_a_hub_are_read_from_safetensors_alone(monkeypatch):
    asked = {}

    def read(*given, **named):
        asked.update(named)
        raise OSError("no model.safetensors")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: transformers.BertConfig(**SMALL))
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", read)
    with pytest.raises(UserError, match="no model.safetensors"):
        load("hf:some/bert")
    assert asked["use_safetensors"] is True
    assert asked["attn_implementation"] == "eager"
    assert "trust_remote_code" not in asked


def test_a_folder_of_timm_is_loaded_with_its_transform(tmp_path):
    options = {"img_size": 32, "patch_size": 8, "embed_dim": 12, "depth": 2, "num_heads": 3}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **options)
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 5, "model_args": options}
    config["pretrained_cfg"] = {"input_size": [3, 32, 32], "num_classes": 5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="holds no model.safetensors"):
        load(f"timm:{tmp_path}")
    from safetensors.torch import save_model

    save_model(model, str(tmp_path / "model.safetensors"))
    loaded = load(f"timm:{tmp_path}")
    assert isinstance(loaded.net, TimmVitAdapter)
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.net.model.state_dict()[name], value)
    from PIL import Image

    assert loaded.processor(Image.new("RGB", (50, 40))).shape == (3, 32, 32)


@pytest.mark.parametrize("name", ["bert", "hf:", "keras:bert", ""])
def test_names_without_a_library_are_explained(name):
    with pytest.raises(UserError, match="Expected hf:FOLDER, hf:HUB_ID, timm:FOLDER or timm:NAME"):
        load(name)


def test_unknown_and_refused_networks_of_timm():
    with pytest.raises(
        UserError, match="timm has no network 'vit_tiny_patch16_225'. Did you mean 'vit_tiny_patch16_224'"
    ):
        load("timm:vit_tiny_patch16_225")
    with pytest.raises(UserError, match="swin_tiny_patch4_window7_224 attends within windows"):
        load("timm:swin_tiny_patch4_window7_224")


def test_every_family_of_the_library_exists():
    for kind in HUGGING_FACE:
        assert AutoConfig.for_model(kind).model_type == kind


# Linear layers of GPT-2


def test_the_transposed_linear_layers_of_gpt2_pass_relevance_as_linear_layers():
    from transformers.pytorch_utils import Conv1D

    conv, linear = Conv1D(3, 5).double(), nn.Linear(5, 3).double()
    nn.init.normal_(conv.weight)
    linear.load_state_dict({"weight": conv.weight.T, "bias": conv.bias})
    x, given = torch.randn(2, 7, 5).double(), torch.rand(2, 7, 3).double()
    found = []
    for module in (conv, linear):
        start = x.clone().requires_grad_()
        with lrp(module):
            output = module(start)
        found.append(torch.autograd.grad(output, start, given)[0])
    torch.testing.assert_close(found[0], found[1])
    assert found[0].abs().sum() > 0


def test_a_sum_of_products_that_is_no_layer_has_no_rule():
    a = torch.rand(3, 3, requires_grad=True)
    with pytest.raises(UserError, match="no rule for addmm"), lrp(nn.Identity()):
        torch.addmm(a, a, a * 2)


def test_words_of_gpt2_by_their_features():
    """The features of words are those that the network looks up."""
    net = adapt(WORLDS["gpt2"]().net)
    given = ids(4)
    with net.embedded() as found:
        net(**given)
    assert torch.equal(found["text"], net.model.transformer.wte.weight[given["input_ids"]])
    assert int(given["input_ids"].max()) < VOCABULARY
