"""Are answered questions drawn in predict and kept in the gallery: the right ones, whole, whatever the batches?"""

import json
from dataclasses import replace
from pathlib import Path

import lightning as L
import numpy as np
import pytest
from PIL import Image

from lit_attn.callbacks import answer_pictures
from lit_attn.callbacks.answer_pictures import AnswerPictures
from lit_attn.callbacks.answered import UNSEEN_TRUTH, first_samples
from lit_attn.callbacks.attention_gallery import AttentionGallery
from lit_attn.data.scenes.asking import ScenesQuestions
from lit_attn.data.scenes.reading_data import ScenesReading
from lit_attn.drawing.reading import ReadAnswer
from lit_attn.drawing.steps import StepsAnswer
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionTape, is_heard
from lit_attn.report.answers import read_answer
from lit_attn.report.gallery import gallery_files
from lit_attn.tasks.answering import Answering
from lit_attn.tasks.reading import Reading
from tests.callbacks.test_in_lightning import trainer
from tests.cli.conftest import run_inside


def mac(eval_batch_size: int = 2, steps: int = 3, self_attention: bool = True) -> tuple[Answering, ScenesQuestions]:
    L.seed_everything(3, verbose=False)
    data = ScenesQuestions(
        8, 5, 3, questions_per_scene=3, side=5, grid_dim=24, batch_size=4, eval_batch_size=eval_batch_size
    )
    sizes = (data.vocab_size, data.num_answers, data.grid_dim)
    return Answering(*sizes, dim=16, word_dim=8, steps=steps, self_attention=self_attention), data


def m4c(eval_batch_size: int = 2) -> tuple[Reading, ScenesReading]:
    L.seed_everything(3, verbose=False)
    data = ScenesReading(8, 5, 3, region_dim=24, max_objects=11, batch_size=4, eval_batch_size=eval_batch_size)
    sizes = (data.vocab_size, data.num_answers, data.region_dim, data.word_vector_dim, data.max_steps)
    return Reading(*sizes, dim=24, num_heads=2, hidden=32, layers=3, text_layers=1), data


def kept(folder: Path) -> dict[str, StepsAnswer | ReadAnswer]:
    """The gallery as the report reads it."""
    samples = [read_answer(path, source) for path, source in gallery_files(folder / "gallery")]
    return {sample.sample_id: sample.load() for sample in samples}


def test_the_gallery_keeps_one_question_of_each_of_the_first_pictures(tmp_path):
    task, data = mac()
    trainer(tmp_path, AttentionGallery(samples=3)).validate(task, datamodule=data, verbose=False)
    found = kept(tmp_path)
    assert list(found) == [data.dataset("val")[place][1][place].sample_id for place in range(3)]
    batch = next(iter(data.val_dataloader()))
    with AttentionTape(task.net, ("control", "read")) as tape:
        scores = task.eval()(batch)
    first = found[batch.sample_id[0]]
    assert first.words == batch.words[0]
    assert first.answer == data.answers[int(scores[0].argmax())]
    assert first.truth == data.answers[int(batch.answer[0])]
    np.testing.assert_array_equal(first.causes.reshape(-1), batch.causes[0])
    for step in range(3):
        read, control = (tape[site][step].weights[0, 0, 0].detach().numpy() for site in ("read", "control"))
        np.testing.assert_allclose(first.read[step].reshape(-1), read, rtol=2e-3)
        np.testing.assert_allclose(first.control[step], control[: len(first.words)], rtol=2e-3)
    with Image.open(tmp_path / "gallery" / f"{batch.sample_id[0]}.png") as picture:
        assert picture.tobytes() == data.show(0, "val").tobytes()


def test_the_gallery_keeps_the_first_questions_to_read(tmp_path):
    task, data = m4c()
    trainer(tmp_path, AttentionGallery(samples=4)).validate(task, datamodule=data, verbose=False)
    found = kept(tmp_path)
    dataset = data.dataset("val")
    assert list(found) == [dataset[place].sample_id for place in range(4)]
    for place, asked in enumerate(found.values()):
        sample = dataset[place]
        assert (asked.words, asked.ocr_words, asked.people) == (sample.words, sample.ocr_words, sample.answers)
        np.testing.assert_allclose(asked.ocr_boxes, sample.ocr_boxes, atol=1e-6)
        assert asked.question.shape[:2] == (3, 2)
        whole = sum(part.sum(-1) for part in (asked.question, asked.objects, asked.ocr, asked.decoded))
        np.testing.assert_allclose(whole, 1, atol=5e-3, err_msg="nothing of a row is lost, and padding has none")


