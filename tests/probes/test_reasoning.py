"""Are steps, kinds and causes put together right, for MAC's steps and for M4C's answers?"""

import math
from dataclasses import replace

import pytest
import torch

from lit_attn.data.scenes.asking import ScenesQuestions
from lit_attn.data.scenes.reading_data import QUESTION_KINDS as READING_KINDS
from lit_attn.data.scenes.reading_data import ScenesReading
from lit_attn.models.m4c import M4C, read_back
from lit_attn.models.mac import Mac
from lit_attn.nn.tape import AttentionRecord, AttentionTape, Site
from lit_attn.probes.reading import ReadingAttention
from lit_attn.probes.reasoning import Reasoning
from lit_attn.types import QUESTION_KINDS


@pytest.fixture(scope="module")
def asked():
    data = ScenesQuestions(val_scenes=5, questions_per_scene=7, side=5, grid_dim=13, eval_batch_size=5)
    (batch,) = data.val_dataloader()
    net = Mac(vocab_size=data.vocab_size, num_answers=data.num_answers, grid_dim=13, dim=6, word_dim=7, steps=3)
    return batch.map(_double), net.double().eval()


@pytest.fixture(scope="module")
def read():
    data = ScenesReading(val_questions=17, region_dim=13, eval_batch_size=17)
    (batch,) = data.val_dataloader()
    net = M4C(
        vocab_size=data.vocab_size, num_answers=data.num_answers, region_dim=13, word_vector_dim=data.word_vector_dim,
        dim=6, num_heads=3, hidden=11, layers=2, text_layers=1, max_steps=data.max_steps,
    )  # fmt: skip
    net = net.double().eval()
    batch = batch.map(_double)
    tokens = net.answer(batch)
    tokens[::2, 1] = 2  # some answers end after one word
    return read_back(batch, tokens), net


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def heard(net, batch, probe, *inputs):
    found = {}
    with AttentionTape(net) as tape:
        net(*inputs)
    for record in tape:
        metrics = found.setdefault(record.site.name, probe.metrics(record.site))
        if metrics:
            probe.update(metrics, record, batch)
    return tape, found


def entropy(row: list[float]) -> float:
    return -sum(w * math.log(w) for w in row if w > 0)


def test_steps_of_mac_against_a_loop(asked):
    batch, net = asked
    tape, found = heard(net, batch, Reasoning(), batch.grid, batch.tokens, batch.token_mask, batch.owner)
    assert set(found) == {"control", "read"}
    assert set(found["control"]) == {"step_entropy"}
    groups = ("all", *QUESTION_KINDS)
    for step in range(3):
        read, control = tape["read"][step].weights[:, 0, 0], tape["control"][step].weights[:, 0, 0]
        for g, group in enumerate(groups):
            own = [i for i in range(len(batch)) if group in ("all", batch.kind[i])]
            caused = [i for i in own if batch.causes[i].any()]
            expected = {
                "step_entropy": [entropy(read[i].tolist()) / math.log(25) for i in own],
                "cause_mass": [read[i][batch.causes[i]].sum().item() for i in caused],
                "cause_mass_chance": [batch.causes[i].double().mean().item() for i in caused],
                "cause_pointing": [float(batch.causes[i, read[i].argmax()]) for i in caused],
                "cause_pointing_chance": [batch.causes[i].double().mean().item() for i in caused],
            }
            assert set(expected) == set(found["read"])
            for name, values in expected.items():
                metric = found["read"][name]
                assert metric.count[step, g, 0] == len(values)
                assert metric.compute()[step, g, 0].item() == pytest.approx(sum(values) / len(values), abs=1e-12), name
            words = [entropy(control[i].tolist()) / math.log(len(batch.words[i])) for i in own]
            assert found["control"]["step_entropy"].compute()[step, g, 0].item() == pytest.approx(
                sum(words) / len(words), abs=1e-12
            )


def test_what_is_asked_about_matters_and_questions_without_causes_are_left_out(asked):
    batch, _ = asked
    site = Site("read", "steps", "cells", calls=3)
    probe = Reasoning()
    perfect = batch.causes.double() / batch.causes.sum(-1, keepdim=True).clamp_min(1)
    weights = perfect[:, None, None]
    everything = torch.ones(len(batch), 1, dtype=torch.bool)
    record = AttentionRecord(
        site, 4, weights, everything, everything[:, None].expand(-1, 1, 25), weights.transpose(2, 3), weights[..., :1]
    )
    metrics = probe.metrics(site)
    probe.update(metrics, record, batch)
    assert metrics["cause_mass"].compute()[1, 0, 0].item() == pytest.approx(1), "call 4 of 3 steps is step 1"
    assert metrics["cause_pointing"].compute()[1, 0, 0].item() == pytest.approx(1)
    assert metrics["cause_mass"].count[:, 0, 0].tolist() == [0, batch.causes.any(-1).sum(), 0]


