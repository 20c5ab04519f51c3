"""Is DAMSM trained by its four losses, with the published rates, and does R-precision see all captions of a split?"""

from dataclasses import replace

import lightning as L
import pytest
import torch
import torch.nn.functional as F

from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.errors import UserError
from lit_attn.ops.damsm import sentence_similarity, word_similarity
from lit_attn.tasks.damsm import DamsmTraining, matching_loss
from tests.tasks.test_synthesis import trainer

TINY = {"word_dim": 7, "dim": 6, "encoder": "small", "distractors": 5}


@pytest.fixture(scope="module")
def data() -> ScenesPictures:
    return ScenesPictures(train_scenes=12, val_scenes=7, test_scenes=5, side=32, batch_size=4, eval_batch_size=3)


def tiny(data: ScenesPictures, **options) -> DamsmTraining:
    torch.manual_seed(5)
    return DamsmTraining(data.vocab_size, **(TINY | options))


def test_the_loss_is_all_four_directions_without_captions_of_the_same_class(data):
    task = tiny(data).eval()
    batch = next(iter(data.val_dataloader()))
    classes = torch.tensor([4, 9, 4])
    codes = task(batch)
    expected = 0.0
    for logits in (
        word_similarity(codes.regions, codes.words, batch.token_mask),
        sentence_similarity(codes.image, codes.sentence),
    ):
        for table in (logits, logits.T):
            for row in range(3):
                rivals = [c for c in range(3) if c == row or classes[c] != classes[row]]
                expected += F.cross_entropy(table[row, rivals][None], torch.tensor([rivals.index(row)])).item() / 3
    assert matching_loss(codes, batch.token_mask, classes).item() == pytest.approx(expected, rel=1e-5)


def test_rates_fall_by_epoch_to_a_tenth_and_adam_may_forget(data, tmp_path):
    seen = []

    class Look(L.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
            (optimizer,) = trainer.optimizers
            steps = {int(state["step"]) for state in optimizer.state.values()}
            seen.append((trainer.current_epoch, optimizer.param_groups[0]["lr"], max(steps, default=0)))

    task = tiny(data, lr=0.01, lr_decay=0.2, fresh_adam=True)
    trainer(tmp_path, Look(), max_epochs=3).fit(task, datamodule=data)
    assert [rate for epoch, rate, _ in seen if epoch == 0] == pytest.approx([0.01] * 3)
    assert [rate for epoch, rate, _ in seen if epoch == 1] == pytest.approx([0.002] * 3)
    assert [rate for epoch, rate, _ in seen if epoch == 2] == pytest.approx([0.001] * 3)
    assert [steps for _, _, steps in seen] == [0, 1, 2] * 3
    seen.clear()
    trainer(tmp_path, Look(), max_epochs=2).fit(tiny(data), datamodule=data)
    assert [steps for _, _, steps in seen] == [0, 1, 2, 3, 4, 5]


def test_only_the_text_encoder_is_clipped(data, tmp_path):
    norms = []

    class Look(L.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer) -> None:
            norms.append([torch.nn.utils.get_total_norm([p.grad for p in part.parameters() if p.grad is not None])
                          for part in (pl_module.net.text, pl_module.net.image)])  # fmt: skip

    class Then(DamsmTraining):
        def on_before_optimizer_step(self, optimizer) -> None:
            super().on_before_optimizer_step(optimizer)
            norms.append([torch.nn.utils.get_total_norm([p.grad for p in part.parameters() if p.grad is not None])
                          for part in (self.net.text, self.net.image)])  # fmt: skip

    torch.manual_seed(5)
    task = Then(data.vocab_size, **(TINY | {"text_clip": 1e-3}))
    trainer(tmp_path, Look(), max_steps=1).fit(task, datamodule=data)
    before, after = norms
    assert before[0] > 1e-3
    assert after[0].item() == pytest.approx(1e-3, rel=1e-3)
    assert after[1] == before[1]


def test_r_precision_is_against_captions_of_the_whole_split(data, tmp_path):
    task = tiny(data)
    found = trainer(tmp_path, limit_val_batches=1.0).validate(task, datamodule=data, verbose=False)[0]
    assert found["val/r_precision_images"] == 7
    assert 0 <= found["val/r_precision"] <= 1
    with pytest.raises(UserError, match="distractors"):
        trainer(tmp_path, limit_val_batches=1.0).validate(tiny(data, distractors=99), datamodule=data, verbose=False)


def test_captions_alone_are_refused(data):
    batch = replace(next(iter(data.val_dataloader())), image=None)
    with pytest.raises(UserError, match="lit-attn predict"):
        tiny(data)(batch)


def test_a_checkpoint_keeps_its_words(data, tmp_path):
    fit = trainer(tmp_path)
    fit.fit(tiny(data), datamodule=data)
    fit.save_checkpoint(tmp_path / "a.ckpt")
    checkpoint = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert tuple(checkpoint["words"]) == data.vocabulary.words
    checkpoint["vocabulary"] = "others"
    torch.save(checkpoint, tmp_path / "b.ckpt")
    with pytest.raises(UserError, match="not those this checkpoint was trained with"):
        trainer(tmp_path).validate(tiny(data), datamodule=data, ckpt_path=str(tmp_path / "b.ckpt"), verbose=False)
