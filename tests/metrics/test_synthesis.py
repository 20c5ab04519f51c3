"""Do batches, their order and the number of processes leave the scores of generated pictures alone?"""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from lit_attn.errors import UserError
from lit_attn.metrics.synthesis import DistractorPool, FrechetDistance, InceptionScore, RPrecision
from lit_attn.ops.synthesis import drawn, frechet_distance, inception_score

REAL, FAKE, F, K, D = 23, 19, 5, 7, 3
POOL, CLASSES, DISTRACTORS = 41, 11, 13


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


REAL_FEATURES, FAKE_FEATURES = 2 * numbers(REAL, F), 1 + numbers(FAKE, F, seed=1)
PROBABILITIES = numbers(FAKE, K, seed=2).mul(2).softmax(-1)
IDS = torch.randperm(FAKE, generator=torch.Generator().manual_seed(3)) * 5
IMAGES, SENTENCES = numbers(FAKE, D, seed=4), numbers(FAKE, D, seed=4) + numbers(FAKE, D, seed=5)
CLASS_OF, IMAGE_OF = IDS % CLASSES, IDS
CAPTIONS = DistractorPool(numbers(POOL, D, seed=6), torch.arange(POOL) % CLASSES, torch.arange(POOL) // 2)


def fill(metrics, shard: slice) -> None:
    distance, score, precision = metrics
    distance.update(REAL_FEATURES[shard], real=True)
    distance.update(FAKE_FEATURES[shard], real=False)
    score.update(PROBABILITIES[shard], IDS[shard])
    codes = (IMAGES[shard], SENTENCES[shard], IDS[shard], CLASS_OF[shard], IMAGE_OF[shard])
    precision.update(*codes, CAPTIONS)


def fresh():
    return FrechetDistance(F), InceptionScore(4), RPrecision(DISTRACTORS, 4, seed=9)


def whole():
    metrics = fresh()
    fill(metrics, slice(None))
    return [metric.compute() for metric in metrics]


def agree(one, other) -> None:
    assert one[0][1:] == other[0][1:] == (REAL, FAKE)
    assert one[0].value == pytest.approx(other[0].value, abs=1e-9)
    for a, b in zip(one[1:], other[1:], strict=True):
        assert a == pytest.approx(b, abs=1e-12)
        assert a.pictures == b.pictures == FAKE


def test_distance_is_that_of_the_moments_of_both_sets():
    (found, *_) = whole()
    sides = [(torch.from_numpy(f.numpy().mean(0)), f.T.cov()) for f in (REAL_FEATURES, FAKE_FEATURES)]
    assert found.value == pytest.approx(frechet_distance(*sides[0], *sides[1]), abs=1e-9)
    assert found.value > 1


def test_pictures_are_split_by_id_not_by_arrival():
    found = whole()[1]
    by_id = PROBABILITIES[IDS.argsort()]
    assert (found.mean, found.std) == pytest.approx(inception_score(by_id, 4), abs=1e-12)
    assert found.mean != pytest.approx(inception_score(PROBABILITIES, 4).mean, abs=1e-6)


def test_precision_against_a_loop_over_pictures_and_captions():
    found = whole()[2]
    hits = {}
    for i in range(FAKE):
        allowed = [
            int(CAPTIONS.class_id[j]) != int(CLASS_OF[i]) and int(CAPTIONS.image_id[j]) != int(IMAGE_OF[i])
            for j in range(POOL)
        ]
        chosen = drawn(np.array([allowed]), IDS[i : i + 1].numpy(), DISTRACTORS, 9)[0]
        cosines = [cosine(IMAGES[i], CAPTIONS.sentence[j]) for j in chosen]
        hits[int(IDS[i])] = cosine(IMAGES[i], SENTENCES[i]) > max(cosines)
    ordered = [hits[i] for i in sorted(hits)]
    folds = [ordered[i * FAKE // 4 : (i + 1) * FAKE // 4] for i in range(4)]
    assert 0 < sum(ordered) < FAKE
    assert found.mean == pytest.approx(sum(ordered) / FAKE)
    assert found.std == pytest.approx(np.std([sum(fold) / len(fold) for fold in folds]))


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    dot = sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))
    return dot / math.sqrt(sum(a * a for a in one.tolist()) * sum(b * b for b in other.tolist()))


@pytest.mark.parametrize("cuts", [(0, 9, 23), (0, 0, 2, 11, 23)])
def test_batches_of_any_size_in_any_order_give_the_same(cuts):
    metrics = fresh()
    for start, end in reversed(list(pairwise(cuts))):
        fill(metrics, slice(start, end))
    agree([metric.compute() for metric in metrics], whole())


def test_pools_larger_than_one_piece_are_drawn_from_as_a_whole(monkeypatch):
    expected = whole()
    monkeypatch.setattr("lit_attn.metrics.synthesis.CELLS_AT_ONCE", 2 * POOL)
    agree(whole(), expected)


def test_sums_stay_in_float64():
    metric = FrechetDistance(F).half()
    metric.update(REAL_FEATURES.float(), real=True)
    assert metric.products.dtype == torch.float64
    torch.testing.assert_close(metric.total[0], REAL_FEATURES.float().double().sum(0))


def test_a_set_is_at_no_distance_from_itself():
    for rows in (1, 2, REAL):
        metric = FrechetDistance(F)
        metric.update(REAL_FEATURES[:rows], real=True)
        metric.update(REAL_FEATURES[:rows], real=False)
        assert metric.compute() == pytest.approx((0, rows, rows), abs=1e-9)


def no_pictures() -> tuple:
    return IMAGES[:0], SENTENCES[:0], IDS[:0], CLASS_OF[:0], IMAGE_OF[:0], CAPTIONS


def test_one_picture_and_none_at_all():
    distance, score, precision = fresh()
    for empty in (score, precision):
        empty.update(*([PROBABILITIES[:0], IDS[:0]] if empty is score else no_pictures()))
        assert empty.compute().pictures == 0
        assert math.isnan(empty.compute().mean)
    fill((distance, score, precision), slice(0, 1))
    assert distance.compute().value == pytest.approx(float((REAL_FEATURES[0] - FAKE_FEATURES[0]).square().sum()))
    assert score.compute() == pytest.approx((1, 0, 1))
    assert precision.compute().pictures == 1
    distance.reset()
    distance.update(REAL_FEATURES, real=True)
    assert distance.compute()[1:] == (REAL, 0)
    assert math.isnan(distance.compute().value)


def test_a_tie_is_no_hit_whatever_the_rounding():
    """Some wrong captions say the same as the right one; read in another batch they differ in the last digits."""
    image, wrong = torch.ones(1, D), -torch.ones(POOL, D)
    for other, expected in ((wrong[0], 1.0), (torch.ones(D) - 1e-7, 0.0), (torch.ones(D), 0.0)):
        pool = DistractorPool(torch.cat([wrong[1:], other[None]]), torch.arange(POOL) + 1, torch.arange(POOL) + 1)
        metric = RPrecision(POOL)
        metric.update(image, image, torch.tensor([3]), torch.tensor([0]), torch.tensor([0]), pool)
        assert metric.compute().mean == expected


def test_too_few_candidates_are_counted_and_the_option_is_named():
    metric = RPrecision(99)
    with pytest.raises(UserError, match="distractors=99 .* caption 5 has only 40 to draw from. Lower distractors"):
        metric.update(
            torch.ones(1, D), torch.ones(1, D), torch.tensor([5]), torch.tensor([0]), torch.tensor([0]),
            DistractorPool(CAPTIONS.sentence, torch.arange(POOL), torch.arange(POOL)),
        )  # fmt: skip
    with pytest.raises(UserError, match="distractors=0"):
        RPrecision(0)
    with pytest.raises(UserError, match="folds=0"):
        RPrecision(folds=0)
    with pytest.raises(UserError, match="splits=0"):
        InceptionScore(0)


def run(rank: int, world_size: int, file: str, expected: list) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world_size)
    for sharing in (2, 3):
        metrics = fresh()
        if rank < sharing:
            fill(metrics, slice(rank, None, sharing))
        agree([metric.compute() for metric in metrics], expected)
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_processes_count_every_picture_once_even_if_one_has_none(tmp_path):
    mp.spawn(run, (3, str(tmp_path / "meet"), whole()), nprocs=3)
