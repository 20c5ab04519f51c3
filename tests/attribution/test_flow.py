"""Is attention flow exact, however it is found?"""

import numpy as np
import pytest
import torch

from lit_attn.attribution.flow import all_flows, attention_flow, flows_from
from lit_attn.attribution.flow_bounds import lower_bound, upper_bound
from lit_attn.attribution.flow_solvers import with_ortools, with_scipy
from lit_attn.attribution.rollout import rollout
from lit_attn.errors import UserError
from tests.reference import attribution as slow
from tests.reference.attribution import one_stream, random_weights

FILE = "attribution/flow.npz"
CASES = (
    "L4_n5", "L4_n9", "L4_n12", "L6_n5", "L6_n9", "L6_n12", "peaked_L4_n9", "peaked_L6_n12", "causal_L4_n8", "pad_L4_n9",
)  # fmt: skip


@pytest.fixture(params=[with_scipy, with_ortools], ids=["scipy", "ortools"])
def solver(request):
    if request.param is with_ortools:
        pytest.importorskip("ortools", reason="pip install 'lit_attn[flow]' to run it")
    return request.param


def capacities(layers: int, n: int, heads: int, spread: float) -> np.ndarray:
    weights = random_weights(layers, heads, n, n, spread=spread).mean(1)
    return ((weights + torch.eye(n)) / 2).numpy()


@pytest.mark.parametrize("case", CASES)
def test_all_pairs_equal_the_original(golden, solver, case):
    arrays = golden(FILE)
    found = all_flows(arrays[f"{case}/capacity"].numpy(), solver)
    assert np.abs(found - arrays[f"{case}/flow_raw"].numpy()).max() < 1e-8
    total = found.sum(-1, keepdims=True)
    assert np.abs(found / total - arrays[f"{case}/flow_norm"].numpy()).max() < 1e-8


@pytest.mark.parametrize("case", ["single_L6_n24", "single_peaked_L6_n24"])
def test_one_source_of_a_larger_graph_equals_the_original(golden, solver, case):
    arrays = golden(FILE)
    level, row = arrays[f"{case}/source"].tolist()
    heard = one_stream(arrays[f"{case}/att"].unsqueeze(1), row=row)
    assert level == len(heard.groups)
    found = attention_flow(heard, solver=solver)
    torch.testing.assert_close(found.raw[0], arrays[f"{case}/flow_raw"], rtol=0, atol=1e-8)
    torch.testing.assert_close(found.normalized[0], arrays[f"{case}/flow_norm"], rtol=0, atol=1e-8)
    share = {"single_L6_n24": 1.0, "single_peaked_L6_n24": 0.5}[case]
    assert found.saturation.item() == pytest.approx(share), "as the golden data's own table says"
    assert (found.solved > 0) == (case == "single_peaked_L6_n24")


def test_single_heads_and_no_residual_equal_the_original(golden):
    arrays = golden(FILE)
    weights = arrays["L4_n5/att"].unsqueeze(1)
    for level in range(4):
        for row in range(5):
            heard = one_stream(weights[: level + 1], row=row)
            for head in range(4):
                found = attention_flow(heard, head=head).raw[0]
                expected = arrays["L4_n5/perhead_flow_raw"][level, head, row]
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)
            found = attention_flow(heard, residual=False).raw[0]
            torch.testing.assert_close(found, arrays["L4_n5/flow_raw_nores"][level, row], rtol=0, atol=1e-8)
    maxima = torch.from_numpy(all_flows(arrays["L4_n9/capacity"].numpy()))
    maxima = (maxima / maxima.sum(-1, keepdim=True)).amax(-2)
    torch.testing.assert_close(maxima, arrays["L4_n9/sst_flow"], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("heads", "spread"), [(8, 2.0), (1, 6.0)], ids=["averaged", "sharp"])
def test_flow_equals_one_maximum_flow_per_pair(solver, heads, spread):
    capacity = capacities(5, 13, heads, spread)
    found, _ = flows_from(capacity, 7, solver)
    assert np.abs(found - slow.flow(capacity, 7)).max() < 1e-7


