"""Do generator and discriminators take turns as published, with encoders that stay, and are pictures scored as promised?"""

import copy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import lightning as L
import pytest
import torch
import torch.nn.functional as F

from lit_attn.checkpoint import Weights, read_weights, take_over, transfer, write_weights
from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.errors import UserError
from lit_attn.models.attngan import Discriminator
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.ops.damsm import sentence_similarity, word_similarity
from lit_attn.ops.gan import condition_divergence
from lit_attn.run.checkpoint_io import SafeCheckpointIO
from lit_attn.run.precision import BatchDoublePrecision
from lit_attn.tasks.averaging import KEY
from lit_attn.tasks.damsm import DamsmTraining, pictures_of
from lit_attn.tasks.feature_networks import feature_network
from lit_attn.tasks.synthesis import Synthesis, shrunk

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
TINY = {
    "word_dim": 7, "text_dim": 6, "encoder": "small", "sides": [16, 32], "z_dim": 5, "condition_dim": 3, "width": 3,
    "residuals": 1, "discriminator_width": 3, "average": 0.7, "distractors": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> ScenesPictures:
    return ScenesPictures(train_scenes=12, val_scenes=7, test_scenes=5, side=32, batch_size=4, eval_batch_size=3)


def tiny(data: ScenesPictures, **options) -> Synthesis:
    torch.manual_seed(3)
    return Synthesis(data.vocab_size, **(TINY | options))


def trainer(folder, *callbacks, **options) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
             "num_sanity_val_steps": 0, "max_epochs": 1, "limit_val_batches": 0, "use_distributed_sampler": False}  # fmt: skip
    return L.Trainer(
        default_root_dir=folder, enable_checkpointing=False, callbacks=list(callbacks),
        **(quiet | {"plugins": [SafeCheckpointIO()]} | options),
    )  # fmt: skip


def batch_of(data: ScenesPictures):
    return next(iter(data.val_dataloader()))


def test_one_step_is_one_turn_of_both(data, tmp_path):
    """Also for `max_steps`: Lightning alone would count the discriminators' step, too."""

    class Count(L.Callback):
        batches = 0

        def on_train_batch_end(self, *rest) -> None:
            self.batches += 1

    count = Count()
    fit = trainer(tmp_path, count, max_epochs=9, max_steps=5)
    fit.fit(tiny(data), datamodule=data)
    assert fit.global_step == count.batches == 5


def test_a_step_is_that_of_a_slow_copy(data, tmp_path):
    """Discriminators first, on pictures that carry no gradient; then the generator, against what they have become."""
    task = tiny(data, lr=1e-2, average=0.0).double()
    slow = copy.deepcopy(task)
    batches = []

    class Keep(L.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
            torch.manual_seed(17)
            batches.append(batch)

    trainer(tmp_path, Keep(), max_steps=1, plugins=[SafeCheckpointIO(), BatchDoublePrecision()]).fit(
        task, datamodule=data
    )
    (batch,) = batches

    slow.train()
    torch.manual_seed(17)
    with torch.no_grad():
        words, sentence = slow.text(batch.tokens, batch.token_mask)
    made = slow.generator(sentence, words, batch.token_mask, torch.randn(len(batch), 5, dtype=torch.float64))
    optimizers = [
        torch.optim.Adam(part.parameters(), lr=1e-2, betas=(0.5, 0.999))
        for part in (slow.discriminators, slow.generator)
    ]
    halves = [F.interpolate(batch.image, (16, 16), mode="bilinear", antialias=True), batch.image]
    bce = F.binary_cross_entropy_with_logits
    loss = 0
    for network, real, fake in zip(slow.discriminators, halves, made.images, strict=True):
        features = network.features(real)
        alone, matched = network.unconditional(features), network.conditional(features, sentence)
        wrong = network.conditional(features[:-1], sentence[1:])
        fake_alone, fake_matched = network(fake.detach(), sentence)
        one, none = torch.ones(len(batch)).double(), torch.zeros(len(batch)).double()
        loss += (bce(alone, one) + bce(matched, one)) / 2
        loss += (bce(fake_alone, none) + bce(fake_matched, none) + bce(wrong, none[1:])) / 3
    loss.backward()
    optimizers[0].step()
    slow.generator.zero_grad()
    loss = condition_divergence(made.mu, made.logvar)
    for network, fake in zip(slow.discriminators, made.images, strict=True):
        loss = loss + sum(bce(logits, torch.ones(len(batch)).double()) for logits in network(fake, sentence))
    regions, image = slow.image(made.images[-1])
    own = torch.arange(len(batch))
    assert len(set(batch.class_id.tolist())) == len(batch)
    for logits in (word_similarity(regions, words, batch.token_mask), sentence_similarity(image, sentence)):
        loss = loss + 5.0 * (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own))
    loss.backward()
    optimizers[1].step()
    for name, parameter in slow.named_parameters():
        torch.testing.assert_close(dict(task.named_parameters())[name], parameter, rtol=0, atol=1e-7, msg=name)


