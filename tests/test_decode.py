"""Does decoding with a cache find what the published code and full-prefix decoding find?"""

import math

import pytest
import torch

from lit_attn.decode import Rules, beam_search, greedy, sample
from lit_attn.errors import UserError
from lit_attn.models.captioner import Captioner
from tests.reference import decoding as reference
from tests.reference.published import published_net

UNKNOWN = 22


def published(name: str, arrays):
    net = published_net("main" if name == "long" else name)
    if name == "long":
        net.generator.bias.data[0] += arrays["end_bias_shift_of_long"]
    return net, (arrays["att_feats"].double(), arrays["boxes"].double(), arrays["att_masks"].bool())


def opening(pictures: int, texts: int = 1) -> torch.Tensor:
    return torch.zeros(pictures, texts, dtype=torch.long)


@torch.no_grad()
@pytest.mark.parametrize(("name", "length"), [("main", 16), ("legacy", 16), ("long", 16), ("long", 30)])
def test_greedy_equals_the_original(golden, name, length):
    arrays = golden("ort/decoding.npz")
    key = f"{name}_greedy_len{length}"
    net, given = published(name, arrays)
    found = greedy(net.step, net.start(*given), opening(9), length)
    assert torch.equal(found.tokens[:, 0], arrays[f"{key}_seq"])
    said = found.logprobs[:, 0] != 0
    torch.testing.assert_close(found.logprobs[:, 0][said], arrays[f"{key}_logprobs"][said].double(), rtol=0, atol=5e-4)


BEAMS = [
    (name, width, length, by_length)
    for name in ("main", "legacy", "long")
    for length in (16, 30)
    for width in (2, 3, 5)
    for by_length in (False, True)
    if (name == "long" or length == 16)
    and (not by_length or (width == 3 and (name, length) in (("main", 16), ("long", 30))))
]


@torch.no_grad()
@pytest.mark.parametrize(("name", "width", "length", "by_length"), BEAMS)
def test_beams_equal_the_original(golden, name, width, length, by_length):
    arrays = golden("ort/decoding.npz")
    net, given = published(name, arrays)
    found = beam_search(net.step, net.start(*given), opening(9), width, length, Rules(UNKNOWN), by_length)
    key = f"{name}_beam{width}{'_ppl' if by_length else ''}_len{length}"
    assert torch.equal(found.tokens, arrays[f"{key}_seq"])
    torch.testing.assert_close(found.logprobs, arrays[f"{key}_logprobs"].double(), rtol=0, atol=5e-4)
    torch.testing.assert_close(found.scores, arrays[f"{key}_score"], rtol=0, atol=5e-4)


@pytest.mark.parametrize(("name", "temperature"), [("main", 1.0), ("main", 0.6), ("legacy", 1.0)])
def test_samples_equal_the_original(golden, name, temperature):
    arrays = golden("ort/sampling.npz")
    key = f"{name}_t{str(temperature).replace('.', 'p')}"
    net, given = published(name, arrays)
    uniforms = iter(arrays[f"{key}_uniforms"])

    def draw(probabilities):
        shares = probabilities.cumsum(-1) / probabilities.sum(-1, keepdim=True)
        return (shares <= next(uniforms)[:, None, None]).sum(-1)

    found = sample(net.step, net.start(*given), opening(9), 16, temperature=temperature, draw=draw)
    assert torch.equal(found.tokens[:, 0], arrays[f"{key}_seq"])
    said = found.logprobs[:, 0] != 0
    torch.testing.assert_close(found.logprobs[:, 0][said], arrays[f"{key}_logprobs"][said].double(), rtol=0, atol=5e-4)
    assert found.logprobs.requires_grad


