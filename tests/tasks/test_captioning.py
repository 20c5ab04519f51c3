"""Is the captioner trained as published, and does it score and keep what it should?"""

import json

import lightning as L
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lit_attn import decode
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.errors import UserError
from lit_attn.metrics.captions import caption_scores
from lit_attn.models.captioner_weights import convert
from lit_attn.nn.tape import AttentionTape
from lit_attn.ops.cider import CiderD, DocumentFrequencies
from lit_attn.tasks.captioning import Captioning
from lit_attn.types import CaptionBatch
from lit_attn.vocabulary import CaptionWords
from tests.reference.published import golden_file, published_net

TINY = {"dim": 16, "num_heads": 2, "hidden": 24, "encoder_layers": 1, "decoder_layers": 1, "max_words": 7, "beam": 2}


def scenes(**options) -> ScenesCaptions:
    sizes = {"train_scenes": 12, "val_scenes": 5, "test_scenes": 5, "region_dim": 13, "regions": 11, "batch_size": 4,
             "eval_batch_size": 2, "max_words": 7}  # fmt: skip
    return ScenesCaptions(**(sizes | options))


def tiny(data: ScenesCaptions, **options) -> Captioning:
    return Captioning(data.vocab_size, data.region_dim, **(TINY | options))


def trainer(tmp_path, **options) -> L.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return L.Trainer(default_root_dir=tmp_path, enable_checkpointing=False, **(quiet | options))


def test_a_self_critical_step_equals_the_original(golden, monkeypatch):
    arrays = golden("ort/scst/reward.npz")
    frequencies = json.loads(golden_file("scst/train-idxs.json").read_text())
    counts = {tuple(int(i) for i in n.split()): count for n, count in frequencies["document_frequency"].items()}
    task = Captioning(23, 17, dim=32, num_heads=8, hidden=64, encoder_layers=2, decoder_layers=2, dropout=0.0,
                      region_dropout=0.0, objective="self_critical", samples=3).double()  # fmt: skip
    task.net.load_state_dict(published_net("main").state_dict())
    task.words = CaptionWords((*(str(i) for i in range(1, 22)), "UNK"))
    task._reward = CiderD(DocumentFrequencies(counts, frequencies["ref_len"]))
    task.log = lambda *_, **__: None  # type: ignore[method-assign]
    references = tuple(
        tuple(" ".join(task.words.words[i - 1] for i in row if i) for row in arrays[f"references_{p}"].tolist())
        for p in range(4)
    )
    first = slice(0, 12, 3)
    batch = CaptionBatch(
        image_id=torch.arange(4), regions=arrays["att_feats"][first].double(), boxes=arrays["boxes"][first].double(),
        region_mask=arrays["att_masks"][first].bool(), caption_id=torch.zeros(0), owner=torch.zeros(0).long(),
        tokens=torch.zeros(0, 2).long(), token_mask=torch.zeros(0, 2).bool(), references=references,
    )  # fmt: skip
    uniforms = iter(arrays["uniforms"].view(16, 4, 3))

    def draw(probabilities):
        return (probabilities.cumsum(-1) / probabilities.sum(-1, keepdim=True) <= next(uniforms)[..., None]).sum(-1)

    monkeypatch.setattr(decode, "_draw", draw)
    loss = task._self_critical(batch)
    assert loss.item() == pytest.approx(arrays["loss_f64"].item(), rel=1e-6)
    loss.backward()
    gradients = convert(load_file(golden_file("scst/step_gradients.safetensors")))
    for name, parameter in task.net.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name].double(), rtol=1e-5, atol=1e-8)


def test_training_lowers_the_loss_and_the_rate_follows_noam(tmp_path):
    data = scenes()
    task = tiny(data, warmup=5, dropout=0.0, region_dropout=0.0)
    losses, rates = [], []

    class Listen(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, *rest):
            losses.append(outputs["loss"].item())
            rates.append(trainer.callback_metrics["train/lr"].item())

    trainer(tmp_path, max_epochs=8, callbacks=[Listen()], limit_val_batches=0).fit(task, data)
    assert np.mean(losses[-3:]) < 0.8 * losses[0]
    expected = [16**-0.5 * min((s + 1) ** -0.5, (s + 1) * 5**-1.5) for s in range(len(rates))]
    assert rates == pytest.approx(expected, rel=1e-5)


def test_self_critical_training_moves_weights_and_uses_its_own_schedule(tmp_path):
    data = scenes()
    task = tiny(data, objective="self_critical", lr=1e-3, lr_decay=0.5, lr_decay_every=1, samples=2)
    before = [p.clone() for p in task.parameters()]
    run = trainer(tmp_path, max_epochs=2, limit_val_batches=0)
    run.fit(task, data)
    assert any(not torch.equal(a, b) for a, b in zip(before, task.parameters(), strict=True))
    assert run.optimizers[0].param_groups[0]["lr"] == pytest.approx(2.5e-4)


