"""Does AttnGAN make and judge the original's pictures, and does each sample read its own words?"""

import pytest
import torch
from torch.nn import functional as F

from lit_attn.errors import UserError
from lit_attn.models.attngan import Discriminator, Generator
from lit_attn.nn.alignment import ALIGNMENTS, Activated
from lit_attn.nn.synthesis import WordAttention
from lit_attn.nn.tape import AttentionTape, Site, sites_of
from lit_attn.ops import gan
from tests.reference import synthesis as slow

STUDY = {
    "dot": "dot",
    "scaled": "scaled_dot",
    "general_kwq": "general_query",
    "general_qwk": "general_key",
    "biased_general_kwq": "biased_query",
    "biased_general_qwk": "biased_key",
    "activated_general_qwk": "activated",
    "activated_general_qwk_coco": "activated",
}
SITE = Site("stage.2.words", "pixels", "words")


def by_word(weights, picture):
    """`b 1 (y x) t` as `b t y x`."""
    return weights[:, 0].transpose(1, 2).unflatten(-1, picture.shape[2:])


def attention(alignment="dot", text_dim=11, width=5) -> WordAttention:
    return WordAttention(text_dim, width, SITE, alignment).double().eval()


def heard(module: WordAttention, picture, words, mask):
    with AttentionTape(module) as tape:
        context = module(picture, words, mask)
    return context, by_word(tape["stage.2.words"][0].weights, picture)


def test_words_of_a_batch_are_masked_sample_by_sample(golden):
    arrays = golden("alignment/attngan_attention.npz")
    module = attention()
    module.proj.load_state_dict({"weight": arrays["conv_context.weight"].flatten(1).double()})
    picture, words, padding = arrays["h"].double(), arrays["words"].double().transpose(1, 2), arrays["mask"]
    for mask, case in ((torch.ones_like(padding), "nomask"), (~padding, "masked_single")):
        context, weights = heard(module, picture, words, mask)
        torch.testing.assert_close(context, arrays[f"{case}.context"], rtol=0, atol=1e-9)
        torch.testing.assert_close(weights, arrays[f"{case}.attention"], rtol=0, atol=1e-9)
        torch.testing.assert_close(module(picture, words, mask), context, rtol=0, atol=1e-12)
    wrong = arrays["masked_batch_as_published.attention"]
    assert (weights - wrong).abs().max() > 0.5
    assert wrong[padding].sum() > 1
    assert weights[padding].sum() == 0


@pytest.mark.parametrize("variant", STUDY)
def test_alignments_are_those_of_the_study(golden, variant):
    arrays = golden("alignment/study_attngan.npz")
    module = attention(STUDY[variant])
    if variant == "activated_general_qwk":
        module.alignment = Activated(5, torch.sigmoid).double()
    module.proj.load_state_dict({"weight": arrays["conv_weight"].flatten(1).double()})
    wanted = module.alignment.state_dict()
    own = {"proj.weight": arrays["W"].double(), "proj.bias": arrays["b"].double()}
    module.alignment.load_state_dict({name: own[name] for name in wanted}, strict=True)
    picture, words = arrays["h"].double(), arrays["words"].double().transpose(1, 2)
    scores = module.alignment(picture.flatten(2).transpose(1, 2), module.proj(words))
    torch.testing.assert_close(scores, arrays[f"{variant}.scores"], rtol=0, atol=1e-9)
    for mask, case in ((torch.ones_like(arrays["mask"]), variant), (~arrays["mask"], f"{variant}.masked_single")):
        context, weights = heard(module, picture, words, mask)
        torch.testing.assert_close(weights, arrays[f"{case}.attention"], rtol=0, atol=1e-9)
        torch.testing.assert_close(context, arrays[f"{case}.context"], rtol=0, atol=1e-9)


