"""Are explanations measured during validation, on a fixed sample, without disturbing training?"""

import csv

import lightning as L
import pytest
import torch

from lit_attn.attribution.by_inputs import blank_out
from lit_attn.attribution.explain import explain_subject
from lit_attn.attribution.faithfulness import against_cause, correlated
from lit_attn.attribution.subjects import caption_words, sentence_classes
from lit_attn.callbacks.attribution_probe import AttributionProbe
from lit_attn.data.agreement_grammar import AgreementGrammar
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.errors import UserError
from lit_attn.probes.grounding import word_region_links
from lit_attn.tasks.agreement import Agreement
from lit_attn.tasks.captioning import Captioning
from lit_attn.tasks.matching import Matching


def small(val: int = 11) -> tuple[Agreement, AgreementGrammar]:
    torch.manual_seed(0)
    data = AgreementGrammar(train_sentences=16, val_sentences=val, test_sentences=5, max_attractors=2, batch_size=8)
    return Agreement(data.vocab_size, 2, dim=12, num_heads=2, hidden=11, layers=3, init_std=0.4), data


def captioner() -> tuple[Captioning, ScenesCaptions]:
    torch.manual_seed(0)
    data = ScenesCaptions(train_scenes=4, val_scenes=5, test_scenes=2, regions=7, region_dim=48, batch_size=2)
    task = Captioning(
        data.vocab_size, data.region_dim, dim=12, num_heads=2, hidden=11, encoder_layers=1, decoder_layers=2
    )
    return task, data


def trainer(tmp_path, *callbacks, **options) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0,
        enable_model_summary=False, callbacks=list(callbacks), default_root_dir=str(tmp_path), **options,
    )  # fmt: skip


@pytest.mark.parametrize("inference_mode", [True, False])
def test_sentences_are_scored_as_one_by_one(tmp_path, inference_mode):
    """More samples than a batch of validation holds, fewer than a batch of the probe; then sample by sample, by hand."""
    task, data = small(val=23)
    methods = ["rollout", "flow", "gae", "heterogenous_pos"]
    probe = AttributionProbe(methods, samples=19, with_blank_out=True)
    runner = trainer(tmp_path, probe, inference_mode=inference_mode, limit_val_batches=1)
    (scores,) = runner.validate(task, datamodule=data, verbose=False)
    dataset, found = data.dataset("val"), {}
    for i in range(19):
        subject = sentence_classes(task.net, data.collate([dataset[i]]), torch.tensor([0]))
        own = explain_subject(subject, methods)
        for value in against_cause(subject, own) + correlated(subject, own, blank_out(subject)):
            found.setdefault((value.method, value.measure), []).append(value.values.item())
    for method in methods:
        for measure in ("mass", "pointing", "average_precision"):
            expected = sum(found[method, measure]) / 19
            assert scores[f"val/attribution/{method}/{measure}"] == pytest.approx(expected, abs=1e-6), (method, measure)
            chance = sum(found[method, f"{measure}_chance"]) / 19
            assert scores[f"val/attribution/chance/{measure}"] == pytest.approx(chance, abs=1e-9)
        ranks = [one for one in found[method, "blank_out_spearman"] if one == one]
        name = f"val/attribution/{method}/blank_out_spearman_words"
        assert scores[name] == pytest.approx(sum(ranks) / len(ranks), abs=1e-4)
    assert 0 <= scores["val/attribution/flow/saturation"] <= 1
    with (tmp_path / "attribution" / "val-00000000.csv").open() as file:
        rows = {(row["method"], row["stream"], row["measure"]): row for row in csv.DictReader(file)}
    assert rows["gae", "cause", "mass"]["outputs"] == "19"
    assert float(rows["gae", "cause", "mass"]["value"]) == pytest.approx(scores["val/attribution/gae/mass"], abs=1e-7)


def test_words_of_captions_are_the_heads_of_each_pictures_first(tmp_path):
    task, data = captioner()
    probe = AttributionProbe(["gae"], samples=3)
    (scores,) = trainer(tmp_path, probe).validate(task, datamodule=data, verbose=False)
    dataset, mass = data.dataset("val"), []
    for i in range(3):
        batch = data.collate([dataset[i]])
        links = word_region_links(batch, heads_only=True)
        for place in links[0].any(-1).nonzero()[:, 0]:
            subject = caption_words(task.net, batch, torch.tensor([0]), place.unsqueeze(0), links)
            (own,) = (v for v in against_cause(subject, explain_subject(subject, ["gae"])) if v.measure == "mass")
            mass.append(own.values.item())
    mass = [one for one in mass if one == one]
    assert len(mass) > 3
    assert scores["val/attribution/gae/mass"] == pytest.approx(sum(mass) / len(mass), abs=1e-5)


def test_training_is_not_disturbed_and_epochs_are_counted(tmp_path):
    states = []
    for callbacks in ([], [AttributionProbe(samples=3, every_n_epochs=2)]):
        L.seed_everything(1, verbose=False)
        task, data = small()
        trainer(tmp_path, *callbacks, max_epochs=5).fit(task, datamodule=data)
        states.append(task.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    files = sorted(file.name for file in (tmp_path / "attribution").iterdir())
    assert files == ["val-00000003.csv", "val-00000007.csv"], "two steps an epoch, every second epoch"


def test_tests_are_measured_too(tmp_path):
    task, data = small()
    (scores,) = trainer(tmp_path, AttributionProbe(["raw"])).test(task, datamodule=data, verbose=False)
    assert 0 <= scores["test/attribution/raw/mass"] <= 1
    assert "test/attribution/raw/blank_out_spearman_words" not in scores, "the cause is known"


def test_a_network_without_a_plan_is_refused_before_anything_runs(tmp_path):
    data = ScenesMatching(train_scenes=4, val_scenes=3, test_scenes=2, oracle=False, regions=5, region_dim=48)
    task = Matching(data.vocab_size, data.region_dim, dim=8, word_dim=4)
    with pytest.raises(UserError, match="has no layers to follow"):
        trainer(tmp_path, AttributionProbe()).validate(task, datamodule=data)


def test_a_data_module_is_needed(tmp_path):
    task, data = small()
    with pytest.raises(UserError, match="takes its sample from a data module"):
        trainer(tmp_path, AttributionProbe()).validate(task, dataloaders=data.val_dataloader())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "samples must be at least 1"),
        ({"every_n_epochs": 0}, "every_n_epochs must be at least 1"),
        ({"methods": ["rolout"]}, "Did you mean 'rollout'"),
        ({"methods": []}, "needs at least one method"),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        AttributionProbe(**settings)
