"""Are painted pictures kept, each with the attention that made it, whatever the batches?"""

import lightning as L
import numpy as np
import pytest
import torch
from PIL import Image

from lit_attn.callbacks import paintings
from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.callbacks.paintings import PaintingPictures, painting_of, pixels
from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.drawing.painting import draw_painting
from lit_attn.drawing.sheet import draw_tiles
from lit_attn.errors import UserError
from lit_attn.models.attngan import Generator
from lit_attn.nn.tape import AttentionTape, is_heard, sites_of
from lit_attn.probes.painting import WordsInPicture
from lit_attn.types import SynthesisBatch
from tests.callbacks.test_in_lightning import trainer

SIDES = (8, 16)


class Painter(L.LightningModule):
    """What the callback needs of a task, and no more."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.net = Generator(text_dim=6, z_dim=3, condition_dim=2, width=2, sides=SIDES, residuals=1)
        self.embed = torch.nn.Embedding(vocab_size, 6)
        self.painted: list[torch.Tensor] = []

    def paint(self, batch: SynthesisBatch) -> list[torch.Tensor]:
        words = self.embed(batch.tokens) * batch.token_mask.unsqueeze(-1)
        noise = torch.stack([torch.full((5,), 0.1 * i) for i in batch.caption_id.tolist()])
        self.painted = self.net(words.sum(1), words, batch.token_mask, noise[:, :3], noise[:, 3:]).images
        return self.painted

    def predict_step(self, batch: SynthesisBatch, batch_idx: int) -> list[dict[str, str]]:
        self.paint(batch)
        return [{"sample": name} for name in batch.sample_id]

    def validation_step(self, batch: SynthesisBatch, batch_idx: int) -> None:
        self.paint(batch)


def painter(eval_batch_size: int = 2, **options: object) -> tuple[Painter, ScenesPictures]:
    L.seed_everything(3, verbose=False)
    data = ScenesPictures(8, 5, 5, side=SIDES[-1], eval_batch_size=eval_batch_size, **options)
    return Painter(data.vocab_size).eval(), data


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_caption_has_a_picture_and_the_first_have_a_sheet(tmp_path):
    task, data = painter()
    trainer(tmp_path, PaintingPictures(captions=3)).predict(task, datamodule=data, return_predictions=False)
    samples = [data.dataset("predict")[i][1].sample_id for i in range(5)]
    expected = [f"{name}-image.png" for name in samples] + [f"{name}.png" for name in samples[:3]]
    assert names(tmp_path / "paintings") == sorted(expected)
    batch = data.collate([data.dataset("predict")[1]])
    with torch.no_grad(), AttentionTape(task.net) as tape:
        painted = task.paint(batch)
    with Image.open(tmp_path / "paintings" / f"{samples[1]}-image.png") as picture:
        assert picture.size == (SIDES[-1], SIDES[-1])
        np.testing.assert_allclose(np.asarray(picture, int), pixels(painted[-1][0]).astype(int), atol=1)
    painting = painting_of(batch, 0, painted, list(tape))
    assert painting.words == batch.words[0]
    np.testing.assert_array_equal(painting.real, pixels(batch.image[0]))
    (weights,) = painting.maps
    record = tape["stage.2.words"][0].weights[0, 0].numpy()
    for y, x, word in ((0, 0, 0), (2, 5, 1), (7, 3, 2)):
        assert weights[word, y, x] == pytest.approx(record[y * 8 + x, word])
    with Image.open(tmp_path / "paintings" / f"{samples[1]}.png") as sheet:
        assert sheet.size == draw_painting(painting).size


def test_batches_do_not_change_who_belongs_to_whom(tmp_path, monkeypatch):
    found: list[list] = []
    original = paintings.draw_painting
    monkeypatch.setattr(paintings, "draw_painting", lambda one: found[-1].append(one) or original(one))
    for size in (1, 2, 5):
        found.append([])
        task, data = painter(size)
        trainer(tmp_path / str(size), PaintingPictures()).predict(task, datamodule=data, return_predictions=False)
    assert [len(one) for one in found] == [5, 5, 5]
    for alone, *together in zip(*found, strict=True):
        for other in together:
            assert other.words == alone.words
            np.testing.assert_allclose(other.maps[0], alone.maps[0], atol=1e-5)
            np.testing.assert_allclose(other.stages[-1].astype(int), alone.stages[-1].astype(int), atol=1)


def test_sentences_have_no_real_picture(tmp_path):
    task, data = painter(sentences="a red table")
    trainer(tmp_path, PaintingPictures()).predict(task, datamodule=data, return_predictions=False)
    assert names(tmp_path / "paintings") == ["sentence-1-image.png", "sentence-1.png"]
    batch = next(iter(data.predict_dataloader()))
    with torch.no_grad(), AttentionTape(task.net) as tape:
        assert painting_of(batch, 0, task.paint(batch), list(tape)).real is None


def test_validation_keeps_what_it_is_asked_for(tmp_path):
    task, data = painter()
    trainer(tmp_path / "none", PaintingPictures(glance=0)).validate(task, datamodule=data, verbose=False)
    assert not (tmp_path / "none" / "paintings").exists()
    trainer(tmp_path, PaintingPictures(validation_captions=1)).validate(task, datamodule=data, verbose=False)
    first = data.dataset("val")[0][1].sample_id
    assert names(tmp_path / "paintings" / "val") == [f"{first}-image.png", f"{first}.png"]


def test_many_pictures_are_shown_together(tmp_path):
    """The first ones by their captions, whatever the batches, with what they should show and whether they do."""
    kept = []
    task, data = painter()
    verdicts = {name: n % 2 == 0 for n, name in enumerate(data.dataset("val")[i][1].sample_id for i in range(5))}
    painted = task.paint

    def judged(batch, batch_idx):
        painted(batch)
        return {"verdicts": [verdicts[name] for name in batch.sample_id]}

    task.validation_step = judged
    for size in (2, 5):
        _, data = painter(size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paintings, "draw_tiles", lambda tiles: (kept.append(tiles), draw_tiles(tiles))[1])
            trainer(tmp_path, PaintingPictures(glance=3)).validate(task, datamodule=data, verbose=False)
    one, other = kept
    batch = data.collate([data.dataset("val")[i] for i in range(3)])
    expected = [
        f"{data.color_names[color]} {data.kind_names[kind]}" if kind >= 0 else " ".join(words)
        for kind, color, words in zip(batch.main_kind.tolist(), batch.main_color.tolist(), batch.words, strict=True)
    ]
    assert [tile.label for tile in one] == [tile.label for tile in other] == expected
    assert [tile.is_right for tile in one] == [tile.is_right for tile in other] == [True, False, True]
    with Image.open(tmp_path / "paintings" / "val.png") as sheet:
        assert sheet.size == draw_tiles(one).size


def test_the_probe_takes_every_site_of_the_generator(tmp_path):
    task, data = painter()
    probe = AttentionProbe([WordsInPicture()])
    trainer(tmp_path, probe).validate(task, datamodule=data, verbose=False)
    values = {(value.site, value.metric): value for value in probe.board.values()}
    captions = values["stage.2.words", "word_coverage"]
    assert captions.rows == 5
    assert 0 < captions.value <= 1
    assert values["stage.2.words", "word_mass"].rows > 0
    assert (tmp_path / "attention").is_dir()


def test_a_failing_step_leaves_no_tape_behind(tmp_path):
    task, data = painter()
    task.predict_step = lambda batch, batch_idx: (_ for _ in ()).throw(RuntimeError("no paint"))
    with pytest.raises(RuntimeError, match="no paint"):
        trainer(tmp_path, PaintingPictures()).predict(task, datamodule=data)
    assert not any(is_heard(site) for site in sites_of(task.net))


def test_numbers_of_captions_are_not_negative():
    with pytest.raises(UserError, match="captions must not be negative, got -1"):
        PaintingPictures(captions=-1)