@pytest.mark.parametrize("make", [mac, m4c])
def test_the_same_samples_whatever_the_batches(make, tmp_path):
    folders = []
    for size in (1, 2, 5):
        task, data = make(size)
        folders.append(tmp_path / str(size))
        trainer(folders[-1], AttentionGallery(samples=3)).test(task, datamodule=data, verbose=False)
    names = [sorted(path.name for path in (folder / "gallery").iterdir()) for folder in folders]
    assert names[0] == names[1] == names[2]
    assert len(names[0]) == 9
    for file in (name for name in names[0] if name.endswith(".json")):
        texts = [json.loads((folder / "gallery" / file).read_text()) for folder in folders]
        assert texts[0] == texts[1] == texts[2]


def test_the_first_question_of_a_picture_that_comes_in_pieces():
    """As in CLEVR, where every question is a sample of its own."""
    _, data = mac()
    whole = data.dataset("val")
    pieces = [(picture, [one]) for picture, asked in (whole[0], whole[1], whole[2]) for one in asked]
    data.dataset = lambda stage: pieces
    names = first_samples(data, "val", 2, one_per_picture=True)
    assert names == {whole[0][1][0].sample_id, whole[1][1][0].sample_id}
    assert len(first_samples(data, "val", 4, one_per_picture=False)) == 4
    assert first_samples(data, "val", 0, one_per_picture=False) == frozenset()


def test_a_truth_that_training_has_not_is_told(tmp_path, monkeypatch):
    task, data = mac()
    monkeypatch.setattr(
        data,
        "collate",
        lambda samples: replace(batch := ScenesQuestions.collate(samples), answer=batch.answer * 0 + 999),
    )
    trainer(tmp_path, AttentionGallery(samples=1)).validate(task, datamodule=data, verbose=False)
    (asked,) = kept(tmp_path).values()
    assert asked.truth == UNSEEN_TRUTH


def test_predict_draws_the_first_questions(tmp_path, monkeypatch):
    drawn = []
    original = answer_pictures.draw_steps
    monkeypatch.setattr(
        answer_pictures, "draw_steps", lambda asked, picture: drawn.append((asked, picture)) or original(asked, picture)
    )
    task, data = mac()
    (rows, *_) = trainer(tmp_path, AnswerPictures(questions=4)).predict(task, datamodule=data)
    sheets = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert sheets == ["test-0-0-0.png", "test-0-0-1.png", "test-0-0-2.png", "test-0-1-3.png"]
    assert [asked.answer for asked, _ in drawn] == [row["answer"] for row in rows][:4]
    assert drawn[3][1].tobytes() == data.show(1, "predict").tobytes()


def test_predict_without_pictures_draws_on_a_blank_one(tmp_path, monkeypatch):
    options = []
    original = answer_pictures.draw_reading

    def keep(asked, picture, **more):
        options.append((picture, more))
        return original(asked, picture, **more)

    monkeypatch.setattr(answer_pictures, "draw_reading", keep)
    task, data = m4c()
    data.show = lambda image_id, stage: None
    pictures = AnswerPictures(questions=2, layer=1, head=0, step=2, threshold=0.2)
    trainer(tmp_path, pictures).predict(task, datamodule=data)
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    assert options == [(None, {"layer": 1, "head": 0, "step": 2, "threshold": 0.2})] * 2


@pytest.mark.parametrize(
    ("wrong", "message"), [({"layer": 3}, "layer=3, but the model has 3 layers"), ({"head": 2}, "head=2, but")]
)
def test_layers_and_heads_that_do_not_exist_are_refused(tmp_path, wrong, message):
    task, data = m4c()
    with pytest.raises(UserError, match=message):
        trainer(tmp_path, AnswerPictures(**wrong)).predict(task, datamodule=data)


def test_steps_count_from_zero():
    with pytest.raises(UserError, match="count from 0; got step=-1"):
        AnswerPictures(step=-1)


def test_an_error_in_a_step_leaves_no_tape_behind(tmp_path):
    task, data = mac()
    task.predict_step = lambda *rest: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(tmp_path, AnswerPictures()).predict(task, datamodule=data)
    assert not is_heard(task.net.cell.read.site)


class Watch(L.Callback):
    """What the gallery folder holds after the sanity check."""

    def on_sanity_check_end(self, trainer, pl_module):
        self.found = list(Path(trainer.default_root_dir).glob("gallery/*"))


def test_nothing_is_kept_of_the_sanity_check(tmp_path):
    task, data = mac()
    watch = Watch()
    runner = trainer(tmp_path, AttentionGallery(samples=1), watch, limit_train_batches=1)
    runner.num_sanity_val_steps = 1
    runner.fit(task, datamodule=data)
    assert watch.found == []
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize(("recipe", "name"), [("tiny/mac", "test-0-0-0"), ("tiny/m4c", "test-0-0-0")])
def test_the_command_draws_without_being_asked(tmp_path, recipe, name):
    size = ["--data.test_scenes", "2"] if recipe == "tiny/mac" else ["--data.test_questions", "3"]
    done = run_inside(tmp_path, "predict", recipe, *size, "--run", "drawn")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "checkpoints" / "drawn" / "pictures" / f"{name}.png") as sheet:
        assert sheet.width >= 600
