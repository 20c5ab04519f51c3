"""Is the judge of pictures trained on what they show, scored by counts, and toughened by worse pictures?"""

import json
from dataclasses import replace

import lightning as L
import pytest
import torch
import torch.nn.functional as F

from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.data.synthesis import collate
from lit_attn.errors import UserError
from lit_attn.run.checkpoint_io import SafeCheckpointIO
from lit_attn.tasks.classifying import Classifying, roughened

COLORS = 11


def scenes(**options) -> ScenesPictures:
    sizes = {"train_scenes": 8, "val_scenes": 7, "test_scenes": 5, "side": 32, "batch_size": 4, "eval_batch_size": 3}
    return ScenesPictures(**(sizes | options))


def trainer(tmp_path, **options) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
             "num_sanity_val_steps": 0, "enable_checkpointing": False, "max_epochs": 1}  # fmt: skip
    return L.Trainer(default_root_dir=tmp_path, plugins=[SafeCheckpointIO()], **(quiet | options))


def task(**options) -> Classifying:
    torch.manual_seed(1)
    return Classifying(**options)


def seeing_some() -> Classifying:
    """Untrained, but for it some kinds are there and some are not."""
    judge = task()
    with torch.no_grad():
        judge.net.absent.bias.copy_(torch.linspace(-9, -4, 36))
    return judge


def test_the_loss_counts_things_that_are_there_absent_kinds_a_little_and_the_largest():
    judge = task(absent_weight=0.2).eval()
    data = scenes()
    batch = collate([data.dataset("val")[i] for i in range(3)])
    found = judge(batch.image)
    total, there = torch.tensor(0.0), 0
    for i in range(3):
        for kind in range(36):
            look = int(batch.looks[i, kind])
            there += look < COLORS
            total = total - (1.0 if look < COLORS else 0.2) * found.looks[i, kind].log_softmax(0)[look]
    main = -sum(found.main[i].log_softmax(0)[batch.main_thing[i]] for i in range(3)) / 3
    torch.testing.assert_close(judge.loss(found, batch.looks, batch.main_thing), total / there + main)