def test_attention_equals_loops_over_positions():
    module = attention("general_key")
    picture = torch.randn(3, 5, 2, 7, dtype=torch.float64)
    words = torch.randn(3, 4, 11, dtype=torch.float64)
    lengths = (1, 4, 2)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    context, weights = heard(module, picture, words, mask)
    keys, matrix = module.proj(words).detach(), module.alignment.proj.weight.detach()
    for i, length in enumerate(lengths):
        wanted, shares = slow.attended(picture[i], keys[i, :length], lambda query, key: query @ (matrix @ key))
        torch.testing.assert_close(context[i], wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(weights[i, :length], shares.movedim(-1, 0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_a_caption_without_words_gives_nothing_and_no_bad_gradient(name):
    module = attention(name)
    picture = torch.randn(2, 5, 3, 2, dtype=torch.float64, requires_grad=True)
    words = torch.randn(2, 7, 11, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False] * 7, [True] * 7])
    for context in (module(picture, words, mask), heard(module, picture, words, mask)[0]):
        assert context[0].abs().sum() == 0
        assert context[1].abs().sum() > 0
        picture.grad = words.grad = None
        context.square().sum().backward()
        assert words.grad.isfinite().all()
        assert words.grad[1].abs().sum() > 0
        assert picture.grad is None or picture.grad.isfinite().all()


def generator(alignment="dot", sides=(8, 16, 32), **options) -> Generator:
    settings = {"text_dim": 11, "z_dim": 7, "condition_dim": 5, "width": 3} | options
    net = Generator(sides=sides, alignment=alignment, **settings).double()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net.eval()


def captions(count=5, longest=7):
    lengths = torch.tensor([longest, 1, 4, 2, 6][:count])
    mask = torch.arange(longest) < lengths[:, None]
    words = torch.where(mask[..., None], torch.randn(count, longest, 11, dtype=torch.float64), 0.0)
    sentence, z = torch.randn(count, 11, dtype=torch.float64), torch.randn(count, 7, dtype=torch.float64)
    return sentence, words, mask, z, torch.randn(count, 5, dtype=torch.float64)


@pytest.mark.parametrize("case", ["single", "batch"])
def test_pictures_and_attention_are_the_original_ones(golden, case):
    arrays = golden("alignment/attngan_generator.npz")
    net = slow.published_generator(arrays)
    assert net.sides == (64, 128, 256)
    given = slow.below(arrays, f"{case}.")
    words = given["words"].double().transpose(1, 2)
    mask = ~given["mask"] if case == "single" else torch.ones(words.shape[:2], dtype=torch.bool)
    sentence, z, eps = (given[name].double() for name in ("sent", "z", "eps"))
    with AttentionTape(net) as tape, torch.no_grad():
        found = net(sentence, words, mask, z, eps)
        drawn = net.condition(sentence, eps).drawn
    for value, name in ((found.mu, "mu"), (found.logvar, "logvar"), (drawn, "c_code")):
        torch.testing.assert_close(value, given[name], rtol=0, atol=1e-9)
    compared = 0
    for side, image in zip((64, 128, 256), found.images, strict=True):
        moments = torch.stack([image.sum((1, 2, 3)), image.square().sum((1, 2, 3))], -1).reshape(-1)
        torch.testing.assert_close(moments, given[f"image{side}_moments"].reshape(-1), rtol=1e-9, atol=1e-7)
        compared += compare(image, given, f"image{side}")
    for site, side in (("stage.2.words", 64), ("stage.3.words", 128)):
        weights = tape[site][0].weights[:, 0].transpose(1, 2).unflatten(-1, (side, side))
        compared += compare(weights, given, f"attention{side}")
    assert compared == 5


def compare(maps, given, name) -> int:
    """How many of the stored maps of this name there were: whole ones, or every k-th pixel."""
    stored = [key for key in given if key == name or key.startswith(f"{name}_stride")]
    for key in stored:
        step = int(key.rpartition("stride")[2]) if "stride" in key else 1
        torch.testing.assert_close(maps[..., ::step, ::step], given[key].double(), rtol=0, atol=1e-7)
    return len(stored)


def test_pictures_in_training_mode_are_the_original_ones(golden):
    arrays = golden("alignment/attngan_generator.npz")
    net = slow.published_generator(arrays).train()
    given = slow.below(arrays, "batch.")
    sentence, words, z, eps = (given[name].double() for name in ("sent", "words", "z", "eps"))
    with torch.no_grad():
        found = net(sentence, words.transpose(1, 2), torch.ones(2, 5, dtype=torch.bool), z, eps)
    assert compare(found.images[0], {"image64_stride4": given["image64_train_mode_stride4"]}, "image64") == 1


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_weights_times_values_are_what_goes_on(name):
    net = generator(name)
    sentence, words, mask, z, eps = captions()
    with AttentionTape(net) as tape:
        told = net(sentence, words, mask, z, eps)
    assert [(record.site.name, record.call) for record in tape] == [("stage.2.words", 0), ("stage.3.words", 0)]
    for record, side in zip(tape, (8, 16), strict=True):
        assert record.weights.shape == (5, 1, side * side, 7)
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)
        torch.testing.assert_close(record.weights.sum(-1), torch.ones_like(record.weights[..., 0]))
        assert record.weights.masked_select(~mask[:, None, None]).abs().sum() == 0
        assert torch.equal(record.key_mask, mask.unsqueeze(1))
    silent = net(sentence, words, mask, z, eps)
    for image, same in zip(told.images, silent.images, strict=True):
        torch.testing.assert_close(image, same, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_alone_and_in_a_batch_a_caption_gives_the_same_picture(name):
    net = generator(name)
    sentence, words, mask, z, eps = captions()
    together = net(sentence, words, mask, z, eps)
    for i in range(5):
        one, length = slice(i, i + 1), int(mask[i].sum())
        alone = net(sentence[one], words[one, :length], mask[one, :length], z[one], eps[one])
        for image, batched in zip(alone.images, together.images, strict=True):
            torch.testing.assert_close(image[0], batched[i], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_gradients_reach_every_parameter(name):
    net = generator(name).train()
    images, mu, logvar = net(*captions())
    (sum((image - 0.3).square().sum() for image in images) + mu.square().sum() + logvar.sum()).backward()
    dead = {n for n, p in net.named_parameters() if p.grad is None or not p.grad.abs().gt(1e-12).any()}
    # A softmax over words cancels what is added for all of them alike.
    assert dead == ({f"later.{i}.attention.alignment.proj.bias" for i in (0, 1)} if name == "biased_key" else set())


def test_noise_of_the_condition_is_drawn_when_it_is_not_given():
    net = generator()
    sentence, words, mask, z, _ = captions()
    pictures = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        pictures.append(net(sentence, words, mask, z).images[-1])
    assert torch.equal(pictures[0], pictures[1])
    assert not torch.allclose(pictures[0], pictures[2])


@pytest.mark.parametrize("sides", [(8, 16), (16, 32, 64), (32, 64), (64, 128)])
def test_any_chain_of_doubling_sides(sides):
    net = generator(sides=sides, width=2, residuals=1)
    sentence, words, mask, z, eps = captions(2)
    images = net(sentence, words, mask, z, eps).images
    assert [tuple(image.shape) for image in images] == [(2, 3, side, side) for side in sides]
    assert all(image.abs().max() <= 1 for image in images)
    assert net.first.start_width == 2 * sides[0] // 4
    assert [site.name for site in sites_of(net)] == [f"stage.{i}.words" for i in range(2, len(sides) + 1)]


def test_starts_orthogonal_and_near_one():
    net = Generator(text_dim=13, width=4, sides=(8, 16), alignment="biased_query")
    matrix = net.later[0].attention.alignment.proj.weight
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(4))
    assert net.later[0].attention.alignment.proj.bias.abs().sum() == 0
    kernel = net.later[0].residuals[0].conv.weight.flatten(1)
    torch.testing.assert_close(kernel @ kernel.T, torch.eye(8))
    factors = net.first.norm.weight
    assert abs(factors.mean() - 1) < 0.01
    assert 0.01 < factors.std() < 0.03


def test_equal_models_have_one_name():
    described = {name: generator(name).describe() for name in ALIGNMENTS}
    classes = {name: one.equivalence for name, one in described.items()}
    assert classes == {name: name for name in ALIGNMENTS} | dict.fromkeys(
        ("general_query", "general_key", "biased_key"), "general"
    )
    sizes = {name: one.parameters for name, one in described.items()}
    assert (sizes["dot"], sizes["general_key"], sizes["activated"]) == (0, 2 * 9, 2 * 12)
    net = generator("general_key")
    with_matrix, without = (sum(p.numel() for p in one.parameters()) for one in (net, generator("dot")))
    assert with_matrix - without == net.describe().parameters


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"sides": (16, 32, 96)}, r"sides=\[16, 32, 96\] does not double from 32 to 96"),
        ({"sides": (32, 16)}, "does not double from 32 to 16"),
        ({"sides": (4, 8)}, "cannot start at 4"),
        ({"sides": (12, 24)}, "cannot start at 12"),
        ({"sides": (64,)}, "too few stages"),
        ({"sides": ()}, "too few stages"),
        ({"alignment": "general_kye"}, "Did you mean 'general_key'"),
        ({"width": 0}, "width=0"),
        ({"residuals": -1}, "residuals=-1"),
    ],
)
def test_impossible_settings_are_named(setting, message):
    with pytest.raises(UserError, match=message):
        generator(**setting)