def test_encoders_and_statistics_stay_while_both_others_learn(data, tmp_path):
    task = tiny(data)
    before = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    trainer(tmp_path).fit(task, datamodule=data)
    for name, tensor in task.state_dict().items():
        same = torch.equal(tensor, before[name])
        if name.startswith(("text.", "image.")):
            assert same, name
        elif name.endswith("weight") and "proj" not in name:
            assert not same, name
    assert not any(parameter.grad is not None for parameter in [*task.text.parameters(), *task.image.parameters()])
    assert all(parameter.requires_grad for parameter in task.discriminators.parameters())


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_all_alignments_train(data, tmp_path, alignment):
    task = tiny(data, alignment=alignment)
    fit = trainer(tmp_path, max_steps=2)
    fit.fit(task, datamodule=data)
    assert all(torch.isfinite(value).all() for value in task.state_dict().values())
    assert torch.isfinite(fit.callback_metrics["train/loss"])
    assert task.generator.describe().name == alignment


def test_a_caption_always_gives_the_same_picture(data):
    task = tiny(data).eval()
    batch = batch_of(data)
    torch.manual_seed(1)
    whole = [image.clone() for image in task.paint(batch)]
    torch.manual_seed(2)
    later = task.paint(batch)
    assert [image.shape[-1] for image in whole] == [16, 32]
    for one, other in zip(whole, later, strict=True):
        assert torch.equal(one, other)
    other = task.paint(replace(batch, caption_id=batch.caption_id + 100))
    assert not torch.equal(other[-1], whole[-1])


def test_scores_are_those_of_all_pictures(tmp_path):
    data = ScenesPictures(val_scenes=7, side=64, things=2, eval_batch_size=3)  # the judge knows 64 pixels across
    task = tiny(data, judge="scenes", sides=[32, 64])
    found = trainer(tmp_path, limit_val_batches=1.0).validate(task, datamodule=data, verbose=False)[0]
    assert found["val/fid_images"] == found["val/fid_real_images"] == found["val/r_precision_images"] == 7
    assert found["val/is_images"] == 7
    task.eval()
    judge = feature_network("scenes")
    named, counted = 0, Counter()
    for batch in data.val_dataloader():
        for suffix, pictures in {"": task.paint(batch)[-1], "_real": batch.image}.items():
            seen = judge(pictures)
            for row in range(len(batch)):
                kind, color = int(batch.main_kind[row]), int(batch.main_color[row])
                if kind >= 0:
                    scores = seen.looks[row, kind].tolist()
                    named += suffix == ""
                    counted[f"color_right{suffix}"] += scores.index(max(scores[:-1])) == color
                    counted[f"thing_shown{suffix}"] += scores[-1] < max(scores[:-1])
    assert named > 0
    assert found["val/color_images"] == named
    assert counted["thing_shown_real"] > 0
    for name, count in counted.items():
        assert found[f"val/{name}"] == pytest.approx(count / named), name


def test_evaluation_sees_the_average_and_a_checkpoint_holds_all(data, tmp_path):
    task = tiny(data)
    fit = trainer(tmp_path)
    fit.fit(task, datamodule=data)
    file = tmp_path / "all.ckpt"
    fit.save_checkpoint(file)
    checkpoint = torch.load(file, weights_only=True)
    assert len(checkpoint["optimizer_states"]) == 2
    assert all(len(state["state"]) > 0 for state in checkpoint["optimizer_states"])
    parts = {name.split(".")[0] for name in checkpoint["state_dict"]}
    assert {"text", "image", "generator", "discriminators"} <= parts
    name = "generator.pictures.0.weight"
    assert torch.equal(checkpoint[KEY][name], task.state_dict()[name])
    assert not torch.equal(checkpoint["state_dict"][name], task.state_dict()[name])
    other = tiny(data)
    transfer(read_weights(file), other, strict=True)
    task.average.show()
    assert torch.equal(task.eval().paint(batch_of(data))[-1], other.eval().paint(batch_of(data))[-1])


def test_weights_need_no_discriminators_to_paint(data, tmp_path):
    task = tiny(data)
    tensors = {name: t for name, t in task.state_dict().items() if not name.startswith("discriminators.")}
    file = tmp_path / "painter.safetensors"
    write_weights(Weights(file, tensors, dict(task.hparams), None), file)
    other = tiny(data)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    transfer(read_weights(file), other, strict=True, spare=Synthesis.only_in_training)
    assert torch.equal(other.generator.pictures[0].weight, task.generator.pictures[0].weight)
    del tensors["generator.pictures.0.weight"]
    write_weights(Weights(file, tensors, dict(task.hparams), None), file)
    with pytest.raises(UserError, match="do not fit"):
        transfer(read_weights(file), other, strict=True, spare=Synthesis.only_in_training)