@pytest.mark.parametrize("stage", ["val", "test"])
def test_scores_are_those_of_the_whole_set_counted_slowly(tmp_path, stage):
    judge, data = seeing_some(), scenes()
    run = trainer(tmp_path)
    (scores,) = run.validate(judge, data, verbose=False) if stage == "val" else run.test(judge, data, verbose=False)
    dataset = data.dataset(stage)
    batch = collate([dataset[i] for i in range(len(dataset))])
    judge.eval()
    with torch.no_grad():
        found = judge(batch.image)
    right = there = both = seen = main = 0
    for i in range(len(dataset)):
        main += int(found.main[i].argmax()) == int(batch.main_thing[i])
        for kind in range(36):
            look = int(batch.looks[i, kind])
            told = int(found.looks[i, kind].argmax()) < COLORS
            seen += told
            if look < COLORS:
                there += 1
                both += told
                right += int(found.looks[i, kind, :COLORS].argmax()) == look
    assert 0 < both < there, "the test needs both"
    assert scores[f"{stage}/accuracy_main"] == pytest.approx(main / len(dataset))
    assert scores[f"{stage}/accuracy_color"] == pytest.approx(right / there)
    precision, recall = both / seen, both / there
    assert scores[f"{stage}/f1_present"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_training_learns_a_handful_of_pictures(tmp_path):
    data = scenes(train_scenes=8, val_scenes=1)
    judge = task(roughness=0.0, lr=5e-3)
    batch = collate([data.dataset("train")[i] for i in range(8)])
    before = float(judge.loss(judge(batch.image), batch.looks, batch.main_thing).detach())
    trainer(tmp_path, max_epochs=25, limit_val_batches=0).fit(judge, data)
    judge.train()
    after = float(judge.loss(judge(batch.image), batch.looks, batch.main_thing).detach())
    assert after < before / 3
    assert (judge(batch.image).main.argmax(1) == batch.main_thing).all()


def test_pictures_get_worse_by_chance_but_not_beyond_measure():
    image = F.interpolate(torch.rand(6, 3, 8, 8), size=(32, 32)) * 2 - 1
    torch.manual_seed(5)
    rough = roughened(image, 1.0)
    torch.manual_seed(5)
    assert torch.equal(rough, roughened(image, 1.0))
    assert rough.shape == image.shape
    assert rough.abs().max() <= 1
    away = (rough - image).flatten(1).norm(dim=1) / image.flatten(1).norm(dim=1)
    assert (away > 0.02).all()
    assert (away < 0.8).all()
    assert away.std() > 0.01, "each picture by its own chance"
    assert (roughened(image, 0.2) - image).norm() < (rough - image).norm()
    assert torch.equal(roughened(image, 0.0), image)


def test_only_training_sees_worse_pictures(tmp_path):
    data = scenes()
    (rough,) = trainer(tmp_path).validate(task(roughness=1.0), data, verbose=False)
    (plain,) = trainer(tmp_path).validate(task(roughness=0.0), data, verbose=False)
    assert rough == plain
    batch = collate([data.dataset("train")[i] for i in range(4)])
    losses = []
    for roughness in (0.0, 1.0):
        judge = task(roughness=roughness)
        judge.log = lambda *_, **__: None
        losses.append(float(judge.training_step(batch, 0).detach()))
    assert losses[0] != losses[1]


class KeepAfter(L.Callback):
    """A checkpoint after some steps, in the middle of an epoch."""

    def __init__(self, steps: int, path) -> None:
        self.steps, self.path = steps, path

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.steps:
            trainer.save_checkpoint(self.path)


def test_a_resumed_run_ends_with_the_same_weights(tmp_path):
    """With the same captions and mirrored pictures; chance of roughening is the command line's to restore."""
    path = tmp_path / "cut.ckpt"
    whole, resumed = task(roughness=0.0), task(roughness=0.0, lr=0.5)
    trainer(tmp_path, max_epochs=3, limit_val_batches=0, callbacks=[KeepAfter(3, path)]).fit(whole, scenes(flip=True))
    trainer(tmp_path, max_epochs=3, limit_val_batches=0).fit(resumed, scenes(flip=True), ckpt_path=path)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_predictions_name_what_is_seen(tmp_path):
    judge, data = seeing_some(), scenes()
    trainer(tmp_path).predict(judge, data)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [row["picture"] for row in rows] == [f"test-0-{i}" for i in range(5)]
    judge.eval()
    with torch.no_grad():
        found = judge(collate([data.dataset("test")[2]]).image)
    seen = [
        f"{data.color_names[int(found.looks[0, k].argmax())]} {data.kind_names[k]}"
        for k in range(36)
        if int(found.looks[0, k].argmax()) < COLORS
    ]
    assert rows[2] == {"picture": "test-0-2", "largest": data.kind_names[int(found.main.argmax())], "things": seen}
    assert any(row["things"] for row in rows)


def test_bad_settings_and_data_are_named(tmp_path):
    with pytest.raises(UserError, match="roughness goes from 0 to 1, got 1.5"):
        Classifying(roughness=1.5)
    with pytest.raises(UserError, match="absent_weight must be above 0, got 0"):
        Classifying(absent_weight=0)
    data = scenes()
    batch = collate([data.dataset("val")[0]])
    with pytest.raises(UserError, match="num_kinds is 5, but the data know 36 kinds"):
        task(num_kinds=5).validation_step(batch, 0)
    with pytest.raises(UserError, match="These data do not say what their pictures show"):
        task().validation_step(replace(batch, looks=None), 0)
    with pytest.raises(UserError, match="leave out data.sentences"):
        trainer(tmp_path).predict(task(), scenes(sentences="a red cup"))
    with pytest.raises(UserError, match="set --trainer.max_epochs"):
        trainer(tmp_path, max_epochs=-1).fit(task(), data)