@pytest.mark.parametrize("side", [64, 128, 256])
def test_verdicts_are_the_original_ones(golden, side):
    arrays = golden("alignment/attngan_discriminator.npz")
    net = slow.published_discriminator(arrays, side)
    given = slow.below(arrays, f"D{side}.")
    real, fake = (F.interpolate(given[name].double(), scale_factor=side / 32) for name in ("image32", "fake32"))
    sentence = given["cond"].double()
    with torch.no_grad():
        features, fake_features = net.features(real), net.features(fake)
        torch.testing.assert_close(features, given["features"], rtol=0, atol=1e-9)
        logits = {
            "real": net.unconditional(features),
            "real_matched": net.conditional(features, sentence),
            "real_mismatched": net.conditional(*gan.mismatched(features, sentence)),
            "fake": net.unconditional(fake_features),
            "fake_matched": net.conditional(fake_features, sentence),
        }
    names = ("uncond", "cond", "cond_wrong", "fake_uncond", "fake_cond")
    for found, name in zip(logits.values(), names, strict=True):
        torch.testing.assert_close(found.sigmoid(), given[f"{name}_prob"], rtol=0, atol=1e-9)
    torch.testing.assert_close(gan.discriminator_loss(**logits), given["loss_D"], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("side", "width"), [(16, 10), (32, 20), (64, 40), (128, 40)])
