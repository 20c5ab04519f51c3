"""Does the verb-number network compute what it says, and can every method explain it?"""

import pytest
import torch
import torch.nn.functional as F

from lit_attn.attribution.explain import METHODS, explain
from lit_attn.attribution.importance import input_gradient
from lit_attn.attribution.plans import plan_of
from lit_attn.attribution.targets import best
from lit_attn.errors import UserError
from lit_attn.models.agreement import VerbNumber
from lit_attn.nn.gpt2 import Gpt2Sizes
from lit_attn.nn.tape import AttentionTape


def net(word_dim: int | None = None, alignment: str = "scaled_dot") -> VerbNumber:
    torch.manual_seed(0)
    sizes = Gpt2Sizes(dim=22, num_heads=2, hidden=13)
    made = VerbNumber(
        17, 3, sizes, layers=2, alignment=alignment, word_dim=word_dim, max_positions=11, init_std=0.4
    ).double()
    return made.eval()


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(1, 17, (5, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([7, 3, 5, 7, 2])
    return tokens, torch.arange(7) < lengths.unsqueeze(1)


def by_hand(network: VerbNumber, tokens: list[int]) -> torch.Tensor:
    """One sentence, one head and one position at a time, by the equations."""
    state = network.state_dict()
    word = [state["words.weight"][i] for i in tokens]
    if "widen.weight" in state:
        word = [state["widen.weight"] @ one for one in word]
    x = [one + state["positions.weight"][i] for i, one in enumerate(word)]

    def norm(one: torch.Tensor, name: str) -> torch.Tensor:
        centered = one - one.mean()
        return state[f"{name}.weight"] * centered / (centered.square().mean() + 1e-5).sqrt() + state[f"{name}.bias"]

    def linear(one: torch.Tensor, name: str) -> torch.Tensor:
        return state[f"{name}.weight"] @ one + state[f"{name}.bias"]

    for layer in ("layers.0", "layers.1"):
        normed = [norm(one, f"{layer}.attn_norm") for one in x]
        query, key, value = (
            [linear(one, f"{layer}.attn.{part}") for one in normed] for part in ("query", "key", "value")
        )
        new = []
        for i in range(len(x)):
            heads = []
            for part in (slice(0, 11), slice(11, 22)):
                scores = torch.stack([query[i][part] @ k[part] / 11**0.5 for k in key])
                weights = scores.exp() / scores.exp().sum()
                heads.append(sum(w * v[part] for w, v in zip(weights, value, strict=True)))
            new.append(x[i] + linear(torch.cat(heads), f"{layer}.attn.output"))
        x = []
        for one in new:
            inner = linear(norm(one, f"{layer}.feed_norm"), f"{layer}.feed_forward.0")
            active = 0.5 * inner * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (inner + 0.044715 * inner**3)))
            x.append(one + linear(active, f"{layer}.feed_forward.2"))
    return linear(norm(x[0], "norm"), "output")


@pytest.mark.parametrize("word_dim", [None, 5])
def test_equals_the_equations_whatever_the_padding(word_dim):
    network, (tokens, mask) = net(word_dim), sentences()
    found = network(tokens, mask)
    for row, (own, there) in enumerate(zip(tokens, mask, strict=True)):
        torch.testing.assert_close(found[row], by_hand(network, own[there].tolist()), rtol=0, atol=1e-10)


def test_what_the_tape_hears_is_what_goes_on():
    network, (tokens, mask) = net(alignment="general_query"), sentences()
    with AttentionTape(network) as tape:
        network(tokens, mask)
    assert [record.site.name for record in tape.records] == ["encoder.0.self", "encoder.1.self"]
    for record in tape.records:
        assert record.weights.shape == (5, 2, 7, 7)
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-10)
        assert not record.weights[~mask[:, None, None].expand_as(record.weights)].any()


def test_every_method_explains_it_from_its_plan():
    network, (tokens, mask) = net(), sentences()
    scores = explain(network, plan_of(network), lambda n: n(tokens, mask), best, list(METHODS))
    for name, found in scores.items():
        assert found.streams["words"].shape == (5, 7), name
        assert torch.isfinite(found.streams["words"]).all(), name
        assert not found.streams["words"][~mask].any(), name


def test_the_sum_of_gradients_is_zero_because_norms_ignore_a_shift():
    network, (tokens, mask) = net(), sentences()
    embedded = network.embed(tokens).detach().requires_grad_()
    target = F.softmax(network.classify(embedded, mask), -1)[:, 0]
    assert float(input_gradient(target, embedded, "sum_abs").max()) < 1e-12
    assert float(input_gradient(target, embedded, "l2")[mask].min()) > 1e-6


def test_a_sentence_longer_than_positions():
    with pytest.raises(UserError, match="12 tokens, its first and last included, but this model knows 11 positions"):
        net()(torch.ones(1, 12, dtype=torch.long), torch.ones(1, 12, dtype=torch.bool))