def small(seed: int, **options) -> tuple[Captioner, tuple[torch.Tensor, ...]]:
    torch.manual_seed(seed)
    net = Captioner(
        vocab_size=7, region_dim=5, dim=8, num_heads=2, hidden=11, encoder_layers=1, decoder_layers=2, **options
    )
    for parameter in net.parameters():
        parameter.data *= 2.5  # far from uniform, so that beams differ
    mask = torch.arange(5) < torch.tensor([5, 1, 3])[:, None]
    return net.double().eval(), (torch.randn(3, 5, 5).double(), torch.rand(3, 5, 4).double(), mask)


@torch.no_grad()
@pytest.mark.parametrize("alignment", ["scaled_dot", "activated", "cosine"])
@pytest.mark.parametrize("width", [1, 2, 5, 11])
@pytest.mark.parametrize("by_length", [False, True])
def test_beams_equal_full_prefix_decoding(alignment, width, by_length):
    for seed in range(3):
        net, given = small(seed, alignment=alignment)
        found = beam_search(net.step, net.start(*given), opening(3), width, 6, Rules(6), by_length)
        for i in range(3):
            expected = reference.beam_search(net, *(x[i] for x in given), width, 6, 6, by_length)
            for w, (score, words) in enumerate(expected):
                assert found.scores[i, w].item() == pytest.approx(score, abs=1e-9)
                assert found.tokens[i, w].tolist() == words + [0] * (6 - len(words))


@torch.no_grad()
def test_greedy_equals_full_prefix_decoding():
    for seed in range(5):
        net, given = small(seed)
        found = greedy(net.step, net.start(*given), opening(3), 7)
        for i in range(3):
            words = reference.greedy(net, *(x[i] for x in given), 7)
            assert found.tokens[i, 0].tolist() == words + [0] * (7 - len(words))


@torch.no_grad()
def test_one_beam_is_greedy_and_log_probabilities_are_those_of_one_pass():
    net, given = small(1)
    found = beam_search(net.step, net.start(*given), opening(3), 1, 7)
    alone = greedy(net.step, net.start(*given), opening(3), 7)
    assert torch.equal(found.tokens, alone.tokens)
    torch.testing.assert_close(found.logprobs, alone.logprobs)
    opened = torch.nn.functional.pad(found.tokens[:, 0], (1, 1))
    whole = net(*given, opened, torch.arange(3))[:, :-1]
    own = whole.gather(-1, found.tokens[:, 0, :, None]).squeeze(-1)
    said = found.logprobs[:, 0] != 0
    torch.testing.assert_close(own[said], found.logprobs[:, 0][said], rtol=0, atol=1e-12)


@torch.no_grad()
def test_samples_follow_the_probabilities():
    net, given = small(2)
    drawn = sample(net.step, net.start(*given), opening(3, 4001), 1).tokens[..., 0]
    expected = net.step(opening(3), net.start(*given))[0][:, 0].exp()
    found = torch.stack([(drawn == word).double().mean(1) for word in range(7)], -1)
    assert (found - expected).abs().max() < 4 * math.sqrt(0.25 / 4001)


def table_step(table: dict[tuple[int, ...], list[float]], words: int):
    """A step function over hand-made probabilities, by prefix."""

    class Prefixes:
        def __init__(self, rows):
            self.rows = rows

        def reordered(self, parents):
            return Prefixes([[own[p] for p in chosen] for own, chosen in zip(self.rows, parents.tolist(), strict=True)])

    def step(last, state):
        rows = [
            [[*own[i if len(own) > 1 else 0], word] for i, word in enumerate(words_of)]
            for own, words_of in zip(state.rows, last.tolist(), strict=True)
        ]
        even = [1 / words] * words
        probabilities = [[table.get(tuple(prefix[1:]), even) for prefix in own] for own in rows]
        return torch.tensor(probabilities, dtype=torch.float64).log(), Prefixes(rows)

    return step, Prefixes([[[]]])


def test_the_better_text_may_begin_with_the_worse_word():
    step, state = table_step({(): [0, 0.6, 0.4], (1,): [0.3, 0.35, 0.35], (2,): [0.9, 0.05, 0.05]}, 3)
    assert greedy(step, state, opening(1), 2).tokens[0, 0].tolist() == [1, 1]
    found = beam_search(step, state, opening(1), 2, 2)
    assert found.tokens[0, 0].tolist() == [2, 0]
    assert found.scores[0, 0].exp().item() == pytest.approx(0.36)


