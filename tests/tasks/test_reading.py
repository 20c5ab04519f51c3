"""Is M4C trained at its rates, scored by its own answers, and kept with all that its weights need?"""

import json
import logging

import lightning as L
import pytest
import torch
from transformers import BertConfig, BertModel

from lit_attn.data.answer_words import AnswerWords
from lit_attn.data.scenes.reading_data import QUESTION_KINDS, ScenesReading
from lit_attn.errors import UserError
from lit_attn.models.m4c import END
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.tape import AttentionTape
from lit_attn.ops.answers import accuracy, anls
from lit_attn.run.checkpoint_io import SafeCheckpointIO, load_checkpoint
from lit_attn.run.precision import BatchDoublePrecision
from lit_attn.tasks.reading import Reading

TINY = {"dim": 12, "num_heads": 2, "hidden": 17, "layers": 2, "text_layers": 1, "legacy_zeros": 3, "lr": 1e-2,
        "warmup": 3}  # fmt: skip


def scenes(**options) -> ScenesReading:
    sizes = {"train_questions": 6, "val_questions": 7, "test_questions": 5, "region_dim": 11, "max_objects": 13,
             "max_steps": 3, "batch_size": 3, "eval_batch_size": 3}  # fmt: skip
    return ScenesReading(**(sizes | options))


def tiny(data: ScenesReading, **options) -> Reading:
    torch.manual_seed(5)
    return Reading(
        data.vocab_size, data.num_answers, data.region_dim, data.word_vector_dim, data.max_steps, **(TINY | options)
    )


def trainer(tmp_path, *callbacks, **options) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
             "num_sanity_val_steps": 0, "max_epochs": 1, "limit_val_batches": 0}  # fmt: skip
    plugins = [SafeCheckpointIO(), BatchDoublePrecision()]
    return L.Trainer(
        default_root_dir=tmp_path, enable_checkpointing=False, callbacks=list(callbacks), plugins=plugins,
        **(quiet | options),
    )  # fmt: skip


def in_double(batch):
    return batch.map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


# The learning rate.


@pytest.mark.parametrize(
    ("done", "share"),
    [
        (0, 0.2),
        (1, 0.2008),
        (500, 0.6),
        (999, 0.9992),
        (1000, 1),
        (13999, 1),
        (14000, 0.1),
        (18999, 0.1),
        (19000, 0.01),
    ],
)
def test_the_rate_rises_from_a_fifth_and_falls_twice(done, share):
    task = tiny(scenes(), warmup=1000, lr_steps=[19000, 14000])
    assert task._share_of_rate(done) == pytest.approx(share, rel=1e-12)


def test_no_warming_up_starts_at_the_whole_rate():
    assert tiny(scenes(), warmup=0)._share_of_rate(0) == 1


