"""Is MAC trained by its rule, judged by the average of its weights, and kept so that both go on?"""

import json
from collections import Counter
from dataclasses import replace

import lightning as L
import pytest
import torch

from lit_attn.checkpoint import read_weights, transfer
from lit_attn.data.questions import QuestionData
from lit_attn.data.scenes import asking
from lit_attn.data.scenes.asking import ScenesQuestions
from lit_attn.errors import UserError
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.tape import AttentionTape
from lit_attn.ops.loss import cross_entropy_with_set
from lit_attn.run.checkpoint_io import SafeCheckpointIO, load_checkpoint
from lit_attn.run.precision import BatchDoublePrecision
from lit_attn.tasks.answering import Answering
from lit_attn.tasks.averaging import KEY, WeightAverage
from lit_attn.types import QUESTION_KINDS

TINY = {"dim": 10, "word_dim": 7, "steps": 2, "lr": 1e-2, "average": 0.7}
DECAY = 0.7
DRY = dict.fromkeys([f"{part}_dropout" for part in ("grid", "word", "question", "memory", "read", "output")], 0.0)
"""No chance in training."""


def scenes(**options) -> ScenesQuestions:
    sizes = {"train_scenes": 6, "val_scenes": 5, "test_scenes": 3, "questions_per_scene": 3, "side": 5, "grid_dim": 11,
             "batch_size": 3, "eval_batch_size": 2}  # fmt: skip
    return ScenesQuestions(**(sizes | options))


def tiny(data: QuestionData, **options) -> Answering:
    torch.manual_seed(3)
    return Answering(data.vocab_size, data.num_answers, data.grid_dim, **(TINY | options))


def trainer(tmp_path, *callbacks, **options) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
             "num_sanity_val_steps": 0, "max_epochs": 2, "limit_val_batches": 0}  # fmt: skip
    plugins = [SafeCheckpointIO(), BatchDoublePrecision()]
    return L.Trainer(
        default_root_dir=tmp_path, enable_checkpointing=False, callbacks=list(callbacks), plugins=plugins,
        **(quiet | options),
    )  # fmt: skip


def weights(task: Answering) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in task.named_parameters()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Listen(L.Callback):
    """Weights after every step, and the rate of every step."""

    def __init__(self) -> None:
        self.weights, self.rates, self.losses, self.sizes = [], [], [], []

    def on_train_start(self, trainer, pl_module):
        self.weights.append(weights(pl_module))

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.weights.append(weights(pl_module))
        self.losses.append(float(outputs["loss"]))
        self.sizes.append(len(batch))


# The average.