def test_validation_scores_what_the_model_writes(tmp_path):
    data, written = scenes(), []
    task = tiny(data)

    class Listen(L.Callback):
        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, *rest):
            written.extend(zip(outputs["texts"], batch.references, strict=True))

    found = trainer(tmp_path, callbacks=[Listen()]).validate(task, data, verbose=False)[0]
    assert len(written) == 5
    expected = caption_scores([text for text, _ in written], [own for _, own in written])
    for name, value in expected.items():
        assert found[f"val/{name}"] == pytest.approx(value, rel=1e-6)
    assert found["val/rival_cider"] > 0


def test_the_loss_is_a_mean_over_words_whatever_the_batches(tmp_path):
    one, two = (
        trainer(tmp_path).validate(tiny_seeded(scenes(eval_batch_size=n)), scenes(eval_batch_size=n), verbose=False)[0]
        for n in (1, 5)
    )
    assert one["val/loss"] == pytest.approx(two["val/loss"], rel=1e-6)


def tiny_seeded(data: ScenesCaptions) -> Captioning:
    torch.manual_seed(1)
    return tiny(data)


def test_tapes_hear_one_pass_over_the_gold_captions_and_not_the_search():
    data = scenes()
    task = tiny(data).eval()
    task.words = data.vocabulary
    batch = next(iter(data.val_dataloader()))
    with AttentionTape(task.net) as tape:
        task._evaluate(batch, 3)
    assert [len(tape[site]) for site in tape.chosen] == [1] * 3
    assert tape["decoder.0.cross"][0].weights.shape[0] == len(batch)


def test_attention_of_a_decoded_caption_is_that_of_its_own_steps():
    """Captured step by step during greedy decoding, and by one pass over the result."""
    data = scenes()
    task = tiny(data).double().eval()
    task.words = data.vocabulary
    batch = next(iter(data.val_dataloader())).map(lambda x: x.double() if x.is_floating_point() else x)
    with AttentionTape(task.net, "decoder.0.cross") as steps:
        state = task.net.start(batch.regions, batch.boxes, batch.region_mask)
        found = decode.greedy(task.net.step, state, torch.zeros(2, 1, dtype=torch.long), 7)
    with AttentionTape(task.net, "decoder.0.cross") as whole:
        task.reread(batch, found.tokens[:, 0])
    for i, row in enumerate(found.tokens[:, 0].tolist()):
        for t in range(row.index(0) + 1 if 0 in row else 7):
            by_step = steps.records[t].weights[i, :, 0]
            torch.testing.assert_close(whole.records[0].weights[i, :, t], by_step, rtol=0, atol=1e-12)


def test_predict_writes_captions_in_order_and_pictures(tmp_path):
    from PIL import Image

    from lit_attn.callbacks.caption_pictures import CaptionPictures

    data = scenes()
    trainer(tmp_path, callbacks=[CaptionPictures(pictures=3)]).predict(tiny(data), data)
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["picture"] for line in lines] == [f"test-0-{i}" for i in range(5)]
    assert all(isinstance(line["caption"], str) and line["score"] <= 0 for line in lines)
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == ["test-0-0.png", "test-0-1.png", "test-0-2.png"]
    assert Image.open(tmp_path / "pictures" / pictures[0]).size[0] == 1280


def test_a_checkpoint_brings_its_words_and_refuses_others():
    data = scenes()
    task = tiny(data)
    task.words = data.vocabulary
    checkpoint: dict = {}
    task.on_save_checkpoint(checkpoint)
    assert tuple(checkpoint["words"]) == data.vocabulary.words
    task.words = CaptionWords(("other", "words"))
    with pytest.raises(UserError, match="3 ids.*--data.vocabulary"):
        task.on_load_checkpoint(checkpoint)


def test_rules_follow_the_settings():
    data = scenes()
    task = tiny(data, keep_bad_endings=False, trigram_penalty=2.0)
    task.words = data.vocabulary
    rules = task._rules()
    assert rules.unknown == data.vocab_size - 1
    assert data.vocabulary.ids["the"] in rules.bad_endings
    assert rules.trigram_penalty == 2.0
    assert tiny(data, keep_unknown=True).hparams["keep_unknown"]


def test_a_caption_longer_than_the_limit_is_cut_and_its_references_are_not():
    data = scenes(max_words=3)
    picture, own = data.dataset("val")[0]
    assert all(len(caption.ids) == 5 and caption.ids[-1] == 0 for caption in own)
    assert all(len(reference.split()) > 3 for reference in picture.references)


def test_java_scores_are_asked_for_in_test_only(tmp_path, monkeypatch):
    from lit_attn.metrics import java

    asked = []

    def meteor(texts, references):
        asked.append(len(texts))
        return java.JavaScores(31.7, np.zeros(len(texts)))

    monkeypatch.setattr(java, "meteor", meteor)
    data = scenes()
    task = tiny(data, meteor=True)
    assert "val/meteor" not in trainer(tmp_path).validate(task, data, verbose=False)[0]
    assert trainer(tmp_path).test(task, data, verbose=False)[0]["test/meteor"] == pytest.approx(31.7)
    assert asked == [5]