def test_any_side_is_judged(side, width):
    net = Discriminator(side, text_dim=11, width=5)
    image, sentence = torch.randn(3, 3, side, side), torch.randn(3, 11)
    features = net.features(image)
    assert features.shape == (3, width, 4, 4)
    real, matched = net(image, sentence)
    assert real.shape == matched.shape == (3,)
    (real.sum() + matched.square().sum()).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in net.parameters())


def test_only_the_second_question_reads_the_sentence():
    net = Discriminator(16, text_dim=11, width=5).eval()
    image, sentence = torch.randn(3, 3, 16, 16), torch.randn(3, 11)
    (real, matched), (same, other) = net(image, sentence), net(image, sentence.roll(1, 0))
    assert torch.equal(real, same)
    assert (matched - other).abs().min() > 0


@pytest.mark.parametrize("setting", [{"side": 8}, {"side": 48}, {"side": 64, "width": 0}])
def test_impossible_discriminators_are_named(setting):
    with pytest.raises(UserError, match="power of two and at least 16, got|width=0"):
        Discriminator(**setting)


def test_a_picture_of_another_side_is_refused():
    with pytest.raises(ValueError, match=r"side 32, got \(64, 64\)"):
        Discriminator(32, text_dim=11, width=2).features(torch.zeros(2, 3, 64, 64))
