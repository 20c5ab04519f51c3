"""Do tape, probe and gallery work inside Lightning's own loops?"""

import lightning as L
import pytest
import torch

from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionTape
from lit_attn.probes.concentration import Concentration
from lit_attn.probes.grounding import Grounding
from lit_attn.tasks.matching import Matching


def small() -> tuple[Matching, ScenesMatching]:
    data = ScenesMatching(
        train_scenes=8, val_scenes=5, test_scenes=3, oracle=False, regions=13, region_dim=48, batch_size=4
    )
    return Matching(data.vocab_size, data.region_dim, alignment="general_query", dim=16, word_dim=8), data


def trainer(tmp_path, *callbacks, **options) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0,
        enable_model_summary=False, max_epochs=1, callbacks=list(callbacks), default_root_dir=str(tmp_path), **options,
    )  # fmt: skip


class GradientListener(L.Callback):
    """Gradients of a similarity with respect to attention, from inside validation."""

    def __init__(self) -> None:
        self.largest = []
        self.inference = []

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, *rest):
        self.inference.append(torch.is_inference_mode_enabled())
        with AttentionTape(pl_module.net, gradients=True) as tape:
            copied = batch.map(torch.Tensor.clone)
            regions = pl_module.net.image_encoder(copied.regions)[copied.owner]
            words = pl_module.net.text_encoder(copied.tokens, copied.token_mask)
            own = pl_module.net.matcher.aligned(words, copied.token_mask, regions, copied.region_mask[copied.owner])
            (gradient,) = tape.gradients_of(own.sum())
        self.largest.append(gradient.abs().max().item())
        assert all(parameter.grad is None for parameter in pl_module.parameters())


def test_gradients_in_validate_although_lightning_is_in_inference_mode(tmp_path):
    task, data = small()
    listener = GradientListener()
    trainer(tmp_path, listener).validate(task, datamodule=data, verbose=False)
    assert listener.inference == [True]
    assert listener.largest[0] > 0


def test_gradients_in_the_validation_of_fit_do_not_disturb_training(tmp_path):
    states = []
    for callbacks in ([], [GradientListener(), AttentionProbe([Concentration()])]):
        L.seed_everything(1, verbose=False)
        task, data = small()
        trainer(tmp_path, *callbacks).fit(task, datamodule=data)
        states.append(task.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("verb", ["validate", "test"])
def test_probe_logs_every_metric(tmp_path, verb):
    task, data = small()
    runner = trainer(tmp_path, AttentionProbe([Concentration()]))
    getattr(runner, verb)(task, datamodule=data, verbose=False)
    scores = runner.callback_metrics
    stage = "val" if verb == "validate" else "test"
    for name in ("entropy", "effective_keys", "largest_weight", "padding_mass"):
        assert f"{stage}/attention/match/{name}" in scores
    assert 0 < scores[f"{stage}/attention/match/entropy"] <= 1
    assert scores[f"{stage}/attention/match/padding_mass"] == 0


def test_probe_works_under_autocast(tmp_path):
    values = []
    for precision in ("32-true", "bf16-mixed"):
        L.seed_everything(1, verbose=False)
        task, data = small()
        runner = trainer(tmp_path, AttentionProbe([Concentration()]), precision=precision)
        runner.validate(task, datamodule=data, verbose=False)
        values.append(float(runner.callback_metrics["val/attention/match/entropy"]))
    assert values[0] == pytest.approx(values[1], abs=0.02)


def test_memory_does_not_grow_with_the_set(tmp_path):
    task, data = small()
    probe = AttentionProbe([Concentration()])
    trainer(tmp_path, probe).validate(task, datamodule=data, verbose=False)
    sizes = [value.numel() for _, _, metric in probe._named() for value in metric.metric_state.values()]
    assert set(sizes) == {5}, "a sum or a count of five values of one head"


def test_several_probing_callbacks_share_one_table(tmp_path):
    task, data = small()
    for callbacks in ([Concentration()], [Grounding()]), ([Concentration()], [Grounding()], [Concentration()]):
        trainer(tmp_path, *map(AttentionProbe, callbacks)).validate(task, datamodule=data, verbose=False)
        lines = (tmp_path / "attention" / "val-00000000.csv").read_text().splitlines()
        metrics = [line.split(",")[2] for line in lines[1:]]
        assert {"entropy", "grounding_mass"} <= set(metrics)
        assert len(metrics) == len(set(metrics)), "SCAN has one site and one head"


def test_the_same_question_twice_is_refused(tmp_path):
    task, data = small()
    probe = AttentionProbe([Concentration(), Concentration()])
    with pytest.raises(UserError, match="Two probes measure 'effective_keys' at 'match'"):
        trainer(tmp_path, probe).validate(task, datamodule=data, verbose=False)


def test_sites_that_do_not_exist_are_refused_before_anything_runs(tmp_path):
    task, data = small()
    with pytest.raises(UserError, match="No attention site matches 'decoder"):
        trainer(tmp_path, AttentionProbe([Concentration()], sites="decoder.*")).validate(task, datamodule=data)


def test_a_probe_is_needed():
    with pytest.raises(UserError, match="at least one probe"):
        AttentionProbe([])


def test_an_error_in_a_step_does_not_leave_a_tape_behind(tmp_path):
    task, data = small()
    probe = AttentionProbe([Concentration()])
    task.validation_step = lambda *rest: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(tmp_path, probe).validate(task, datamodule=data, verbose=False)
    from lit_attn.nn.tape import is_heard

    assert not is_heard(task.net.matcher.site)


def test_one_name_for_two_alignments_is_refused(tmp_path):
    """Numbers of words as they are produced and as they are read would stand under the same name."""
    task, data = small()
    callbacks = [AttentionProbe([Grounding()]), AttentionProbe([Grounding(align="input")])]
    with pytest.raises(UserError, match=r"measure 'grounding_mass' at 'match' in different ways.*align='input'"):
        trainer(tmp_path, *callbacks).validate(task, datamodule=data, verbose=False)
