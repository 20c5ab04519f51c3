"""Is rollout the published one, whole or by row, whatever the padding, and is a decoder's bias corrected?"""

import pytest
import torch

from lit_attn.attribution.rollout import head_rollout, rollout, rollout_row
from lit_attn.errors import UserError
from tests.reference import attribution as slow
from tests.reference.attribution import one_stream, random_weights

FILE = "attribution/rollout.npz"
CASES = (
    "small", "mid", "deep", "causal", "peaked", "single_layer", "uniform_causal", "nonstochastic", "pad_rows_attend",
    "pad_rows_zero",
)  # fmt: skip


def stack(arrays, case, **options):
    """Golden layers with a batch of one; masks are what the weights show."""
    weights = arrays[f"{case}/att"].unsqueeze(1)
    if case.startswith("pad"):
        seen = (weights[0] > 0).any(2).any(1)  # 1 n
        options["mask"] = seen
    return one_stream(weights, strict_rows=False, **options)


@pytest.mark.parametrize("case", CASES)
def test_every_layer_equals_the_original(golden, case):
    arrays = golden(FILE)
    heard = stack(arrays, case)
    for name, residual in (("rollout_res", True), ("rollout_nores", False)):
        found, expected = rollout(heard, residual=residual)[:, 0], arrays[f"{case}/{name}"]
        real = heard.layout.mask[0]
        torch.testing.assert_close(found[:, real][..., real], expected[:, real][..., real], rtol=0, atol=1e-12)


def test_padded_rows_stay_themselves(golden):
    arrays = golden(FILE)
    found = rollout(stack(arrays, "pad_rows_attend"))[-1, 0]
    pads = ~stack(arrays, "pad_rows_attend").layout.mask[0]
    assert pads.any()
    assert torch.equal(found[pads], torch.eye(len(found), dtype=torch.float64)[pads])


def test_starting_higher_equals_the_original(golden):
    arrays = golden(FILE)
    heard = stack(arrays, "mid")
    for name, normalize in (("start_layer_rollout_res", True), ("start_layer_rollout_unnormalised", False)):
        for start, expected in enumerate(arrays[f"mid/{name}"]):
            found = rollout(heard, start=start, normalize=normalize)[-1, 0]
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rollout(heard)[:, 0].amax(-2), arrays["mid/sst_rollout"], rtol=0, atol=1e-12)


def test_single_heads_equal_the_original(golden):
    arrays = golden(FILE)
    heard = stack(arrays, "small")
    for group, expected in enumerate(arrays["small/perhead_rollout_res"]):
        torch.testing.assert_close(head_rollout(heard, group)[:, 0], expected, rtol=0, atol=1e-12)


def test_rollout_equals_loops_over_numbers():
    weights = random_weights(3, 1, 2, 7, 7)
    found = rollout(one_stream(weights))[:, 0]
    torch.testing.assert_close(found, slow.rollout(weights[:, 0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", ["none", "ratio", "column"])
def test_one_row_is_a_row_of_the_whole(dtype, causal):
    allowed = torch.ones(11, 11, dtype=torch.bool).tril()
    weights = random_weights(5, 3, 2, 11, 11, mask=allowed).to(dtype)
    heard = one_stream(weights, row=(7, 0, 10), key_mask=allowed.expand(3, -1, -1))
    row = rollout_row(heard, causal=causal)
    assert row.dtype == dtype
    whole = rollout(heard, causal=causal)[-1]
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(row, heard.target_row(whole), rtol=0, atol=tolerance)
    torch.testing.assert_close(row.sum(-1), torch.ones(3, dtype=dtype), rtol=0, atol=10 * tolerance)


def test_padding_changes_nothing():
    mask = torch.arange(11) < torch.tensor([11, 5, 2])[:, None]
    weights = random_weights(5, 3, 2, 11, 11, mask=mask[:, None, None])
    found = rollout(one_stream(weights, mask=mask))
    for sample, length in enumerate((11, 5, 2)):
        alone = rollout(one_stream(weights[:, sample : sample + 1, :, :length, :length]))
        torch.testing.assert_close(found[:, sample, :length, :length], alone[:, 0], rtol=0, atol=1e-14)


def uniform(n: int, layers: int):
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    weights = allowed.double() / allowed.sum(-1, keepdim=True)
    return one_stream(weights.expand(layers, 1, 1, n, n), row=n - 1, key_mask=allowed.unsqueeze(0))


def test_uniform_causal_attention_is_flat_after_correction():
    heard = uniform(12, 6)
    plain = rollout_row(heard)[0]
    assert plain[0] == pytest.approx(0.454, abs=1e-3)
    flat = rollout(heard, causal="ratio")[-1, 0]
    for i, row in enumerate(flat):
        torch.testing.assert_close(row[: i + 1], torch.full((i + 1,), 1 / (i + 1), dtype=torch.float64))
    column = rollout_row(heard, causal="column")[0]
    assert column.max() == pytest.approx(0.145, abs=1e-3)
    assert column.min() == pytest.approx(0.064, abs=1e-3)


def test_a_causal_mask_without_correction_is_told(caplog):
    rollout_row(uniform(5, 2), causal="ratio")
    assert not caplog.records
    rollout_row(uniform(5, 2))
    assert "'0', '1' is causal" in caplog.text
    caplog.clear()
    mask = torch.arange(5) < torch.tensor([[3]])
    rollout_row(one_stream(random_weights(2, 1, 1, 5, 5, mask=mask), mask=mask))
    assert not caplog.records, "padding is not causality"


def test_a_start_outside_the_plan_is_refused():
    with pytest.raises(UserError, match="groups 0 to 2"):
        rollout(one_stream(random_weights(3, 1, 1, 5, 5)), start=3)