def test_what_comes_from_other_models_learns_at_a_tenth(tmp_path):
    rates = []

    class Listen(L.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            rates.append([group["lr"] for group in trainer.optimizers[0].param_groups])

    task, data = tiny(scenes(), fc7_dim=5, warmup=4, lr_steps=[5, 7]), scenes()
    run = trainer(tmp_path, Listen(), max_epochs=4)
    run.fit(task, data)
    shares = [0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1, 0.01]
    assert rates == [pytest.approx([1e-2 * share, 1e-3 * share], rel=1e-12) for share in shares]
    fast, slow = (group["params"] for group in run.optimizers[0].param_groups)
    fc7 = [*task.net.object_fc7.parameters(), *task.net.ocr_fc7.parameters()]
    assert {id(p) for p in slow} == {id(p) for p in fc7}
    assert len(fast) + len(slow) == len(list(task.parameters()))


def test_a_resumed_run_goes_on_at_its_rate(tmp_path):
    rates = []

    class Listen(L.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    first = trainer(tmp_path, max_epochs=1)
    first.fit(tiny(scenes(), warmup=4), scenes())
    first.save_checkpoint(tmp_path / "x.ckpt")
    trainer(tmp_path, Listen(), max_epochs=3).fit(tiny(scenes(), warmup=4), scenes(), ckpt_path=tmp_path / "x.ckpt")
    assert rates == pytest.approx([6e-3, 8e-3, 1e-2, 1e-2], rel=1e-12)


# Scores.


def test_scores_are_those_of_the_models_own_answers(tmp_path):
    data, task = scenes(), tiny(scenes()).double()
    run = trainer(tmp_path, limit_val_batches=1.0)
    (found,) = run.validate(task, datamodule=data, verbose=False)
    task.eval()
    losses, steps, scored = 0.0, 0, []
    for batch in map(in_double, data.val_dataloader()):
        scores = task(batch).detach()
        for i, j in batch.step_mask.nonzero().tolist():
            real = torch.isfinite(scores[i, j])
            share, truth = scores[i, j][real].sigmoid(), batch.targets[i, j][real]
            losses -= float((truth * share.log() + (1 - truth) * (1 - share).log()).sum())
            steps += 1
        for ids, own, people, kind in zip(
            task.net.answer(batch).tolist(), batch.ocr_words, batch.answers, batch.kind, strict=True
        ):
            text = data.answer_words.decode(ids, own)
            scored.append((kind, accuracy(text, people), anls(text, people)))
    assert found["val/loss"] == pytest.approx(losses / steps, rel=1e-9)
    for kind in ("", *QUESTION_KINDS):
        own = [one for one in scored if kind in ("", one[0])]
        end = f"_{kind}" if kind else ""
        assert (f"val/accuracy{end}" in found) == bool(own), "a kind that is not asked has no score"
        if own:
            assert found[f"val/accuracy{end}"] == pytest.approx(sum(one[1] for one in own) / len(own), abs=1e-12)
            assert found[f"val/anls{end}"] == pytest.approx(sum(one[2] for one in own) / len(own), abs=1e-12)
    assert found["val/ceiling_accuracy"] == data.reference_scores("val")["ceiling_accuracy"]


def test_a_kind_that_nobody_asks_for_has_no_score(tmp_path):
    data = scenes(val_questions=1)
    (found,) = trainer(tmp_path, limit_val_batches=1.0).validate(tiny(data), datamodule=data, verbose=False)
    assert sum(name.startswith("val/accuracy_") for name in found) == 1
    assert all(value == value for value in found.values())


def test_predictions_are_written_in_the_order_of_questions(tmp_path):
    data, task = scenes(), tiny(scenes()).double()
    trainer(tmp_path).predict(task, datamodule=data)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    task.eval()
    expected = [
        {
            "question_id": int(batch.question_id[i]),
            "question": " ".join(batch.words[i][1:-1]),
            "picture": batch.picture_name[i],
            "answer": data.answer_words.decode(task.net.answer(batch)[i].tolist(), batch.ocr_words[i]),
            "answers": list(batch.answers[i]),
        }
        for batch in map(in_double, data.predict_dataloader())
        for i in range(len(batch))
    ]
    assert len(rows) == 5
    assert rows == expected


def test_a_tape_hears_one_pass_over_the_models_own_answers(tmp_path, monkeypatch):
    """As many queries as an answer has steps, its end among them; neither the search nor what is taught is heard."""
    data, task = scenes(val_questions=3), tiny(scenes()).double()
    written = torch.tensor([[END, 4, 5], [4, END, 5], [4, 5, 6]])
    monkeypatch.setattr(task.net, "answer", lambda _: written)
    heard = []

    class Hear(L.Callback):
        def on_validation_batch_start(self, trainer, pl_module, *_):
            self.tape = AttentionTape(pl_module.net, "joint.1.self").__enter__()

        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.tape.__exit__(None, None, None)
            heard.append(list(self.tape.records))

    trainer(tmp_path, Hear(), limit_val_batches=1.0).validate(task, datamodule=data, verbose=False)
    ((record,),) = heard
    assert record.query_mask[:, -data.max_steps :].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


# Settings.


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_every_alignment_trains_and_no_parameter_is_left_out(tmp_path, name):
    data, unused = scenes(), []

    class Look(L.Callback):
        def on_after_backward(self, trainer, pl_module):
            unused.extend(name for name, p in pl_module.named_parameters() if p.grad is None)

    task = tiny(data, alignment=name, fc7_dim=5)
    run = trainer(tmp_path, Look())
    run.fit(task, data)
    assert run.global_step == 2
    assert not unused
    assert torch.isfinite(torch.tensor([float(p.detach().abs().sum()) for p in task.parameters()])).all()


def test_which_alignments_are_one_model():
    data = scenes()
    described = {name: tiny(data, alignment=name).net.describe() for name in ALIGNMENTS}
    rows: dict[str, list[str]] = {}
    for name, one in described.items():
        rows.setdefault(one.equivalence, []).append(name)
    assert sorted(rows.values()) == [
        ["activated"], ["biased_query"], ["cosine"], ["dot"], ["general_query", "general_key", "biased_key"],
        ["scaled_dot"],
    ]  # fmt: skip
    assert described["general_key"].parameters == 2 * 6 * 6
    assert described["biased_query"].parameters == 2 * (6 * 6 + 6)


def test_random_weights_of_the_question_encoder_are_said_aloud_unless_others_are_loaded(tmp_path, caplog):
    data = scenes()
    task = tiny(data)
    with caplog.at_level(logging.WARNING, logger="lit_attn"):
        trainer(tmp_path, max_steps=1).fit(task, datamodule=data)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "starts from random weights" in caplog.text
    caplog.clear()
    other = Reading(**dict(task.hparams))
    other.load_state_dict(task.state_dict())
    with caplog.at_level(logging.WARNING, logger="lit_attn"):
        trainer(tmp_path, max_steps=1).fit(other, datamodule=data)
    assert "random weights" not in caplog.text


def test_weights_can_be_used_without_the_folder_of_the_question_encoder(tmp_path):
    data = scenes()
    config = BertConfig(vocab_size=data.vocab_size, hidden_size=10, num_hidden_layers=2, num_attention_heads=5,
                        intermediate_size=7, max_position_embeddings=41, layer_norm_eps=1e-7)  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "bert")
    task = tiny(data, text_weights=str(tmp_path / "bert")).double()
    kept = dict(task.hparams)
    assert kept["text_weights"] is None
    json.dumps(kept)
    other = Reading(**kept).double()
    other.load_state_dict(task.state_dict(), strict=True)
    batch = in_double(next(iter(data.val_dataloader())))
    torch.testing.assert_close(other.eval()(batch), task.eval()(batch), rtol=0, atol=0)
    assert task.net.fine_tuned()
    assert not other.net.fine_tuned()


def test_other_words_and_other_answer_words_are_refused(tmp_path):
    run = trainer(tmp_path)
    run.fit(tiny(scenes()), scenes())
    run.save_checkpoint(tmp_path / "x.ckpt")
    checkpoint = load_checkpoint(tmp_path / "x.ckpt")
    assert checkpoint["answers"] == list(scenes().answer_words.words)
    assert checkpoint["words"] == list(scenes().vocabulary.words)

    class OtherAnswers(ScenesReading):
        answer_words = AnswerWords((*scenes().answer_words.words[:-1], "other"))

    sizes = {"val_questions": 3, "region_dim": 11, "max_objects": 13, "max_steps": 3}
    for data, says in ((OtherAnswers(**sizes), "answers of the data"), (scenes(seed=8), "question words")):
        with pytest.raises(UserError, match=f"The {says}.*not those this checkpoint was trained with"):
            trainer(tmp_path).validate(tiny(scenes()), datamodule=data, ckpt_path=tmp_path / "x.ckpt")


def test_words_of_another_world_can_come_from_the_weights(tmp_path):
    run = trainer(tmp_path)
    run.fit(tiny(scenes()), scenes())
    run.save_checkpoint(tmp_path / "x.ckpt")
    data = scenes(seed=8, vocabulary=str(tmp_path / "x.ckpt"))
    assert data.vocabulary.words == scenes().vocabulary.words != scenes(seed=8).vocabulary.words
    trainer(tmp_path, limit_val_batches=1.0).validate(
        tiny(scenes()), datamodule=data, ckpt_path=tmp_path / "x.ckpt", verbose=False
    )
