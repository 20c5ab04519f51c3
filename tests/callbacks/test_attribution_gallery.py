"""Does the gallery of attributions hold what the methods say of the very samples that the gallery keeps?"""

import lightning as L
import numpy as np
import pytest
import torch

from lit_attn.attribution.explain import explain_subject
from lit_attn.attribution.subjects import answers_in_steps, caption_words, words_read
from lit_attn.callbacks.attention_gallery import AttentionGallery
from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.callbacks.attribution_gallery import AttributionGallery
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.errors import UserError
from lit_attn.models.m4c import read_back
from lit_attn.probes.concentration import Concentration
from lit_attn.report.gallery import read_gallery
from lit_attn.report.runs import read_run
from lit_attn.report.shown import SO_FAR, shown
from lit_attn.tasks.captioning import Captioning
from tests.callbacks.test_answers import m4c, mac
from tests.callbacks.test_in_lightning import small, trainer

METHODS = ["rollout_corrected", "gae", "gradient"]


def captioner() -> tuple[Captioning, ScenesCaptions]:
    L.seed_everything(3, verbose=False)
    data = ScenesCaptions(train_scenes=8, val_scenes=5, test_scenes=3, regions=13, region_dim=48, eval_batch_size=2)
    task = Captioning(
        data.vocab_size, data.region_dim, dim=16, num_heads=2, hidden=24, encoder_layers=1, decoder_layers=2
    )
    return task, data


def validated(tmp_path, task, data, samples: int = 3):
    callbacks = AttentionGallery(samples=samples), AttributionGallery(samples=samples, methods=METHODS)
    trainer(tmp_path, *callbacks).validate(task, datamodule=data, verbose=False)
    task.eval()
    return next(iter(data.val_dataloader()))


def found_in(item) -> dict[tuple[str, str, str], np.ndarray]:
    return {(a.method, a.query, a.keys): a.scores for a in shown(item).attributions}


def test_words_of_captions(tmp_path):
    task, data = captioner()
    batch = validated(tmp_path, task, data)
    sample = read_gallery(tmp_path / "gallery")[1]
    row = batch.sample_id.index(sample.sample_id)
    found = found_in(sample)
    assert found.keys() == {(m, "words", keys) for m in METHODS for keys in ("regions", "words")}
    assert np.isnan(found["gae", "words", "regions"][0]).all()
    for place in (1, 4, len(sample.words) - 1):
        asked = caption_words(task.net, batch, torch.tensor([row]), torch.tensor([place]))
        alone = explain_subject(asked, METHODS)
        for method in METHODS:
            regions, words = (alone[method].streams[stream][0].detach().numpy() for stream in ("regions", "words"))
            np.testing.assert_allclose(found[method, "words", "regions"][place], regions, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(
                found[method, "words", "words"][place, :place], words[:place], rtol=1e-4, atol=1e-6
            )
            assert not found[method, "words", "words"][place, place:].any(), "later words are not read"


def test_answers_in_steps(tmp_path):
    task, data = mac(self_attention=False)
    batch = validated(tmp_path, task, data)
    sample = read_run(tmp_path).answers[0]
    row = batch.sample_id.index(sample.sample_id)
    found, alone = found_in(sample), explain_subject(answers_in_steps(task.net, batch, torch.tensor([row])), METHODS)
    assert found.keys() == {(m, "answer", keys) for m in METHODS for keys in ("cells", "words")}
    for (method, _, keys), scores in found.items():
        wanted = alone[method].streams[keys][0].detach().numpy()[: scores.shape[1]]
        np.testing.assert_allclose(scores[0], wanted, rtol=1e-4, atol=1e-6)


def test_every_word_of_an_answer_that_is_read(tmp_path):
    task, data = m4c()
    batch = validated(tmp_path, task, data)
    sample = read_run(tmp_path).answers[0]
    row = batch.sample_id.index(sample.sample_id)
    heard = read_back(batch, task.net.answer(batch))
    found, steps = found_in(sample), int(heard.step_mask[row].sum())
    assert {keys for _, _, keys in found} <= {"question", "objects", "ocr", SO_FAR}
    for step in range(steps):
        alone = explain_subject(words_read(task.net, heard, torch.tensor([row]), step), METHODS)
        for (method, _, keys), scores in found.items():
            assert len(scores) == steps
            wanted = alone[method].streams[keys][0].detach().numpy()[: scores.shape[1]]
            np.testing.assert_allclose(scores[step], wanted, rtol=1e-4, atol=1e-6)


def test_probes_do_not_hear_the_passes_of_methods(tmp_path):
    tables = []
    for place, callbacks in enumerate(([], [AttributionGallery(methods=METHODS)])):
        task, data = mac(self_attention=False)
        folder = tmp_path / str(place)
        trainer(folder, *callbacks, AttentionProbe([Concentration()])).validate(task, datamodule=data, verbose=False)
        tables.append((folder / "attention" / "val-00000000.csv").read_text())
    assert tables[0] == tables[1]


def test_models_and_methods_that_cannot_be_explained_are_refused(tmp_path):
    with pytest.raises(UserError, match="There is no method 'gea'. Did you mean 'gae'"):
        AttributionGallery(methods=["gea"])
    task, data = small()
    with pytest.raises(UserError, match="Scan has no layers to follow"):
        trainer(tmp_path, AttributionGallery()).validate(task, datamodule=data, verbose=False)