@pytest.mark.parametrize("edges", [1, 1500, 10**6], ids=["one by one", "some at once", "all at once"])
def test_scipy_solves_several_sinks_in_a_call(monkeypatch, edges):
    monkeypatch.setattr("lit_attn.attribution.flow_solvers.EDGES_AT_ONCE", edges)
    capacity, sinks = capacities(5, 13, 1, 6.0), np.array([12, 0, 7, 3, 5])
    capacity[2, 4] = capacity[-1, 7, 2] = 0  # positions that pass on nothing, or that nothing reaches
    assert np.abs(with_scipy(capacity, 7, sinks) - slow.flow(capacity, 7)[sinks]).max() < 1e-7


@pytest.mark.parametrize(("heads", "spread"), [(8, 2.0), (1, 6.0)], ids=["averaged", "sharp"])
def test_flow_lies_between_rollout_and_its_bounds(heads, spread):
    weights = random_weights(5, 1, heads, 11, 11, spread=spread)
    capacity = ((weights.mean(2)[:, 0] + torch.eye(11)) / 2).numpy()
    flows, rolled = all_flows(capacity), rollout(one_stream(weights))[:, 0].numpy()
    assert np.array_equal(flows[0], capacity[0])
    for i in range(11):
        for j in range(11):
            two = sum(min(capacity[1, i, k], capacity[0, k, j]) for k in range(11))
            assert flows[1, i, j] == pytest.approx(two, abs=1e-14)
    assert (rolled <= flows + 1e-7).all()
    assert (flows <= np.minimum(1, capacity[0].sum(0)) + 1e-7).all()
    for source in range(11):
        upper = upper_bound(capacity, source)
        lower = lower_bound(capacity, source, np.arange(11), upper, 1e-7)
        assert (lower <= flows[-1, source] + 1e-7).all()
        assert (flows[-1, source] <= upper + 1e-7).all()
        assert (lower > 0).all(), "a push moves something wherever something can flow"


def test_padding_and_processes_change_nothing():
    mask = torch.arange(7) < torch.tensor([7, 3])[:, None]
    weights = random_weights(4, 2, 1, 7, 7, spread=5.0, mask=mask[:, None, None])
    heard = one_stream(weights, mask=mask, row=(5, 2))
    found = attention_flow(heard)
    assert torch.equal(found.raw[1, 3:], torch.zeros(4, dtype=torch.float64))
    for sample, (length, row) in enumerate(((7, 5), (3, 2))):
        alone = attention_flow(one_stream(weights[:, sample : sample + 1, :, :length, :length], row=row))
        torch.testing.assert_close(found.raw[sample, :length], alone.raw[0], rtol=0, atol=1e-12)
        assert found.saturation[sample] == alone.saturation[0]
    shared = attention_flow(heard, processes=1)
    assert torch.equal(shared.raw, found.raw)


def test_uniform_causal_flow_is_flat_after_correction():
    allowed = torch.ones(7, 7, dtype=torch.bool).tril()
    weights = (allowed.double() / allowed.sum(-1, keepdim=True)).expand(4, 1, 1, 7, 7)
    heard = one_stream(weights, row=6, key_mask=allowed.unsqueeze(0))
    assert attention_flow(heard).normalized.std() > 0.05
    torch.testing.assert_close(
        attention_flow(heard, causal="ratio").normalized, torch.full((1, 7), 1 / 7, dtype=torch.float64)
    )


def test_single_precision_stays_single():
    found = attention_flow(one_stream(random_weights(4, 1, 2, 5, 5).float()))
    assert found.raw.dtype == torch.float32
    assert found.saturation.dtype == torch.float32


def test_a_missing_head_is_refused():
    with pytest.raises(UserError, match="no head 2 at the top: it has heads 0 to 1"):
        attention_flow(one_stream(random_weights(3, 1, 2, 5, 5)), head=2)


def test_a_missing_solver_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ortools.graph.python", None)
    with pytest.raises(UserError, match=r"lit_attn\[flow\]"):
        with_ortools(capacities(3, 3, 1, 1.0), 0, np.arange(3))
