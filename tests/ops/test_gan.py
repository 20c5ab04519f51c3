"""Are the losses of AttnGAN those of the original code, and finite where probabilities would not be?"""

import math

import pytest
import torch

from lit_attn.errors import UserError
from lit_attn.ops import damsm, gan
from tests.reference import synthesis as slow


def logits(count=7):
    return torch.randn(count, dtype=torch.float64)


def test_discriminator_weighs_two_acceptances_and_three_refusals():
    names = ("real", "real_matched", "real_mismatched", "fake", "fake_matched")
    given = {name: logits(5 if name == "real_mismatched" else 7) for name in names}
    accepted = sum(slow.says(given[name], True) for name in names[:2])
    refused = sum(slow.says(given[name], False) for name in names[2:])
    assert gan.discriminator_loss(**given).item() == pytest.approx(accepted / 2 + refused / 3, abs=1e-12)


def test_generator_wants_both_to_be_accepted():
    fake, matched = logits(), logits()
    wanted = slow.says(fake, True) + slow.says(matched, True)
    assert gan.generator_loss(fake=fake, fake_matched=matched).item() == pytest.approx(wanted, abs=1e-12)


def test_sure_discriminators_cost_a_finite_amount():
    sure = torch.full((3,), -1000.0, requires_grad=True)
    loss = gan.generator_loss(fake=sure, fake_matched=sure)
    loss.backward()
    assert loss.item() == 2000.0
    assert sure.grad.isfinite().all()


def test_mismatch_is_the_caption_of_the_next_sample():
    features, sentence = torch.randn(5, 3, 4, 4), torch.randn(5, 11)
    found = gan.mismatched(features, sentence)
    assert torch.equal(found.features, features[:4])
    for i in range(4):
        assert torch.equal(found.sentence[i], sentence[i + 1])


def test_one_sample_has_no_mismatch():
    with pytest.raises(UserError, match="at least 2 samples, got 1. Raise batch_size"):
        gan.mismatched(torch.zeros(1, 3, 4, 4), torch.zeros(1, 11))


def test_divergence_is_that_of_normal_distributions():
    mu, logvar = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    drawn = torch.distributions.Normal(mu, (logvar / 2).exp())
    standard = torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu))
    wanted = torch.distributions.kl_divergence(drawn, standard).mean()
    torch.testing.assert_close(gan.condition_divergence(mu, logvar), wanted)
    assert gan.condition_divergence(torch.zeros(2, 3), torch.zeros(2, 3)).item() == 0.0


def test_divergence_and_generator_loss_are_those_of_the_original(golden):
    arrays = golden("alignment/attngan_damsm.npz")
    found = gan.condition_divergence(arrays["kl.mu"].double(), arrays["kl.logvar"].double())
    torch.testing.assert_close(found, arrays["kl.loss"], rtol=0, atol=1e-9)
    fooled = gan.generator_loss(
        fake=arrays["generator_loss.uncond_prob"].logit(), fake_matched=arrays["generator_loss.cond_prob"].logit()
    )
    words = arrays["words"].double().transpose(1, 2)
    mask = torch.arange(words.shape[1]) < arrays["lengths"][:, None]
    by_word = damsm.word_similarity(arrays["regions"].double(), words, mask)
    by_sentence = damsm.sentence_similarity(arrays["image_code"].double(), arrays["sentence"].double())
    judged = sum(sum(damsm.match_loss(one, arrays["class_ids"])) for one in (by_word, by_sentence))
    wanted = arrays["generator_loss.total_lambda5"].item()
    assert math.isclose((fooled + 5 * judged).item(), wanted, rel_tol=0, abs_tol=1e-9)
