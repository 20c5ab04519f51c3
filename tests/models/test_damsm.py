"""Do DAMSM's encoders read captions and pictures as the originals do, and does the frozen part stay frozen?"""

import logging

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from lit_attn.errors import UserError
from lit_attn.models.attngan_weights import convert, settings_of
from lit_attn.models.damsm import Damsm, InceptionEncoder, SmallEncoder, TextEncoder, build_image_encoder
from tests.reference.synthesis import below


def encoder() -> TextEncoder:
    return TextEncoder(vocab_size=19, word_dim=7, dim=10).double().eval()


def captions():
    mask = torch.arange(5) < torch.tensor([3, 5, 1])[:, None]
    return torch.where(mask, torch.randint(1, 19, (3, 5)), 0), mask


def test_captions_are_read_as_by_the_original(golden):
    arrays = below(golden("alignment/attngan_damsm.npz"), "text_encoder.")
    kind, weights = convert(below(arrays, "weights."))
    settings = settings_of(kind, weights)
    assert settings == {"vocab_size": 17, "word_dim": 9, "dim": 12}
    net = TextEncoder(**settings).double().eval()
    net.load_state_dict(weights, strict=True)
    tokens = arrays["token_ids"]
    mask = torch.arange(tokens.shape[1]) < arrays["lengths"][:, None]
    order = torch.tensor([3, 0, 4, 1, 2])
    found = net(tokens[order], mask[order])
    torch.testing.assert_close(found.words.transpose(1, 2), arrays["words"][order], rtol=0, atol=1e-9)
    torch.testing.assert_close(found.sentence, arrays["sentence"][order], rtol=0, atol=1e-9)


def test_padding_changes_nothing_and_stays_zero():
    net = encoder()
    tokens, mask = captions()
    found = net(tokens, mask)
    assert found.words.shape == (3, 5, 10)
    assert found.words[~mask].abs().sum() == 0
    more = net(F.pad(torch.where(mask, tokens, 7), (0, 2), value=9), F.pad(mask, (0, 2)))
    torch.testing.assert_close(more.words[:, :5], found.words)
    torch.testing.assert_close(more.sentence, found.sentence)


def test_a_caption_without_words_is_zero_and_leaves_others_alone():
    net = encoder()
    tokens, mask = captions()
    empty = mask & torch.tensor([[True], [False], [True]])
    found, whole = net(tokens, empty), net(tokens, mask)
    assert found.words[1].abs().sum() == 0
    assert found.sentence[1].abs().sum() == 0
    for i in (0, 2):
        torch.testing.assert_close(found.words[i], whole.words[i])
        torch.testing.assert_close(found.sentence[i], whole.sentence[i])


def test_words_are_dropped_in_training_alone():
    net = encoder()
    given = captions()
    assert torch.equal(net(*given).sentence, net(*given).sentence)
    net.train()
    assert not torch.allclose(net(*given).sentence, net(*given).sentence)


def test_embeddings_start_small():
    weight = TextEncoder(vocab_size=101, word_dim=13, dim=2).embed.weight
    assert 0.09 < weight.abs().max() <= 0.1


def test_an_odd_width_is_refused():
    with pytest.raises(UserError, match="even, got dim=11"):
        TextEncoder(19, dim=11)


@pytest.fixture(scope="module")
def whole():
    """torchvision's own network, with its classifier, as if trained."""
    from torchvision.models import inception_v3

    net = inception_v3(weights=None, aux_logits=True, transform_input=False, init_weights=False)
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
    return net.eval()


