"""Are questions counted once each, in total and by kind, over any number of processes?"""

import math

import pytest
import torch
import torch.multiprocessing as mp

from lit_attn.errors import UserError
from lit_attn.metrics.answers import AnswerScores
from lit_attn.ops.answers import accuracy, anls

KINDS = ("word", "color", "kind")
PREDICTIONS = ["tea", "cofee", "red", "blue", "box", "sign", "milk"]
ANSWERS = [
    ["tea"] * 10,
    ["coffee"] * 9 + ["tea"],
    ["red"],
    ["green"] * 4,
    ["a box", "box"],
    ["sign."] * 2,
    ["Milk"] * 3,
]
ASKED_FOR = ["word", "word", "color", "color", "kind", "kind", ""]


def expected(kind: str | None) -> tuple[float, float]:
    own = [i for i, asked_for in enumerate(ASKED_FOR) if kind is None or asked_for == kind]
    judged = [(accuracy(PREDICTIONS[i], ANSWERS[i]), anls(PREDICTIONS[i], ANSWERS[i])) for i in own]
    return sum(a for a, _ in judged) / len(own), sum(s for _, s in judged) / len(own)


def check(scores: dict[str, torch.Tensor]) -> None:
    for kind in (None, *KINDS):
        name = "" if kind is None else f"/{kind}"
        found = scores[f"accuracy{name}"].item(), scores[f"anls{name}"].item()
        assert found == pytest.approx(expected(kind), abs=1e-12)


def test_batches_of_any_size_give_the_means_over_all():
    metric = AnswerScores(KINDS)
    for part in (slice(0, 2), slice(2, 2), slice(2, 7)):
        metric.update(PREDICTIONS[part], ANSWERS[part], ASKED_FOR[part])
    check(metric.compute())
    assert metric.totals.dtype == torch.float64
    assert metric.half().totals.dtype == torch.float64


def test_without_kinds_there_are_two_scores():
    metric = AnswerScores()
    metric.update(PREDICTIONS, ANSWERS)
    assert list(metric.compute()) == ["accuracy", "anls"]
    assert metric.compute()["accuracy"].item() == pytest.approx(expected(None)[0], abs=1e-12)


def test_a_kind_without_questions_is_nan():
    metric = AnswerScores(KINDS)
    metric.update(["tea"], [["tea"]], ["word"])
    assert math.isnan(metric.compute()["anls/color"])
    assert metric.compute()["accuracy/word"] == 1.0


def test_nothing_is_nan_and_reset_forgets():
    metric = AnswerScores()
    metric.update(["tea"], [["tea"]])
    metric.reset()
    assert math.isnan(metric.compute()["accuracy"])


def test_questions_without_answers_are_named():
    with pytest.raises(UserError, match="'tea' has no answers to be scored against. Use predict"):
        AnswerScores().update(["tea"], [[]])


def run(rank: int, world_size: int, file: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world_size)
    metric = AnswerScores(KINDS)
    metric.update(PREDICTIONS[rank::world_size], ANSWERS[rank::world_size], ASKED_FOR[rank::world_size])
    check(metric.compute())
    torch.distributed.destroy_process_group()


def test_two_processes_count_every_question_once(tmp_path):
    mp.spawn(run, (2, str(tmp_path / "meet")), nprocs=2)