def test_the_unknown_word_is_named_by_its_id():
    step, state = table_step({(): [0.1, 0.6, 0.3]}, 3)
    assert greedy(step, state, opening(1), 1).tokens[0, 0, 0] == 1
    assert greedy(step, state, opening(1), 1, Rules(unknown=1)).tokens[0, 0, 0] == 2
    assert beam_search(step, state, opening(1), 1, 1, Rules(unknown=1)).tokens[0, 0, 0] == 2


def test_no_text_is_shorter_than_asked_or_ends_badly():
    step, state = table_step({(): [0.9, 0.1, 0], (1,): [0.8, 0.1, 0.1], (1, 1): [0.7, 0.1, 0.2]}, 3)
    assert greedy(step, state, opening(1), 4).tokens[0, 0].tolist() == [0, 0, 0, 0]
    assert greedy(step, state, opening(1), 4, Rules(min_words=2)).tokens[0, 0].tolist() == [1, 1, 0, 0]
    found = greedy(step, state, opening(1), 3, Rules(min_words=1, bad_endings=(1,))).tokens[0, 0].tolist()
    assert found == [1, 1, 2]
    assert (
        beam_search(step, state, opening(1), 1, 3, Rules(min_words=1, bad_endings=(1,))).tokens[0, 0].tolist() == found
    )


@pytest.mark.parametrize("penalty", [0.0, 2.0, math.inf])
def test_trigrams_that_come_again_cost(penalty):
    """Words 1 2 3 again and again; the third costs log 2 times the penalty when 1 2 3 was there."""
    prefix = (1, 2, 3, 1, 2)
    rules = Rules(trigram_penalty=penalty)
    logprobs = torch.log(torch.tensor([[[0.2, 0.1, 0.1, 0.6]]], dtype=torch.float64))
    found = rules.apply(logprobs, lambda: torch.tensor([[prefix]]), len(prefix))
    expected = logprobs.clone()
    if penalty:
        expected[..., 3] -= penalty * math.log(2)
    torch.testing.assert_close(found, expected)
    twice = rules.apply(logprobs, lambda: torch.tensor([[(1, 2, 3, 1, 2, 3, 1, 2)]]), 8)
    if penalty == 2.0:
        assert (logprobs - twice)[0, 0, 3].item() == pytest.approx(4 * math.log(2))


@torch.no_grad()
def test_forbidden_trigrams_never_come_twice():
    for seed in range(4):
        net, given = small(seed)
        rules = Rules(trigram_penalty=math.inf, min_words=13)
        for tokens in (
            greedy(net.step, net.start(*given), opening(3), 13, rules).tokens[:, 0],
            beam_search(net.step, net.start(*given), opening(3), 3, 13, rules).tokens[:, 0],
        ):
            for row in tokens.tolist():
                trigrams = list(zip(row, row[1:], row[2:], strict=False))
                assert len(set(trigrams)) == len(trigrams)


@torch.no_grad()
def test_more_beams_than_words():
    step, state = table_step({}, 2)
    found = beam_search(step, state, opening(1), 7, 2)
    texts = {
        tuple(row)
        for row, score in zip(found.tokens[0].tolist(), found.scores[0].tolist(), strict=True)
        if score > -1e9
    }
    assert texts == {(0, 0), (1, 0), (1, 1)}


def test_bad_arguments_are_named():
    net, given = small(0)
    state = net.start(*given)
    with pytest.raises(UserError, match="max_words=0"):
        greedy(net.step, state, opening(3), 0)
    with pytest.raises(UserError, match="width=0"):
        beam_search(net.step, state, opening(3), 0, 5)
    with pytest.raises(UserError, match="temperature"):
        sample(net.step, state, opening(3), 5, temperature=0.0)