def features(whole, image):
    """The 17 x 17 map and the pooled vector of torchvision's own pass."""
    seen = {}
    hooks = [
        whole.Mixed_6e.register_forward_hook(lambda module, given, output: seen.update(map=output)),
        whole.fc.register_forward_hook(lambda module, given, output: seen.update(pooled=given[0])),
    ]
    whole(F.interpolate(image, (299, 299), mode="bilinear", align_corners=False))
    for hook in hooks:
        hook.remove()
    return seen["map"], seen["pooled"]


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_inception_is_that_of_torchvision(whole, tmp_path, suffix):
    file = tmp_path / f"inception{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(whole.state_dict(), file)
    net = InceptionEncoder(dim=7, weights=file)
    image = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        regions, pooled = features(whole, image)
        found = net.train()(image)
        wanted = net.to_regions(regions), net.to_image(pooled)
    assert found.regions.shape == (2, 7, 17, 17)
    torch.testing.assert_close(found.regions, wanted[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.image, wanted[1], rtol=1e-4, atol=1e-4)


def test_inception_is_frozen_and_lets_gradients_through(caplog):
    with caplog.at_level(logging.WARNING):
        net = InceptionEncoder(dim=5).train()
    assert "random weights" in caplog.text
    before = {name: value.clone() for name, value in net.trunk.state_dict().items()}
    image = torch.randn(1, 3, 64, 64, requires_grad=True)
    found = net(image)
    assert found.regions.std() > 1e-3  # random weights, too, tell pictures apart
    (found.regions.square().sum() + found.image.sum()).backward()
    assert image.grad.abs().sum() > 0
    assert {name for name, p in net.named_parameters() if p.requires_grad} == {
        "to_regions.weight",
        "to_image.weight",
        "to_image.bias",
    }
    assert not any(module.training for module in net.trunk.modules())
    for name, value in net.trunk.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_published_image_encoder_fits(whole):
    published = {name: value for name, value in whole.state_dict().items() if not name.startswith(("fc.", "AuxLogits"))}
    published = {name: value for name, value in published.items() if not name.endswith("num_batches_tracked")}
    published |= {"emb_features.weight": torch.randn(5, 768, 1, 1), "emb_cnn_code.weight": torch.randn(5, 2048)}
    published["emb_cnn_code.bias"] = torch.randn(5)
    kind, weights = convert(published)
    assert settings_of(kind, weights) == {"dim": 5, "encoder": "inception"}
    net = InceptionEncoder(dim=5)
    net.load_state_dict(weights, strict=True)
    assert torch.equal(net.trunk.Mixed_7c.branch1x1.conv.weight, whole.Mixed_7c.branch1x1.conv.weight)
    assert torch.equal(net.to_image.bias, published["emb_cnn_code.bias"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no weights .*absent.pth"),
        ("hello", "no file of weights that can be read safely"),
        ([1, 2], "holds no table of tensors"),
        ({"fc.weight": torch.zeros(1)}, "lacks Conv2d_1a_3x3.conv.weight"),
    ],
)
def test_bad_files_of_inception_are_named(tmp_path, content, message):
    file = tmp_path / ("absent.pth" if content is None else "x.pth")
    if isinstance(content, str):
        file.write_text(content)
    elif content is not None:
        torch.save(content, file)
    with pytest.raises(UserError, match=message):
        InceptionEncoder(5, file)


def test_foreign_tensors_of_inception_are_named(whole, tmp_path):
    torch.save(whole.state_dict() | {"spare.weight": torch.zeros(1)}, tmp_path / "x.pth")
    with pytest.raises(UserError, match="has besides spare.weight"):
        InceptionEncoder(5, tmp_path / "x.pth")


@pytest.mark.parametrize(("side", "cells"), [(64, 8), (32, 4), (16, 2)])
def test_the_small_encoder_has_a_region_for_eight_pixels(side, cells):
    net = SmallEncoder(dim=7)
    found = net(torch.randn(3, 3, side, side))
    assert found.regions.shape == (3, 7, cells, cells)
    assert found.image.shape == (3, 7)
    (found.regions.square().sum() + found.image.square().sum()).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in net.parameters())


def test_both_encoders_share_a_space():
    net = Damsm(vocab_size=19, word_dim=5, dim=14, encoder="small").eval()
    tokens, mask = captions()
    image = torch.randn(3, 3, 64, 64)
    found = net(image, tokens, mask)
    assert found.regions.shape == (3, 14, 8, 8)
    assert torch.equal(found.image, net.image(image).image)
    assert torch.equal(found.words, net.text(tokens, mask).words)
    assert torch.equal(found.sentence, net.text(tokens, mask).sentence)


def test_unknown_encoders_are_named():
    with pytest.raises(UserError, match="Unknown encoder of pictures 'smal'. Did you mean 'small'"):
        Damsm(19, encoder="smal")
    with pytest.raises(UserError, match="small encoder takes no weights of Inception, got x.pth"):
        build_image_encoder("small", 8, "x.pth")
