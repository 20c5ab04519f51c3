"""Are words found in the picture where a slow reader finds them?"""

import math
from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from lit_attn.models.attngan import Generator
from lit_attn.nn.tape import AttentionRecord, AttentionTape, Site
from lit_attn.probes.painting import WordsInPicture, at_positions
from lit_attn.types import SynthesisBatch

B, T, SIDE, CELLS = 5, 7, 11, 3
SITE = Site("stage.2.words", "pixels", "words", num_heads=2)


def batch(words: int = T, cells: int = CELLS) -> SynthesisBatch:
    chance = torch.Generator().manual_seed(4)
    lengths = torch.tensor([words, 1, 3, 2, words - 1])
    mask = torch.arange(words) < lengths[:, None]
    where = torch.rand(B, words, cells, cells, generator=chance) < 0.3
    where[:, 1] = False  # a word about nothing
    return SynthesisBatch(
        caption_id=torch.arange(B),
        image_id=torch.arange(B),
        tokens=torch.ones(B, words, dtype=torch.long),
        token_mask=mask,
        class_id=torch.arange(B),
        words=tuple(tuple(f"w{i}" for i in range(n)) for n in lengths.tolist()),
        word_cells=where,
    )


def heard(weights: torch.Tensor, samples: SynthesisBatch, site: Site = SITE) -> AttentionRecord:
    queries = torch.ones(len(weights), weights.shape[2], dtype=torch.bool)
    context = torch.zeros(*weights.shape[:3], 1, dtype=weights.dtype)
    value = torch.zeros(*weights.shape[:2], weights.shape[3], 1, dtype=weights.dtype)
    return AttentionRecord(site, 0, weights, queries, samples.token_mask.unsqueeze(1), value, context)


def attention(samples: SynthesisBatch, side: int = SIDE, heads: int = 2) -> torch.Tensor:
    chance = torch.Generator().manual_seed(8)
    scores = 2 * torch.randn(B, heads, side * side, samples.tokens.shape[1], generator=chance, dtype=torch.float64)
    return scores.masked_fill(~samples.token_mask[:, None, None], -math.inf).softmax(-1)


def slow(weights: torch.Tensor, samples: SynthesisBatch, head: int) -> dict[str, list[float]]:
    """All rows of all metrics, by loops."""
    found = defaultdict(list)
    positions = weights.shape[2]
    side = math.isqrt(positions)
    for b in range(B):
        words = [t for t in range(T) if samples.token_mask[b, t]]
        strongest = set()
        for q in range(positions):
            row = [weights[b, head, q, t].item() for t in words]
            if len(words) > 1:
                found["word_entropy"].append(-sum(w * math.log(w) for w in row) / math.log(len(words)))
            strongest.add(words[row.index(max(row))])
        found["word_coverage"].append(len(strongest) / len(words))
        found["word_coverage_chance"].append(1 - (1 - 1 / len(words)) ** positions)
        for t in words:
            inside, total, right, best, pointed = 0.0, 0.0, 0, -1.0, []
            for y in range(side):
                for x in range(side):
                    weight = weights[b, head, y * side + x, t].item()
                    cell = samples.word_cells[b, t, int((y + 0.5) * CELLS / side), int((x + 0.5) * CELLS / side)].item()
                    total += weight
                    inside += weight * cell
                    right += cell
                    if weight > best:
                        best, pointed = weight, []
                    if weight == best:  # everywhere, for the only word of a caption
                        pointed.append(cell)
            if samples.word_cells[b, t].any():
                found["word_mass"].append(inside / total)
                found["word_pointing"].append(sum(pointed) / len(pointed))
                found["word_mass_chance"].append(right / positions)
                found["word_pointing_chance"].append(right / positions)
    return found


def test_all_values_against_loops():
    samples, probe = batch(), WordsInPicture()
    weights = attention(samples)
    metrics = probe.metrics(SITE)
    probe.update(metrics, heard(weights, samples), samples)
    for head in range(2):
        expected = slow(weights, samples, head)
        assert set(expected) == set(metrics)
        for name, rows in expected.items():
            assert metrics[name].count[0, head] == len(rows), name
            assert metrics[name].compute()[0][head].item() == pytest.approx(sum(rows) / len(rows), abs=1e-12), name
    assert 0 < expected["word_pointing"].count(1.0) < len(expected["word_pointing"])


