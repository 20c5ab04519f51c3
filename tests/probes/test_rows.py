"""Do probes of single rows say what a slow reader would?"""

import math

import pytest
import torch

from lit_attn.nn.tape import AttentionRecord, Site
from lit_attn.ops.normalize import masked_softmax
from lit_attn.probes.concentration import Concentration
from lit_attn.probes.grounding import Grounding, Linked
from lit_attn.probes.rows import chosen, chosen_rows, existing
from lit_attn.types import CaptionBatch

B, H, Q, K = 5, 3, 7, 11


def batch(seed: int):
    torch.manual_seed(seed)
    key_mask = torch.rand(B, 1, K) < 0.7
    key_mask[:, :, 0] = True
    query_mask = torch.rand(B, Q) < 0.8
    weights = masked_softmax(torch.randn(B, H, Q, K, dtype=torch.float64) * 2, key_mask[:, None].expand(B, H, Q, K))
    gold = (torch.rand(B, Q, K) < 0.2) & key_mask & query_mask[..., None]
    return weights, query_mask, key_mask, gold


def loop(value) -> list[float]:
    """Mean per head over rows of three batches; `value` sees one row and says None to leave it out."""
    sums, counts = [0.0] * H, [0] * H
    for seed in range(3):
        weights, query_mask, key_mask, gold = batch(seed)
        for b in range(B):
            for h in range(H):
                for q in range(Q):
                    found = value(weights[b, :, q], h, bool(query_mask[b, q]), key_mask[b, 0], gold[b, q])
                    if found is not None:
                        sums[h] += found
                        counts[h] += 1
    return [s / n for s, n in zip(sums, counts, strict=True)]


def entropy(row) -> float:
    return -sum(w * math.log(w) for w in row.tolist() if w > 0)


def divergence(heads, h) -> float:
    others = [g for g in range(H) if g != h]
    total = sum(entropy((heads[h] + heads[g]) / 2) - (entropy(heads[h]) + entropy(heads[g])) / 2 for g in others)
    return total / len(others) / math.log(2)


SLOW = {
    "entropy": lambda w, h, real, keys, gold: entropy(w[h]) / math.log(keys.sum()) if real and keys.sum() > 1 else None,
    "entropy_nats": lambda w, h, real, keys, gold: entropy(w[h]) if real else None,
    "effective_keys": lambda w, h, real, keys, gold: math.exp(entropy(w[h])) if real else None,
    "largest_weight": lambda w, h, real, keys, gold: w[h].max().item() if real else None,
    "padding_mass": lambda w, h, real, keys, gold: sum(w[h][~keys].tolist()) if real else None,
    "head_diversity": lambda w, h, real, keys, gold: divergence(w, h) if real else None,
    "grounding_mass": lambda w, h, real, keys, gold: w[h][gold].sum().item() if gold.any() else None,
    "pointing_accuracy": lambda w, h, real, keys, gold: float(gold[w[h].argmax()]) if gold.any() else None,
    "grounding_chance": lambda w, h, real, keys, gold: gold.sum().item() / keys.sum().item() if gold.any() else None,
}  # fmt: skip


def made(weights, query_mask, key_mask) -> AttentionRecord:
    value = torch.zeros(len(weights), H, K, 1, dtype=torch.float64)
    return AttentionRecord(
        Site("match", "words", "regions", H), 0, weights, query_mask, key_mask, value, weights @ value
    )


def record_of(seed: int, leak: float = 0.0) -> AttentionRecord:
    weights, query_mask, key_mask, _ = batch(seed)
    weights = weights + leak * ~key_mask.unsqueeze(1)
    return made(weights, query_mask, key_mask)


def means(metrics) -> dict[str, torch.Tensor]:
    return {name: row for m in metrics.values() for name, row in zip(m.names, m.compute(), strict=True)}


def same(found, name: str) -> None:
    torch.testing.assert_close(found[name], torch.tensor(loop(SLOW[name]), dtype=torch.float64), rtol=0, atol=1e-12)


def test_concentration_equals_a_loop_over_rows():
    probe = Concentration()
    metrics = probe.metrics(record_of(0).site)
    for seed in range(3):
        probe.update(metrics, record_of(seed), None)
    for name in ("entropy", "entropy_nats", "effective_keys", "largest_weight", "padding_mass", "head_diversity"):
        same(means(metrics), name)