def slow_average(steps: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    average = steps[0]
    for now in steps[1:]:
        average = {name: DECAY * average[name] + (1 - DECAY) * now[name] for name in now}
    return average


@pytest.fixture
def trained(tmp_path):
    """A task after two epochs of two steps, what was seen of it, and its checkpoint."""
    data, listen = scenes(), Listen()
    task, run = tiny(data, **DRY).double(), trainer(tmp_path, listen)
    run.fit(task, data)
    run.save_checkpoint(tmp_path / "x.ckpt")
    return task, listen, tmp_path / "x.ckpt"


def test_a_checkpoint_holds_the_average_and_beside_it_the_training_weights(trained):
    task, listen, path = trained
    assert len(listen.weights) == 5
    checkpoint = load_checkpoint(path)
    for name, value in slow_average(listen.weights).items():
        torch.testing.assert_close(checkpoint["state_dict"][name], value, rtol=0, atol=1e-12)
        assert not torch.equal(checkpoint["state_dict"][name], checkpoint[KEY][name]), name
    assert same(checkpoint[KEY], listen.weights[-1])
    assert same(weights(task), listen.weights[-1]), "saving changes nothing"


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_a_checkpoint_is_evaluated_by_its_average(trained, tmp_path, verb):
    _, _, path = trained
    data = scenes()
    fresh, run = tiny(data, lr=0.5).double(), trainer(tmp_path, limit_val_batches=1.0)
    getattr(run, verb)(fresh, datamodule=data, ckpt_path=path)
    assert same(weights(fresh), {k: v for k, v in load_checkpoint(path)["state_dict"].items() if k in weights(fresh)})


def test_weights_for_others_are_the_average(trained):
    _, listen, path = trained
    fresh = tiny(scenes()).double()
    transfer(read_weights(path), fresh, strict=True)
    for name, value in slow_average(listen.weights).items():
        torch.testing.assert_close(weights(fresh)[name], value, rtol=0, atol=1e-12)


def test_evaluating_after_training_uses_the_average_or_the_checkpoint_that_is_named(trained, tmp_path):
    """The task in memory has gone on since that checkpoint."""
    task, _, path = trained
    data, seen = scenes(), []

    class Look(L.Callback):
        def on_test_batch_start(self, trainer, pl_module, *_):
            seen.append(weights(pl_module))

    before = weights(task)
    trainer(tmp_path, Look()).test(task, datamodule=data)
    average = {k: v for k, v in load_checkpoint(path)["state_dict"].items() if k in before}
    assert same(seen[-1], average)
    assert same(weights(task), before), "training weights are back"
    trainer(tmp_path, max_epochs=3).fit(task, scenes())
    trainer(tmp_path, Look()).test(task, datamodule=data, ckpt_path=path)
    assert same(seen[-1], average)


def test_training_goes_on_from_the_training_weights(trained, tmp_path):
    _, _, path = trained
    listen = Listen()
    trainer(tmp_path, listen, max_epochs=4).fit(tiny(scenes(), **DRY).double(), scenes())
    resumed, after = tiny(scenes(), **DRY).double(), Listen()
    run = trainer(tmp_path, after, max_epochs=4)
    run.fit(resumed, scenes(), ckpt_path=path)
    assert len(after.losses) == 4
    for name, value in listen.weights[-1].items():
        assert torch.equal(value, weights(resumed)[name]), name
    run.save_checkpoint(tmp_path / "y.ckpt")
    average = slow_average(listen.weights)
    for name, value in average.items():
        torch.testing.assert_close(load_checkpoint(tmp_path / "y.ckpt")["state_dict"][name], value, rtol=0, atol=1e-12)


def test_validation_inside_training_sees_the_average_and_leaves_the_weights(tmp_path):
    listen = Listen()
    seen: list[dict[str, torch.Tensor]] = []
    left: list[dict[str, torch.Tensor]] = []

    class Look(L.Callback):
        def on_validation_batch_start(self, trainer, pl_module, *_):
            seen.append(weights(pl_module))

        def on_validation_end(self, trainer, pl_module):
            left.append(weights(pl_module))

    run = trainer(tmp_path, listen, Look(), limit_val_batches=1.0, max_epochs=1)
    run.fit(tiny(scenes()).double(), scenes())
    assert len(seen) == 3
    for name, value in slow_average(listen.weights).items():
        torch.testing.assert_close(seen[0][name], value, rtol=0, atol=1e-12)
    assert same(left[0], listen.weights[-1])


def test_a_validation_that_fails_gives_the_weights_back(tmp_path):
    listen, inside = Listen(), []

    class Fail(L.Callback):
        def on_validation_batch_end(self, trainer, pl_module, *_):
            inside.append(weights(pl_module))
            trainer.save_checkpoint(tmp_path / "inside.ckpt")
            raise RuntimeError("in the middle")

    task = tiny(scenes()).double()
    with pytest.raises(RuntimeError, match="in the middle"):
        trainer(tmp_path, listen, Fail(), limit_val_batches=1.0).fit(task, scenes())
    assert not same(inside[0], listen.weights[-1]), "it failed while the average was shown"
    assert same(weights(task), listen.weights[-1])
    checkpoint = load_checkpoint(tmp_path / "inside.ckpt")
    assert same(checkpoint[KEY], listen.weights[-1])
    assert same({name: checkpoint["state_dict"][name] for name in inside[0]}, inside[0])


def test_without_decay_there_is_no_average(tmp_path):
    data = scenes()
    task, run = tiny(data, average=0.0).double(), trainer(tmp_path, limit_val_batches=1.0)
    run.fit(task, data)
    run.save_checkpoint(tmp_path / "x.ckpt")
    checkpoint = load_checkpoint(tmp_path / "x.ckpt")
    assert KEY not in checkpoint
    assert same({n: checkpoint["state_dict"][n] for n in weights(task)}, weights(task))


def test_showing_twice_is_showing_once():
    module = torch.nn.Linear(3, 2)
    average = WeightAverage(module, 0.5)
    before = module.weight.detach().clone()
    with torch.no_grad():
        module.weight += 1
    average.update()
    average.show()
    average.show()
    torch.testing.assert_close(module.weight.detach(), before + 0.5)
    average.hide()
    average.hide()
    torch.testing.assert_close(module.weight.detach(), before + 1)


# The learning rate.

LOSSES = [0.45, 0.44, 0.40, 0.395, 0.394, 0.393, 0.14, 0.139, 0.09, 0.0895, 0.089]
RATES = [1e-4, 1e-4, 5e-5, 5e-5, 2.5e-5, 1.25e-5, 1.25e-5, 1.25e-5, 6.25e-6, 6.25e-6, 3.125e-6]
"""By hand from the published rule: in each epoch, the rate that the losses of all epochs before it leave."""


def dictate(task: Answering, monkeypatch, losses: list[float]) -> Answering:
    left = iter(losses)
    monkeypatch.setattr(task.train_loss, "compute", lambda: torch.tensor(next(left), dtype=torch.float64))
    return task


def test_the_rate_follows_the_loss_from_the_first_step_of_an_epoch(tmp_path, monkeypatch):
    listen, data = Listen(), scenes()
    task = dictate(tiny(data, lr=1e-4), monkeypatch, LOSSES)
    trainer(tmp_path, listen, max_epochs=len(LOSSES)).fit(task, data)
    assert listen.rates == pytest.approx([rate for rate in RATES for _ in range(2)], rel=1e-12)


@pytest.mark.parametrize("epochs", [1, 4, 8])
def test_a_resumed_run_keeps_rate_and_loss(tmp_path, monkeypatch, epochs):
    first = trainer(tmp_path, max_epochs=epochs)
    first.fit(dictate(tiny(scenes(), lr=1e-4), monkeypatch, LOSSES), scenes())
    first.save_checkpoint(tmp_path / "x.ckpt")
    listen, task = Listen(), dictate(tiny(scenes(), lr=1e-4), monkeypatch, LOSSES[epochs:])
    trainer(tmp_path, listen, max_epochs=len(LOSSES)).fit(task, scenes(), ckpt_path=tmp_path / "x.ckpt")
    assert listen.rates == pytest.approx([rate for rate in RATES[epochs:] for _ in range(2)], rel=1e-12)


def test_a_checkpoint_inside_an_epoch_keeps_the_loss_so_far(tmp_path, monkeypatch):
    """Batches differ in size: the mean is over questions."""
    whole = asking.questions
    monkeypatch.setattr(asking, "questions", lambda scene, *_, **__: whole(scene, 1 + scene.index % 3))

    class Save(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 2:
                trainer.save_checkpoint(tmp_path / "x.ckpt")

    listen, data = Listen(), scenes(train_scenes=7, batch_size=2)
    task = tiny(data).double()
    trainer(tmp_path, listen, Save()).fit(task, data)
    assert len(set(listen.sizes)) > 1
    by_hand = sum(a * b for a, b in zip(listen.losses[3:], listen.sizes[3:], strict=True)) / sum(listen.sizes[3:])
    assert task.loss_before == pytest.approx(by_hand, rel=1e-12)
    first = sum(a * b for a, b in zip(listen.losses[:2], listen.sizes[:2], strict=True))
    assert load_checkpoint(tmp_path / "x.ckpt")["progress"]["loss"] == pytest.approx((first, sum(listen.sizes[:2])))


def test_the_rate_warms_up_and_may_fall_by_a_cosine():
    task = tiny(scenes(), warmup=4, lr_rule="cosine")
    shares = [task._share_of_rate(done, 8) for done in (0, 1, 2, 3, 4, 6, 8)]
    cosine = [1.0, 0.9619397662556434, 0.8535533905932737, 0.6913417161825449, 0.5, 0.1464466094067262, 0.0]
    rising = [0.25, 0.5, 0.75, 1, 1, 1, 1]
    assert shares == pytest.approx([a * b for a, b in zip(cosine, rising, strict=True)], abs=1e-12)


def test_a_cosine_without_end_is_refused(tmp_path):
    with pytest.raises(UserError, match="max_epochs"):
        trainer(tmp_path, max_epochs=-1).fit(tiny(scenes(), lr_rule="cosine"), scenes())


# Scores.


def test_scores_are_shares_of_right_answers_by_kind_beside_those_of_the_majority(tmp_path):
    data, task = scenes(), tiny(scenes()).double()
    run = trainer(tmp_path, limit_val_batches=1.0)
    (found,) = run.validate(task, datamodule=data, verbose=False)
    right, count, loss, truths = Counter(), Counter(), 0.0, {kind: Counter() for kind in QUESTION_KINDS}
    task.eval()
    for batch in data.val_dataloader():
        scores = task(batch.map(lambda t: t.double() if t.is_floating_point() else t)).detach()
        for i, kind in enumerate(batch.kind):
            truth = int(batch.answer[i])
            count.update(("", kind))
            right.update(dict.fromkeys(("", kind), int(int(scores[i].argmax()) == truth)))
            truths[kind][truth] += 1
            loss -= float(scores[i].log_softmax(-1)[truth])
    assert found["val/loss"] == pytest.approx(loss / count[""], rel=1e-9)
    assert found["val/accuracy"] == pytest.approx(right[""] / count[""])
    most = {kind: max(counted.values()) for kind, counted in truths.items() if counted}
    assert found["val/majority_accuracy"] == pytest.approx(sum(most.values()) / count[""])
    for kind in QUESTION_KINDS:
        assert (f"val/accuracy_{kind}" in found) == (kind in most)
        if kind in most:
            assert found[f"val/accuracy_{kind}"] == pytest.approx(right[kind] / count[kind])
            assert found[f"val/majority_accuracy_{kind}"] == pytest.approx(most[kind] / count[kind])


def test_a_part_of_the_data_is_not_compared_with_the_majority_of_all(tmp_path):
    task, data = tiny(scenes()), scenes()
    run = trainer(tmp_path, limit_val_batches=1, limit_test_batches=1)
    (found,) = run.validate(task, datamodule=data, verbose=False)
    assert not any("rival" in name for name in found)
    (found,) = run.test(task, datamodule=data, verbose=False)
    assert not any("rival" in name for name in found)


def test_predictions_are_written_in_the_order_of_questions(tmp_path):
    data, task = scenes(), tiny(scenes()).double()
    trainer(tmp_path).predict(task, datamodule=data)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    expected = []
    task.eval()
    for batch in data.predict_dataloader():
        shares = task(batch.map(lambda t: t.double() if t.is_floating_point() else t)).detach().softmax(-1)
        expected += [
            {
                "question_id": int(batch.question_id[i]),
                "question": " ".join(batch.words[i]),
                "picture": batch.picture_name[int(batch.owner[i])],
                "answer": data.answers[int(shares[i].argmax())],
                "probability": pytest.approx(float(shares[i].max()), rel=1e-9),
                "truth": data.answers[int(batch.answer[i])],
            }
            for i in range(len(batch))
        ]
    assert rows == expected
    assert [row["question_id"] for row in rows] == sorted(row["question_id"] for row in rows)


# Settings.


@pytest.mark.parametrize("name", ALIGNMENTS)
@pytest.mark.parametrize("options", [{}, {"paper_code": True, "self_attention": True, "memory_gate": True}])
def test_every_alignment_trains_and_no_parameter_is_left_out(tmp_path, name, options):
    data = scenes()
    task = tiny(data, alignment=name, **options)
    unused: list[str] = []

    class Look(L.Callback):
        def on_after_backward(self, trainer, pl_module):
            unused.extend(name for name, p in pl_module.named_parameters() if p.grad is None)

    run = trainer(tmp_path, Look(), max_epochs=1)
    run.fit(task, data)
    assert run.global_step == 2
    assert not unused
    assert torch.isfinite(torch.tensor([float(p.detach().abs().sum()) for p in task.parameters()])).all()


def test_all_alignments_are_models_of_their_own():
    data = scenes()
    described = [tiny(data, alignment=name).net.describe() for name in ALIGNMENTS]
    assert [one.name for one in described] == list(ALIGNMENTS)
    assert [one.equivalence for one in described] == list(ALIGNMENTS)
    square, bias = 10 * 10, 10
    general = [square] * 2 + [square + bias] * 3
    assert [one.parameters for one in described] == [0, 0, 0, *general]


def test_paper_code_gives_the_control_unit_the_same_function_with_swapped_operands():
    data = scenes()
    net = tiny(data, alignment="biased_key", paper_code=True).net
    assert type(net.cell.control.alignment) is type(net.cell.read.alignment) is ALIGNMENTS["biased_key"]
    assert net.cell.control.swapped
    assert net.describe().equivalence == "biased_key (control: biased_key, swapped)"
    assert net.describe().parameters == 2 * (10 * 10 + 10)
    plain = tiny(data, alignment="biased_key").net.cell.control
    assert type(plain.alignment) is ALIGNMENTS["dot"]
    assert not plain.swapped
    with pytest.raises(UserError, match="leave out control_alignment='activated'"):
        tiny(data, alignment="biased_key", paper_code=True, control_alignment="activated")


def test_read_alignment_wins_over_alignment():
    net = tiny(scenes(), alignment="dot", read_alignment="cosine", control_alignment="general_key").net
    assert net.describe().name == "cosine"
    assert type(net.cell.control.alignment) is ALIGNMENTS["general_key"]


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_impossible_decays_are_named(decay):
    with pytest.raises(UserError, match=f"got {decay}"):
        tiny(scenes(), average=decay)


def test_other_words_and_other_answers_are_refused(trained, tmp_path):
    _, _, path = trained

    class OtherAnswers(ScenesQuestions):
        answers = tuple(reversed(ScenesQuestions().answers))

    class OtherWords(ScenesQuestions):
        vocabulary = type(ScenesQuestions().vocabulary)(ScenesQuestions().vocabulary.words[:-1])

    sizes = {"val_scenes": 2, "questions_per_scene": 3, "side": 5, "grid_dim": 11}
    for data, says in ((OtherAnswers(**sizes), "answers of the data"), (OtherWords(**sizes), "question words")):
        with pytest.raises(UserError, match=f"The {says}.*not those this checkpoint was trained with"):
            trainer(tmp_path).validate(tiny(scenes()).double(), datamodule=data, ckpt_path=path)


def test_a_guide_adds_its_loss_and_needs_known_causes(tmp_path):
    data = scenes()
    task = tiny(data, guide=0.5, average=0.0, **DRY)
    batch = next(iter(data.train_dataloader()))
    with AttentionTape(task.net, "read") as tape:
        scores = task(batch)
    reads = tape["read"][1].weights[:, 0, 0]
    misled = [-reads[i, cells].log().mean() for i, cells in enumerate(batch.spokesmen) if cells.any()]
    expected = torch.nn.functional.cross_entropy(scores, batch.answer) + 0.5 * torch.stack(misled).mean()
    logged = {}
    task.log = lambda name, value, **rest: logged.update({name: float(value)})
    task._trainer = type("T", (), {"optimizers": [type("O", (), {"param_groups": [{"lr": 1.0}]})()]})()
    loss = task.training_step(batch, 0)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert logged["train/loss"] == pytest.approx(
        torch.nn.functional.cross_entropy(scores, batch.answer).item(), rel=1e-5
    )
    loss.backward()
    assert task.net.cell.read.logits.weight.grad.abs().sum() > 0
    with pytest.raises(UserError, match="guide needs data"):
        task.training_step(replace(batch, spokesmen=None), 0)


def test_a_guide_may_leave_a_share_to_the_rest():
    data = scenes()
    task = tiny(data, guide=0.5, guide_rest=0.5, average=0.0, **DRY)
    batch = next(iter(data.train_dataloader()))
    _, misled = task._guided(batch)
    with AttentionTape(task.net, "read") as tape:
        task(batch)
    reads = tape["read"][1].weights[:, 0, 0]
    assert misled.item() == pytest.approx(cross_entropy_with_set(reads, batch.spokesmen, 0.5).item(), rel=1e-6)
    assert misled.item() != pytest.approx(cross_entropy_with_set(reads, batch.spokesmen).item(), rel=1e-4)
    with pytest.raises(UserError, match="guide_rest .* must not be negative, got -1"):
        tiny(data, guide_rest=-1)