def test_batches_add_up():
    samples, probe = batch(), WordsInPicture()
    weights = attention(samples)
    at_once, apart = probe.metrics(SITE), probe.metrics(SITE)
    probe.update(at_once, heard(weights, samples), samples)
    for rows in (slice(0, 2), slice(2, 5)):
        share = SynthesisBatch(
            **{
                name: value[rows] if isinstance(value, torch.Tensor | tuple) else value
                for name, value in vars(samples).items()
            }
        )
        probe.update(apart, heard(weights[rows], share), share)
    for name, metric in at_once.items():
        torch.testing.assert_close(apart[name].compute()[0], metric.compute()[0], rtol=0, atol=1e-12)


def test_perfect_and_even_maps():
    samples, probe = batch(), WordsInPicture()
    perfect = at_positions(samples.word_cells, SIDE * SIDE).transpose(1, 2).double().unsqueeze(1).expand(-1, 2, -1, -1)
    perfect = perfect * samples.token_mask[:, None, None]
    metrics = probe.metrics(SITE)
    probe.update(metrics, heard(perfect, samples), samples)
    assert metrics["word_mass"].compute()[0].tolist() == pytest.approx([1, 1])
    assert metrics["word_pointing"].compute()[0].tolist() == pytest.approx([1, 1])
    even = (
        samples.token_mask[:, None, None].double().expand(-1, 2, SIDE * SIDE, -1)
        / samples.token_mask.sum(-1)[:, None, None, None]
    )
    metrics = probe.metrics(SITE)
    probe.update(metrics, heard(even, samples), samples)
    for name in ("word_mass", "word_pointing"):
        torch.testing.assert_close(metrics[name].compute()[0], metrics[f"{name}_chance"].compute()[0])
    assert metrics["word_entropy"].compute()[0].tolist() == pytest.approx([1, 1])
    assert metrics["word_coverage"].compute()[0].tolist() == [1, 1], "all are the strongest alike"


def test_words_without_weight_or_without_a_place_are_left_out():
    samples, probe = batch(), WordsInPicture()
    weights = torch.zeros(B, 2, SIDE * SIDE, T, dtype=torch.float64)
    weights[..., 0] = 1  # every position looks at the first word
    metrics = probe.metrics(SITE)
    probe.update(metrics, heard(weights, samples), samples)
    placed = int(samples.word_cells[:, 0].flatten(1).any(-1).sum())
    assert placed > 0
    assert metrics["word_mass"].count[0].tolist() == [placed, placed]
    assert metrics["word_mass_chance"].count[0].tolist() == [placed, placed]
    lengths = samples.token_mask.sum(-1)
    assert metrics["word_coverage"].compute()[0, 0].item() == pytest.approx((1 / lengths).mean().item())


def test_data_that_do_not_know_what_lies_where_say_nothing_about_places():
    samples, probe = replace(batch(), word_cells=None), WordsInPicture()
    metrics = probe.metrics(SITE)
    probe.update(metrics, heard(attention(samples), samples), samples)
    assert metrics["word_entropy"].count[0, 0] > 0
    assert metrics["word_mass"].count.sum() == 0


def test_other_sites_are_no_concern():
    assert WordsInPicture().metrics(Site("decoder.0.cross", "words", "regions")) == {}


def test_cells_are_the_nearest_and_maps_must_be_square():
    cells = torch.arange(9).view(1, 1, 3, 3) % 2 == 0
    large = at_positions(cells, 49).view(7, 7)
    for y in range(7):
        for x in range(7):
            assert large[y, x] == cells[0, 0, int((y + 0.5) * 3 / 7), int((x + 0.5) * 3 / 7)]
    assert at_positions(cells, 1).tolist() == [[[True]]], "a smaller map takes the cell in its middle"
    with pytest.raises(ValueError, match="12 positions"):
        at_positions(cells, 12)


def test_every_stage_of_the_generator_is_measured():
    samples = batch(cells=4)
    torch.manual_seed(0)
    net = Generator(text_dim=6, z_dim=3, condition_dim=2, width=2, sides=(8, 16, 32), residuals=1).double().eval()
    probe, found = WordsInPicture(), {}
    with AttentionTape(net) as tape, torch.no_grad():
        net(torch.randn(B, 6).double(), torch.randn(B, T, 6).double(), samples.token_mask, torch.randn(B, 3).double())
    for record in tape:
        found[record.site.name] = probe.metrics(record.site)
        probe.update(found[record.site.name], record, samples)
    assert set(found) == {"stage.2.words", "stage.3.words"}
    several = int((samples.token_mask.sum(-1) > 1).sum())
    assert found["stage.2.words"]["word_entropy"].count[0].tolist() == [several * 8 * 8]
    assert found["stage.3.words"]["word_entropy"].count[0].tolist() == [several * 16 * 16]