def test_data_without_causes_give_entropy_alone(asked):
    batch, net = asked
    blind = replace(batch, causes=None)
    _, found = heard(net, blind, Reasoning(), blind.grid, blind.tokens, blind.token_mask, blind.owner)
    assert found["read"]["cause_mass"].count.sum() == 0
    assert found["read"]["step_entropy"].count.sum() > 0


def test_rows_of_an_answer_against_a_loop(read):
    batch, net = read
    steps = 3
    tape, found = heard(net, batch, ReadingAttention(READING_KINDS, steps), batch)
    assert not found["text.0.self"]
    words, objects, tokens = batch.tokens.shape[1], batch.regions.shape[1], batch.ocr_mask.shape[1]
    ends = [words, words + objects, words + objects + tokens]
    for layer in (0, 1):
        (record,) = tape[f"joint.{layer}.self"]
        expected: dict[tuple[str, int, str, int], list[float]] = {}
        for b in range(len(batch)):
            for s in range(steps):
                if not batch.step_mask[b, s]:
                    continue
                for h in range(3):
                    row = record.weights[b, h, ends[2] + s]
                    for name, value in slow_row(row, ends, batch, b, s).items():
                        for group in {"all", batch.kind[b]}:
                            expected.setdefault((name, s, group, h), []).append(value)
        metrics = found[record.site.name]
        assert {name for name, *_ in expected} == set(metrics)
        counted = 0
        for name, metric in metrics.items():
            for s in range(steps):
                for g, group in enumerate(metric.groups):
                    for h in range(3):
                        own = expected.get((name, s, group, h), [])
                        assert metric.count[s, g, h] == len(own), (name, s, group)
                        if own:
                            counted += 1
                            assert metric.compute()[s, g, h].item() == pytest.approx(sum(own) / len(own), abs=1e-12), (
                                name
                            )
        assert counted > 100


def slow_row(row, ends, batch, b, s) -> dict[str, float]:
    """All that is said about one row of one answer."""
    split = {
        "question_mass": row[: ends[0]], "objects_mass": row[ends[0] : ends[1]], "ocr_mass": row[ends[1] : ends[2]],
        "decoded_mass": row[ends[2] :],
    }  # fmt: skip
    values = {name: part.sum().item() for name, part in split.items()}
    assert sum(values.values()) == pytest.approx(1)
    allowed = int(batch.token_mask[b].sum() + batch.region_mask[b].sum() + batch.ocr_mask[b].sum()) + s + 1
    values["step_entropy"] = entropy(row.tolist()) / math.log(allowed)
    seen = row[ends[0] : ends[2]]
    right = torch.cat([batch.region_causes[b], batch.ocr_causes[b]])
    if right.any():
        pictured = int(batch.region_mask[b].sum() + batch.ocr_mask[b].sum())
        values["cause_mass"] = seen[right].sum().item()
        values["cause_mass_chance"] = right.sum().item() / allowed
        values["cause_pointing"] = float(right[seen.argmax()])
        values["cause_pointing_chance"] = right.sum().item() / pictured
    begun = [i for i in range(len(batch.ocr_words[b])) if batch.targets[b, 0, i - batch.ocr_mask.shape[1]] > 0]
    if s == 0 and begun:
        ranked = sorted(range(len(batch.ocr_words[b])), key=lambda i: -row[ends[1] + i].item())
        values["ocr_rank"] = 1.0 + min(ranked.index(i) for i in begun)
        values["ocr_rank_chance"] = (len(ranked) + 1) / (len(begun) + 1)
    return values


def test_pictures_without_ocr_tokens_have_no_rank(read):
    batch, net = read
    none = batch.ocr_mask[:, :0]
    silent = replace(
        batch, ocr_mask=none, ocr_vectors=batch.ocr_vectors[:, :0], ocr_phoc=batch.ocr_phoc[:, :0],
        ocr_boxes=batch.ocr_boxes[:, :0], ocr_regions=batch.ocr_regions[:, :0], ocr_causes=none,
        targets=batch.targets[..., : -batch.ocr_mask.shape[1]], previous=batch.previous.clamp_max(1),
    )  # fmt: skip
    _, found = heard(net, silent, ReadingAttention(), silent)
    metrics = found["joint.0.self"]
    assert metrics["ocr_rank"].count.sum() == 0
    assert metrics["ocr_mass"].compute()[0, 0].tolist() == [0, 0, 0]