def test_encoders_come_from_damsm(data, tmp_path):
    damsm = DamsmTraining(data.vocab_size, word_dim=7, dim=6, encoder="small", distractors=5)
    fit = trainer(tmp_path)
    fit.fit(damsm, datamodule=data)
    file = tmp_path / "damsm.ckpt"
    fit.save_checkpoint(file)
    task = tiny(data, damsm=str(file))
    trainer(tmp_path, max_steps=1).fit(task, datamodule=data)
    for part in ("text", "image"):
        for name, tensor in damsm.net.get_submodule(part).state_dict().items():
            assert torch.equal(task.get_submodule(part).state_dict()[name], tensor), name
    other = tiny(data, damsm=str(file), word_dim=8)
    with pytest.raises(UserError, match="set --model.word_dim 7"):
        trainer(tmp_path, max_steps=1).fit(other, datamodule=data)


def test_weights_without_encoders_take_them_from_damsm(data, tmp_path):
    """Only what is missing: a text encoder that came with the weights stays."""
    damsm = DamsmTraining(data.vocab_size, word_dim=7, dim=6, encoder="small", distractors=5)
    source, file = tmp_path / "damsm.safetensors", tmp_path / "painter.safetensors"
    write_weights(Weights(source, damsm.state_dict(), dict(damsm.hparams), None), source)
    trained = tiny(data, damsm=str(source))
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(0.1)
    for left_out in (("text.", "image."), ("image.",)):
        kept = {
            name: tensor
            for name, tensor in trained.state_dict().items()
            if not name.startswith(("discriminators.", *left_out))
        }
        write_weights(Weights(file, kept, dict(trained.hparams), None), file)
        task = tiny(data, damsm=str(source))
        take_over(read_weights(file), task, strict=True)
        for part in ("text", "image"):
            wanted = (damsm.net if f"{part}." in left_out else trained).get_submodule(part).state_dict()
            for name, tensor in task.get_submodule(part).state_dict().items():
                assert torch.equal(tensor, wanted[name]), (part, name)
        assert torch.equal(task.generator.pictures[0].weight, trained.generator.pictures[0].weight)
    with pytest.raises(UserError, match="do not fit"):
        take_over(read_weights(file), tiny(data), strict=True)
    take_over(read_weights(file), tiny(data), strict=True, scoring=False)


def test_the_shipped_encoders_have_a_name(tmp_path):
    data = ScenesPictures(train_scenes=4, val_scenes=2, side=32, batch_size=4)
    sizes = {"word_dim": 64, "text_dim": 128}
    task = tiny(data, damsm="scenes", **sizes)
    trainer(tmp_path, max_steps=1).fit(task, datamodule=data)
    shipped = read_weights(CHECKPOINTS / "damsm_scenes.safetensors").tensors
    assert torch.equal(task.text.embed.weight, shipped["net.text.embed.weight"].float())
    assert torch.equal(task.image.to_image.weight, shipped["net.image.to_image.weight"].float())


def test_without_damsm_it_says_so(data, tmp_path, caplog):
    trainer(tmp_path, max_steps=1).fit(tiny(data), datamodule=data)
    assert "random" in caplog.text
    assert "--model.damsm" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": [16, 48]}, "does not double from 16 to 48"),
        ({"sides": [16]}, "too few stages"),
        ({"average": 1.0}, "from 0 to below 1"),
        ({"encoder": "smal"}, "Did you mean 'small'"),
        ({"alignment": "dott"}, "dot"),
    ],
)
def test_wrong_settings_are_named(data, options, message):
    with pytest.raises(UserError, match=message):
        tiny(data, **options)


def test_wrong_sizes_and_missing_pictures_are_named(data, tmp_path):
    with pytest.raises(UserError, match="set data.side and the last of model.sides alike"):
        shrunk(torch.zeros(2, 3, 64, 64), (16, 32))
    with pytest.raises(UserError, match="at least 2 samples"):
        trainer(tmp_path, max_steps=1).fit(
            tiny(data), datamodule=ScenesPictures(train_scenes=2, val_scenes=2, side=32, batch_size=1)
        )
    alone = replace(batch_of(data), image=None)
    with pytest.raises(UserError, match="lit-attn predict"):
        pictures_of(alone)


def test_each_side_has_its_discriminator(data):
    task = tiny(data)
    assert [network.side for network in task.discriminators if isinstance(network, Discriminator)] == [16, 32]