def test_concentration_is_the_same_with_rows_that_all_exist():
    """Then no row is copied."""
    record, probe = record_of(0), Concentration()
    rows = [b * Q + q for b in range(B) for q in range(Q) if record.query_mask[b, q]]
    kept = record.weights.transpose(1, 2).reshape(B * Q, H, 1, K)[rows]
    mask = record.key_mask.expand(B, Q, K).reshape(B * Q, 1, K)[rows]
    whole = made(kept, torch.ones(len(rows), 1, dtype=torch.bool), mask)
    one, other = probe.metrics(record.site), probe.metrics(record.site)
    probe.update(one, record, None)
    probe.update(other, whole, None)
    for name, row in means(one).items():
        torch.testing.assert_close(row, means(other)[name], rtol=0, atol=1e-12)


def test_an_empty_row_has_no_entropy_in_nats_no_effective_keys_and_no_largest_weight():
    """A head that is muted attends to nothing."""
    record, probe = record_of(0), Concentration()
    weights = record.weights.clone()
    weights[:, 1] = 0
    metrics = probe.metrics(record.site)
    probe.update(metrics, made(weights, record.query_mask, record.key_mask), None)
    rows = record.query_mask.sum().item()
    for name, counts in zip(metrics["rows"].names, metrics["rows"].count.tolist(), strict=True):
        silent = name in ("entropy_nats", "effective_keys", "largest_weight")
        assert counts[1] == (0 if silent else counts[0]), name
        assert counts[0] == counts[2] == (rows if name != "entropy" else counts[0]), name


def test_padding_mass_sees_a_leak():
    probe = Concentration()
    metrics, record = probe.metrics(record_of(0).site), record_of(0, leak=0.25)
    probe.update(metrics, record, None)
    hidden = (~record.key_mask.expand(B, Q, K))[record.query_mask].sum(-1).double().mean()
    torch.testing.assert_close(means(metrics)["padding_mass"], (hidden / 4).expand(H), rtol=0, atol=1e-12)


def linked(monkeypatch, gold) -> CaptionBatch:
    """A batch with these links."""
    rows = gold.any(-1)
    monkeypatch.setattr(Grounding, "_kept", lambda *_: Linked(chosen(rows, H), gold[rows].unsqueeze(0)))
    return CaptionBatch.__new__(CaptionBatch)


def test_grounding_equals_a_loop_over_rows(monkeypatch):
    probe = Grounding()
    metrics = probe.metrics(record_of(0).site)
    for seed in range(3):
        probe.update(metrics, record_of(seed), linked(monkeypatch, batch(seed)[3]))
    found = means(metrics)
    for name in ("grounding_mass", "pointing_accuracy", "grounding_chance"):
        same(found, name)
    assert found["pointing_chance"].tolist() == found["naming_chance"].tolist() == found["grounding_chance"].tolist()


def test_even_attention_scores_chance(monkeypatch):
    _, query_mask, key_mask, gold = batch(0)
    even = (key_mask / key_mask.sum(-1, keepdim=True))[:, None].expand(B, H, Q, K).double()
    record, probe = made(even, query_mask, key_mask), Grounding()
    metrics = probe.metrics(record.site)
    probe.update(metrics, record, linked(monkeypatch, gold))
    found = means(metrics)
    for name in ("grounding_mass", "pointing_accuracy"):
        assert found[name].tolist() == pytest.approx(found["grounding_chance"].tolist(), abs=1e-7)


@pytest.mark.parametrize("by_row", [True, False], ids=["a mask per row", "one mask for all rows"])
def test_chosen_rows_are_those_of_a_mask(by_row):
    record = record_of(0)
    if by_row:
        record = made(record.weights, record.query_mask, torch.rand(B, Q, K) < 0.5)
    found = chosen_rows(record, chosen(record.query_mask, H))
    assert torch.equal(found.weights[0].transpose(0, 1), record.weights.transpose(1, 2)[record.query_mask])
    assert torch.equal(found.allowed[0], record.key_mask.expand(B, Q, K)[record.query_mask])


def test_rows_that_exist_follow_a_mask_that_is_written_over():
    """A network may use one tensor for the masks of all batches."""
    record = record_of(0)
    assert torch.equal(existing(record).row, record.query_mask.flatten().nonzero()[:, 0])
    assert existing(record) is existing(made(record.weights, record.query_mask.clone(), record.key_mask)), "known"
    record.query_mask[2] = ~record.query_mask[2]
    assert torch.equal(existing(record).row, record.query_mask.flatten().nonzero()[:, 0])
    record.query_mask[:] = True
    assert existing(record) is None
