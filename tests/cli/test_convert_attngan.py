"""Do published networks of AttnGAN come over whole, with their sizes and their words?"""

import pickle

import pytest
import torch
from PIL import Image

from lit_attn.checkpoint import read_weights
from lit_attn.cli.convert import convert_attngan, read_captions_words
from lit_attn.errors import UserError
from lit_attn.models.attngan import Generator
from lit_attn.models.damsm import TextEncoder
from lit_attn.vocabulary import CaptionWords
from tests.reference.synthesis import below, published_shapes

WORDS = ("this", "bird", "is", "white", "with", "a", "red")


def published_generator(**sizes):
    return {name: torch.randn(shape) for name, shape in published_shapes(**sizes).items()}


def published_text(dim=8, ids=8):
    found = {"encoder.weight": torch.randn(ids, 5)}
    for end in ("", "_reverse"):
        for part, shape in (("ih", (2 * dim, 5)), ("hh", (2 * dim, dim // 2))):
            found[f"rnn.weight_{part}_l0{end}"] = torch.randn(shape)
            found[f"rnn.bias_{part}_l0{end}"] = torch.randn(2 * dim)
    return found


def published_image(dim=8):
    """The trained layers and one of the frozen ones."""
    return {
        "emb_features.weight": torch.randn(dim, 768, 1, 1),
        "emb_cnn_code.weight": torch.randn(dim, 2048),
        "emb_cnn_code.bias": torch.randn(dim),
        "Conv2d_1a_3x3.conv.weight": torch.randn(32, 3, 3, 3),
        "Conv2d_1a_3x3.bn.running_mean": torch.randn(32),
    }


@pytest.fixture
def files(tmp_path):
    """Names of published files, in the folder where commands run."""
    torch.save(published_generator(), tmp_path / "netG_epoch_600.pth")
    torch.save(published_text(), tmp_path / "text_encoder200.pth")
    torch.save(published_image(), tmp_path / "image_encoder200.pth")
    words = dict(enumerate(("<end>", *WORDS)))
    captions = [[[1, 2]], [[2, 3]], words, {word: i for i, word in words.items()}]
    (tmp_path / "captions.pickle").write_bytes(pickle.dumps(captions, protocol=2))
    return tmp_path


@pytest.mark.parametrize("sizes", [{}, {"width": 5, "residuals": 3, "doublings": 2, "stages": 2}])
def test_generators_come_over_whole_with_their_sizes(tmp_path, sizes):
    published = published_generator(**sizes)
    torch.save(published, tmp_path / "netG.pth")
    found = convert_attngan([tmp_path / "netG.pth"])
    width, stages, first = sizes.get("width", 3), sizes.get("stages", 3), 4 * 2 ** sizes.get("doublings", 4)
    assert found.hyperparameters == {
        "text_dim": 8,
        "z_dim": 7,
        "condition_dim": 5,
        "width": width,
        "sides": [first * 2**i for i in range(stages)],
        "residuals": sizes.get("residuals", 2),
        "alignment": "dot",
    }
    net = Generator(**found.hyperparameters)
    net.load_state_dict(below(found.tensors, "generator."), strict=True)
    assert len(found.tensors) == len(net.state_dict())
    last = published[f"h_net{stages}.residual.1.block.3.weight"]
    assert torch.equal(net.later[-1].residuals[1].conv.weight, last)
    assert found.task == "lit_attn.tasks.synthesis.Synthesis"


def test_names_of_data_parallel_are_understood(tmp_path):
    published = published_generator()
    torch.save({f"module.{name}": value for name, value in published.items()}, tmp_path / "netG.pth")
    found = convert_attngan([tmp_path / "netG.pth"]).tensors
    assert torch.equal(found["generator.condition.proj.bias"], published["ca_net.fc.bias"])


def test_both_encoders_become_one_damsm_with_its_words(files, inside):
    done = inside(
        "convert", "attngan", "text_encoder200.pth", "image_encoder200.pth",
        "--captions", "captions.pickle", "--out", "damsm.safetensors",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "7 words" in done.stdout
    found = read_weights(files / "damsm.safetensors")
    assert found.task == "lit_attn.tasks.damsm.DamsmTraining"
    assert found.words == WORDS
    assert found.vocabulary == CaptionWords(WORDS).fingerprint
    assert found.hyperparameters == {"vocab_size": 8, "word_dim": 5, "dim": 8, "encoder": "inception"}
    TextEncoder(8, word_dim=5, dim=8).load_state_dict(below(found.tensors, "net.text."), strict=True)
    assert set(below(found.tensors, "net.image.")) == {
        "to_regions.weight",
        "to_image.weight",
        "to_image.bias",
        "trunk.Conv2d_1a_3x3.conv.weight",
        "trunk.Conv2d_1a_3x3.bn.running_mean",
        "trunk.Conv2d_1a_3x3.bn.num_batches_tracked",
    }


def test_with_a_generator_the_encoders_are_its_judges(files, inside):
    done = inside("convert", "attngan", "netG_epoch_600.pth", "text_encoder200.pth")
    assert done.returncode == 0, done.stderr
    assert "no words: add --captions" in done.stdout
    found = read_weights(files / "netG_epoch_600.safetensors")
    assert {name.split(".")[0] for name in found.tensors} == {"generator", "text"}
    assert found.words is None
    assert found.hyperparameters.items() >= {"vocab_size": 8, "sides": [64, 128, 256]}.items()


def test_a_published_generator_paints_own_sentences(files, inside):
    """With its text encoder and the words; nothing else is needed to paint, but much to score."""
    published = published_generator(doublings=2, stages=2)
    positive = {name: t.abs() if name.endswith("running_var") else t for name, t in published.items()}
    torch.save(positive, files / "netG.pth")
    words = ["netG.pth", "text_encoder200.pth", "--captions", "captions.pickle", "--out", "painter.safetensors"]
    done = inside("convert", "attngan", *words)
    assert done.returncode == 0, done.stderr
    data = ["--from_weights", "painter.safetensors", "--data", "AttnGanFolder", "--data.root", "nowhere"]
    done = inside("predict", *data, "--data.sentences", "this bird is white", "--run", "painted")
    assert done.returncode == 0, done.stderr
    with Image.open(files / "checkpoints" / "painted" / "paintings" / "sentence-1-image.png") as picture:
        assert picture.size == (32, 32)
        assert len(set(picture.getdata())) > 1
    done = inside("validate", "tiny/attngan", "--from_weights", "painter.safetensors")
    assert done.returncode == 2


def test_networks_of_different_widths_do_not_belong_together(files):
    torch.save(published_text(dim=6), files / "other.pth")
    with pytest.raises(UserError, match="text of width 8, the encoders have 6: they do not belong together"):
        convert_attngan([files / "netG_epoch_600.pth", files / "other.pth"])
    with pytest.raises(UserError, match="image_encoder200.pth has dim 8, the others 6"):
        convert_attngan([files / "other.pth", files / "image_encoder200.pth"])
    with pytest.raises(UserError, match="a second text network"):
        convert_attngan([files / "text_encoder200.pth", files / "other.pth"])


def test_words_and_text_encoder_must_belong_together(files):
    torch.save(published_text(ids=13), files / "text_encoder100.pth")
    with pytest.raises(UserError, match="13 ids and .*captions.pickle 8 with END"):
        convert_attngan([files / "text_encoder100.pth"], files / "captions.pickle")


@pytest.mark.parametrize(
    "content", [[1, 2], [[], [], {1: "bird", 2: "is"}, {}], [[], [], {0: "bird", 1: "is"}, {}], {"vocab": {}}]
)
def test_other_pickles_hold_no_words(tmp_path, content):
    (tmp_path / "captions.pickle").write_bytes(pickle.dumps(content))
    with pytest.raises(UserError, match="is no captions.pickle of AttnGAN"):
        read_captions_words(tmp_path / "captions.pickle")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attgan", "x.pth"], "Unknown family 'attgan'. Did you mean 'attngan'?"),
        (["attngan"], "required: files"),
        (["attngan", "none.pth"], "There is no file none.pth"),
        (["attngan", "text.pth"], "is no file of plain tensors"),
        (["attngan", "other.pth"], "other.pth: This is neither a generator of AttnGAN nor an encoder of DAMSM"),
        (["attngan", "other.pth"], "It begins with UNCOND_DNET.outlogits.0.bias."),
        (["attngan", "more.pth"], "The tensor 'h_net2.att.linear.weight' is not one of a published generator"),
        (
            ["attngan", "less.pth"],
            "not all weights of a published generator of AttnGAN: 'pictures.0.weight' is missing",
        ),
        (["attngan", "netG_epoch_600.pth", "--captions", "none.pickle"], "Cannot read none.pickle"),
    ],
)
def test_mistakes_are_named(inside, files, words, message):
    (files / "text.pth").write_text("hello")
    torch.save({"UNCOND_DNET.outlogits.0.bias": torch.zeros(1)}, files / "other.pth")
    published = published_generator()
    torch.save(published | {"h_net2.att.linear.weight": torch.zeros(1)}, files / "more.pth")
    torch.save({n: v for n, v in published.items() if n != "img_net1.img.0.weight"}, files / "less.pth")
    done = inside("convert", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
