"""Are the losses and the schedule of the captioner those of the published code and of their formulas?"""

import json
import math

import pytest
import torch

from lit_attn.ops.loss import cross_entropy_with_set, multilabel_decoding, next_word_loss, reward_loss
from lit_attn.ops.schedule import noam
from tests.reference.published import golden_file


@pytest.mark.parametrize(("name", "smoothing"), [("lm", 0.0), ("smooth0", 0.0), ("smooth1", 0.1), ("smooth3", 0.3)])
def test_next_word_loss_and_gradient_equal_the_original(golden, name, smoothing):
    arrays = golden("ort/losses.npz")
    logprobs = arrays["logprobs"].clone().requires_grad_()
    steps = logprobs.shape[1]
    loss = next_word_loss(logprobs, arrays["target"][:, :steps], arrays["mask"][:, :steps].bool(), smoothing)
    loss.backward()
    assert loss.item() == pytest.approx(arrays[f"{name}_loss"].item(), abs=1e-12)
    torch.testing.assert_close(logprobs.grad, arrays[f"{name}_grad"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["per_sequence", "per_step"])
def test_reward_loss_and_gradient_equal_the_original(golden, name):
    arrays = golden("ort/losses.npz")
    logprobs = arrays["sampled_logprobs"].clone().requires_grad_()
    loss = reward_loss(logprobs, arrays["sampled_seq"], arrays[f"reward_{name}"])
    loss.backward()
    assert loss.item() == pytest.approx(arrays[f"reward_{name}_loss"].item(), abs=1e-12)
    torch.testing.assert_close(logprobs.grad, arrays[f"reward_{name}_grad"], rtol=0, atol=1e-12)


def test_smoothed_loss_is_the_divergence_from_the_smoothed_labels():
    logprobs = torch.randn(3, 5, 7, dtype=torch.float64).log_softmax(-1)
    target, mask = torch.randint(0, 7, (3, 5)), torch.rand(3, 5) < 0.7
    total = 0.0
    for c, t in mask.nonzero().tolist():
        for v in range(7):
            label = 0.8 if v == target[c, t] else 0.2 / 6
            total += label * (math.log(label) - logprobs[c, t, v].item())
    assert next_word_loss(logprobs, target, mask, 0.2).item() == pytest.approx(total / mask.sum().item(), abs=1e-12)


def test_what_follows_the_end_changes_no_reward_loss():
    tokens = torch.tensor([[3, 0, 0, 0, 0], [1, 2, 4, 1, 1]])
    logprobs, reward = torch.randn(2, 5, dtype=torch.float64), torch.randn(2, 1, dtype=torch.float64)
    expected = -(logprobs[0, :2].sum() * reward[0, 0] + logprobs[1].sum() * reward[1, 0]) / 7
    assert reward_loss(logprobs, tokens, reward).item() == pytest.approx(expected.item(), abs=1e-12)


def test_noam_equals_the_original():
    for case in json.loads(golden_file("noam.json").read_text()):
        for step, rate in zip(case["steps"], case["learning_rate"], strict=True):
            found = noam(step, case["model_size"], case["warmup"], case["factor"])
            assert found == pytest.approx(rate, rel=1e-12)


def test_noam_peaks_at_the_end_of_the_warm_up():
    rates = [noam(step, 512, 10000) for step in (1, 9999, 10000, 10001)]
    assert max(rates) == rates[2] == pytest.approx(4.42e-4, rel=1e-3)


def test_multilabel_decoding_and_its_gradient_equal_the_original(golden):
    arrays = golden("alignment/m4c_model.npz")
    targets, steps = arrays["loss.targets"].double(), arrays["loss.step_mask"].bool()
    absent = torch.zeros_like(targets, dtype=torch.bool)
    absent[..., 13:] = torch.arange(6) >= arrays["ocr_counts"][:, None, None]
    assert absent.any()
    for given in (arrays["teacher_forced.scores"], arrays["teacher_forced.scores"].masked_fill(absent, -math.inf)):
        scores = given.clone().requires_grad_()
        loss = multilabel_decoding(scores, targets, steps)
        loss.backward()
        assert loss.item() == pytest.approx(arrays["loss.value"].item(), abs=1e-9)
        torch.testing.assert_close(scores.grad, arrays["loss.grad_scores"], rtol=0, atol=1e-12)
    none = multilabel_decoding(arrays["teacher_forced.scores"], targets, torch.zeros_like(steps))
    assert none.item() == arrays["loss.value_all_masked"].item() == 0.0


def test_multilabel_decoding_is_its_formula_and_never_nan():
    scores = torch.randn(3, 5, 7, dtype=torch.float64)
    scores[1, :, 4:] = -math.inf
    targets, steps = torch.rand(3, 5, 7, dtype=torch.float64), torch.rand(3, 5) < 0.6
    total = 0.0
    for b, s in steps.nonzero().tolist():
        for score, target in zip(scores[b, s].tolist(), targets[b, s].tolist(), strict=True):
            if score > -math.inf:
                chance = 1 / (1 + math.exp(-score))
                total -= target * math.log(chance) + (1 - target) * math.log(1 - chance)
    scores.requires_grad_()
    loss = multilabel_decoding(scores, targets, steps)
    loss.backward()
    assert loss.item() == pytest.approx(total / steps.sum().item(), abs=1e-12)
    assert scores.grad.isfinite().all()
    assert not scores.grad[~steps].any()
    assert not scores.grad[1, :, 4:].any()


def test_cross_entropy_with_a_set_of_keys():
    weights = torch.rand(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    wanted = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.4
    wanted[3] = False
    rows = []
    for row in (0, 1, 2, 4):
        keys = [key for key in range(7) if wanted[row, key]]
        rows.append(-sum(math.log(weights[row, key]) for key in keys) / len(keys))
    assert cross_entropy_with_set(weights, wanted).item() == pytest.approx(sum(rows) / 4, abs=1e-12)
    assert cross_entropy_with_set(weights, torch.zeros_like(wanted)).item() == 0
    even = torch.tensor([[0.25, 0.0, 0.75]], dtype=torch.float64)
    assert math.isfinite(cross_entropy_with_set(even, torch.tensor([[True, True, False]])).item())


@pytest.mark.parametrize("rest", [0.5, 1.0])
def test_cross_entropy_with_a_set_of_keys_and_a_share_for_the_rest(rest):
    weights = torch.rand(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    wanted = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.4
    wanted[3], wanted[4] = False, True
    rows = []
    for row in range(5):
        count = int(wanted[row].sum())
        shares = [1.0 if wanted[row, key] else rest / (7 - count) for key in range(7)]
        rows.append(-sum(s * math.log(weights[row, key]) for key, s in enumerate(shares)) / sum(shares))
    assert cross_entropy_with_set(weights, wanted, rest).item() == pytest.approx(sum(rows) / 5, abs=1e-12)
    logits = torch.zeros(1, 7, dtype=torch.float64, requires_grad=True)
    right = torch.tensor([[True, False, True, True, False, False, False]])
    best = torch.where(right, 1.0, rest / 4) / (3 + rest)
    gradient = torch.autograd.grad(cross_entropy_with_set(logits.softmax(-1), right, rest), logits)[0]
    torch.testing.assert_close(gradient, (torch.full_like(logits, 1 / 7) - best).detach())
