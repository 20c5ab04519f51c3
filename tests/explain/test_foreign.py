"""Can foreign models be explained from their own inputs? Tiny random models, as folders and as objects."""

import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from lit_attn.adapters.load import Loaded, adapt
from lit_attn.attribution.explain import explain_subject
from lit_attn.attribution.subject import scores_without
from lit_attn.cli.main import main
from lit_attn.data.regions import Regions, write_npz
from lit_attn.errors import UserError
from lit_attn.explain.foreign import Given, cases_of

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "sees", "a", "cat", "well"]
SIZES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17, "vocab_size": 11}


@pytest.fixture(scope="module")
def tokenizer():
    raw = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    raw.pre_tokenizer = Whitespace()
    raw.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    marks = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **marks)


@pytest.fixture
def picture(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (40, 56, 3), np.uint8)
    Image.fromarray(noise).save(folder / "one.png")
    return folder


def wide(net: torch.nn.Module) -> torch.nn.Module:
    for parameter in net.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return net.eval()


def test_a_folder_of_bert_is_explained_by_the_command(tokenizer, tmp_path, capsys):
    config = transformers.BertConfig(**SIZES, num_labels=3, id2label={0: "bad", 1: "so", 2: "good"})
    wide(transformers.BertForSequenceClassification(config)).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    words = [f"hf:{tmp_path / 'bert'}", "--text", "the dog sees a cat", "--target", "good", "--versus", "bad"]
    assert main(["explain", *words, "--methods", "rollout,gae,odam", "--out", str(tmp_path / "out")]) == 0
    listed = json.loads((tmp_path / "out" / "maps.json").read_text())["maps"]
    assert {entry["explained"] for entry in listed} == {"good − bad"}
    assert listed[0]["items"] == {"words": ["[CLS]", "the", "dog", "sees", "a", "cat", "[SEP]"]}
    assert len(list((tmp_path / "out" / "pictures").glob("*.png"))) == 1
    assert "| odam |" in capsys.readouterr().out
    assert main(["explain", words[0], "--images", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "takes --text, not --images" in capsys.readouterr().err
    assert main(["explain", words[0], "--out", str(tmp_path / "out")]) == 2
    assert "reads text. Give it a sentence" in capsys.readouterr().err


def test_masked_tokens_say_nothing_and_marks_stay(tokenizer):
    net = adapt(wide(transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, num_labels=3))))
    (case,) = cases_of(Loaded(net, tokenizer), Given(texts=("the dog sees a cat",)))
    assert case.subject.items["text"].tolist() == [[False, True, True, True, True, True, False]]
    kept = case.subject.items["text"].clone()
    kept[0, 2] = False
    found = scores_without(case.subject, {"text": kept})
    mask = torch.ones(1, 7, dtype=torch.long)
    mask[0, 2] = 0
    ids = tokenizer("the dog sees a cat", return_tensors="pt")["input_ids"]
    torch.testing.assert_close(found, net.model(input_ids=ids, attention_mask=mask).logits)


def test_gpt2_answers_from_its_last_word_and_a_masked_model_at_its_mask(tokenizer):
    config = transformers.GPT2Config(vocab_size=11, n_embd=12, n_head=3, n_layer=2, n_positions=20)
    net = adapt(wide(transformers.GPT2LMHeadModel(config)))
    (case,) = cases_of(Loaded(net, tokenizer), Given(texts=("the dog sees",)))
    ids = tokenizer("the dog sees", return_tensors="pt")["input_ids"]
    torch.testing.assert_close(scores_without(case.subject, {}), net.model(input_ids=ids).logits[:, -1])
    assert case.asked(0) in WORDS
    assert explain_subject(case.subject, ["rollout_corrected", "gradient"])["gradient"].streams["text"].shape == (1, 5)
    masked = adapt(wide(transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))))
    (case,) = cases_of(Loaded(masked, tokenizer), Given(texts=("the [MASK] sees",)))
    assert case.subject.plan.target.row == 2
    with pytest.raises(UserError, match=r"answers at \[MASK\]"):
        list(cases_of(Loaded(masked, tokenizer), Given(texts=("the dog",))))
    with pytest.raises(UserError, match="--row 9: 'the dog' has 4 tokens"):
        list(cases_of(Loaded(net, tokenizer), Given(texts=("the dog",), row=9)))
    bare = adapt(wide(transformers.BertModel(transformers.BertConfig(**SIZES))))
    with pytest.raises(UserError, match="BertModel has no head"):
        list(cases_of(Loaded(bare, tokenizer), Given(texts=("the dog",))))


