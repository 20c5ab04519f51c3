"""Do the eight alignment functions score what their formulas say, and are the equal ones equal?"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.errors import UserError
from lit_attn.nn.alignment import ALIGNMENTS, Alignment, Setting, alignment_class, build_alignment
from lit_attn.ops.align import Operands

B, H, Q, K, E, V = 2, 3, 5, 7, 11, 13


class Halved(Alignment):
    """A user's own function, named by its import path."""

    def transform(self, query: torch.Tensor, key: torch.Tensor) -> Operands:
        return query, key, 0.5


def loop(name: str, module: Alignment, q: torch.Tensor, k: torch.Tensor) -> float:
    """The table of formulas, one pair at a time."""
    weight = module.proj.weight if hasattr(module, "proj") else None
    bias = module.proj.bias if hasattr(module, "proj") else None
    formulas = {
        "cosine": lambda: (q @ k) / (q.norm() * k.norm()),
        "dot": lambda: q @ k,
        "scaled_dot": lambda: (q @ k) / math.sqrt(len(q)),
        "general_query": lambda: k @ (weight @ q),
        "general_key": lambda: q @ (weight @ k),
        "biased_query": lambda: k @ (weight @ q + bias),
        "biased_key": lambda: q @ (weight @ k + bias),
        "activated": lambda: torch.relu(q @ (weight @ k + bias)),
    }
    return float(formulas[name]().detach())


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return tuple(torch.randn(B, H, n, w, dtype=torch.float64) for n, w in ((Q, E), (K, E), (K, V)))


@pytest.mark.parametrize("name", list(ALIGNMENTS))
def test_scores_follow_the_formula_query_major(name):
    module = build_alignment(name, E).double()
    query, key, _ = operands()
    scores = module(query, key).detach()
    assert scores.shape == (B, H, Q, K)
    for b, h, q, k in ((0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)):
        assert scores[b, h, q, k].item() == pytest.approx(loop(name, module, query[b, h, q], key[b, h, k]), abs=1e-12)


@pytest.mark.parametrize("name", list(ALIGNMENTS))
def test_elementwise_products_sum_to_the_scores(name):
    module = build_alignment(name, E).double()
    if name == "activated":
        module.activation = torch.nn.Identity()
    query, key = torch.randn(B, E, dtype=torch.float64), torch.randn(B, K, E, dtype=torch.float64)
    products = module.elementwise(query, key)
    assert products.shape == (B, K, E)
    torch.testing.assert_close(products.sum(-1), module(query[:, None], key)[:, 0], rtol=0, atol=1e-12)


def test_elementwise_activation_acts_on_every_product():
    module = build_alignment("activated", E).double()
    query, key = torch.randn(B, E, dtype=torch.float64), torch.randn(B, K, E, dtype=torch.float64)
    wanted = torch.relu(query[:, None] * (key @ module.proj.weight.T + module.proj.bias))
    torch.testing.assert_close(module.elementwise(query, key), wanted, rtol=0, atol=1e-12)


def key_mask() -> torch.Tensor:
    mask = torch.rand(B, 1, Q, K) < 0.6
    mask[0, 0, 0] = True
    mask[1, 0, 2] = False  # a row without any key
    return mask


@pytest.mark.parametrize("name", list(ALIGNMENTS))
def test_fused_path_equals_explicit_path(name):
    module = build_alignment(name, E).double()
    query, key, value = operands()
    mask = key_mask()
    context, weights = module.attend(query, key, value, mask, temperature=1.7)
    fused = module.attend_fused(query, key, value, mask, temperature=1.7)
    torch.testing.assert_close(context, fused, rtol=0, atol=1e-13)
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double().expand(B, H, Q), rtol=0, atol=1e-13)
    assert context[1, :, 2].eq(0).all()
    assert weights.masked_select(~mask).eq(0).all()
    query.requires_grad_()
    contexts = module.attend(query, key, value, mask)[0], module.attend_fused(query, key, value, mask)
    grads = [torch.autograd.grad(context.square().sum(), query)[0] for context in contexts]
    assert torch.isfinite(grads[0]).all()
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", list(ALIGNMENTS))
@given(seed=st.integers(0, 2**16))
@settings(max_examples=10, deadline=None)
def test_masked_keys_change_nothing_and_permuted_keys_permute_weights(name, seed):
    torch.manual_seed(seed)
    module = build_alignment(name, E).double()
    query, key, value = operands()
    mask = key_mask()[:, :, :1].expand(B, 1, Q, K)
    context, weights = module.attend(query, key, value, mask)
    hidden = ~mask[:, :, 0, :, None]
    other, _ = module.attend(query, key.masked_fill(hidden, 1e6), value.masked_fill(hidden, -1e6), mask)
    torch.testing.assert_close(context, other, rtol=0, atol=1e-12)
    order = torch.randperm(K)
    _, permuted = module.attend(query, key[:, :, order], value[:, :, order], mask[..., order])
    torch.testing.assert_close(permuted, weights[..., order], rtol=0, atol=1e-12)
    pieces = [module.attend(*(tensor[i : i + 1] for tensor in (query, key, value, mask)))[0] for i in range(B)]
    one_by_one = torch.cat(pieces)
    torch.testing.assert_close(one_by_one, context, rtol=0, atol=1e-12)