def test_patches_of_a_vit(picture):
    sizes = {key: value for key, value in SIZES.items() if key != "vocab_size"}
    net = adapt(
        wide(transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, image_size=12, patch_size=4)))
    )
    processor = transformers.ViTImageProcessor(size={"height": 12, "width": 12})
    (case,) = cases_of(Loaded(net, processor), Given(images=str(picture)))
    assert case.subject.items["patches"].shape == (1, 9)
    kept = torch.ones(1, 9, dtype=torch.bool)
    kept[0, 5] = False  # second row, third column
    pixels = processor(Image.open(picture / "one.png"), return_tensors="pt")["pixel_values"]
    pixels[:, :, 4:8, 8:12] = 0
    torch.testing.assert_close(scores_without(case.subject, {"patches": kept}), net.model(pixels).logits)
    found = explain_subject(case.subject, ["gae", "odam", "blank_out"])
    assert all(scores.streams["patches"].shape == (1, 9) for scores in found.values())


def test_queries_of_detr(picture):
    backbone = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 5, 6, 7], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        backbone_config=backbone, num_queries=5, d_model=12, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=17, decoder_ffn_dim=17, num_labels=4,
    )  # fmt: skip
    net = adapt(wide(transformers.DetrForObjectDetection(config)))
    processor = transformers.DetrImageProcessor(size={"height": 64, "width": 96})
    (case,) = cases_of(Loaded(net, processor), Given(images=str(picture), query=3))
    assert case.subject.plan.target.row == 3
    rows, columns = case.shown[0].views["image"].rows, case.shown[0].views["image"].columns
    found = explain_subject(case.subject, ["raw", "gae", "heterogenous_noise", "odam"])
    assert all(scores.streams["image"].shape == (1, rows * columns) for scores in found.values())
    assert all(float(scores.streams["image"].abs().sum()) > 0 for scores in found.values())
    with pytest.raises(UserError, match="--query 5: this model has queries 0 to 4"):
        list(cases_of(Loaded(net, processor), Given(images=str(picture), query=5)))
    assert 1 <= len(list(cases_of(Loaded(net, processor), Given(images=str(picture))))) <= 5


def test_lxmert_loses_boxes_down_to_none(tokenizer, tmp_path):
    config = transformers.LxmertConfig(
        vocab_size=11, hidden_size=12, num_attention_heads=3, intermediate_size=17, num_qa_labels=5, visual_feat_dim=11,
        l_layers=1, r_layers=1, x_layers=2,
    )  # fmt: skip
    net = adapt(wide(transformers.LxmertForQuestionAnswering(config)))
    corners = np.random.default_rng(0).uniform(0, 20, (4, 2, 2)).astype(np.float32)
    boxes = np.concatenate([corners.min(1), corners.max(1) + 1], 1)
    features = np.random.default_rng(1).normal(size=(4, 11)).astype(np.float32)
    write_npz(Regions("one", features, boxes, 40, 30), tmp_path / "one.npz")
    (case,) = cases_of(Loaded(net, tokenizer), Given(regions=str(tmp_path), question="sees the dog"))
    assert {stream: mask.sum().item() for stream, mask in case.subject.items.items()} == {"text": 3, "image": 4}
    nothing = scores_without(case.subject, {"image": torch.zeros(1, 4, dtype=torch.bool)})
    assert nothing.isfinite().all()
    found = explain_subject(case.subject, ["rollout", "gae", "heterogenous_pos", "semantic", "gradient", "blank_out"])
    assert all(float(scores.streams["image"].sum()) > 0 for scores in found.values())
    with pytest.raises(UserError, match="needs regions and a question"):
        list(cases_of(Loaded(net, tokenizer), Given(question="what")))