def tied(name: str, other: str) -> tuple[Alignment, Alignment]:
    one, two = build_alignment(name, E).double(), build_alignment(other, E).double()
    if hasattr(two, "proj"):
        two.proj.weight.data.copy_(one.proj.weight.data)
    return one, two


def test_general_query_is_general_key_with_the_transposed_matrix():
    one, two = tied("general_query", "general_key")
    two.proj.weight.data.copy_(one.proj.weight.data.T)
    query, key, _ = operands()
    torch.testing.assert_close(one(query, key), two(query, key), rtol=0, atol=1e-12)
    first, second = one.elementwise(query[:, 0, 0], key[:, 0]), two.elementwise(query[:, 0, 0], key[:, 0])
    assert (first - second).abs().max() > 1e-3, "element by element they are different functions"


def test_bias_beside_the_key_map_vanishes_under_softmax_and_beside_the_query_map_does_not():
    query, key, value = operands()
    biased, plain = tied("biased_key", "general_key")
    with_bias, without = biased.attend(query, key, value)[1], plain.attend(query, key, value)[1]
    torch.testing.assert_close(with_bias, without, rtol=0, atol=1e-12)
    biased, plain = tied("biased_query", "general_query")
    assert (biased.attend(query, key, value)[1] - plain.attend(query, key, value)[1]).abs().max() > 1e-3


def test_scores_agree_with_published_m4c_heads(golden):
    arrays = golden("alignment/study_m4c.npz")
    query, key, value = arrays["query"], arrays["key"], arrays["value"]
    mask = arrays["mask"][:, None]
    names = {
        "dot": "dot", "scaled": "scaled_dot", "general_qwk": "general_key", "biased_general_qwk": "biased_key",
        "activated_general_qwk": "activated", "general_kwq": "general_query", "biased_general_kwq": "biased_query",
    }  # fmt: skip
    found = 0
    for variant in arrays["variants"].tolist():
        name = next(ours for theirs, ours in names.items() if variant == theirs or variant.startswith(theirs + "_"))
        module = build_alignment(name, query.shape[-1]).double()
        if hasattr(module, "proj"):
            module.proj.weight.data.copy_(arrays["W"].double())
            if module.proj.bias is not None:
                module.proj.bias.data.copy_(arrays["b"].double())
        transposed = f"{variant}.derived_query_major." if "kwq" in variant else f"{variant}."
        context, weights = module.attend(query, key, value, mask)
        torch.testing.assert_close(module(query, key), arrays[transposed + "scores"], rtol=0, atol=1e-9, msg=variant)
        torch.testing.assert_close(weights, arrays[transposed + "attention"], rtol=0, atol=1e-9, msg=variant)
        if "kwq" not in variant:
            merged = context.transpose(1, 2).flatten(2)
            torch.testing.assert_close(merged, arrays[f"{variant}.context"], rtol=0, atol=1e-9, msg=variant)
        found += 1
    assert found == 7


def test_equivalence_classes_depend_on_the_network():
    softmax, mac = Setting(), Setting(shift_free=False, elementwise=True)
    classes = {name: build_alignment(name, E).equivalence(softmax) for name in ALIGNMENTS}
    assert classes == {
        "cosine": "cosine", "dot": "dot", "scaled_dot": "scaled_dot", "general_query": "general",
        "general_key": "general", "biased_query": "biased_query", "biased_key": "general", "activated": "activated",
    }  # fmt: skip
    assert {name: build_alignment(name, E).equivalence(mac) for name in ALIGNMENTS} == {n: n for n in ALIGNMENTS}
    assert build_alignment("biased_key", E).describe(softmax).parameters == E * E + E


def test_users_class_by_import_path():
    module = build_alignment(f"{__name__}.Halved", E)
    query, key, _ = operands()
    torch.testing.assert_close(module(query, key), query @ key.transpose(-1, -2) / 2, rtol=0, atol=1e-12)
    assert module.describe(Setting()).name == f"{__name__}.Halved"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("general_qeury", "Unknown alignment 'general_qeury'. Did you mean 'general_query'.*cosine, dot, scaled_dot"),
        ("nothing.here.Align", "Cannot import the alignment 'nothing.here.Align'"),
        ("torch.nn.Linear", "not a concrete subclass of lit_attn.nn.alignment.Alignment"),
        ("lit_attn.nn.alignment.Alignment", "not a concrete subclass"),
    ],
)
def test_wrong_names_say_what_is_right(name, message):
    with pytest.raises(UserError, match=message):
        alignment_class(name)


def test_width_must_be_positive():
    with pytest.raises(UserError, match="must be positive, got dim=0"):
        build_alignment("dot", 0)
