"""Are Scenes a fair reading task, the same for everybody, with known causes and an honest ceiling?"""

from dataclasses import fields

import numpy as np
import pytest
import torch

from lit_attn.data.answer_words import END, START
from lit_attn.data.scenes.detections import detect
from lit_attn.data.scenes.ocr import read_text
from lit_attn.data.scenes.reading import reading_questions
from lit_attn.data.scenes.reading_data import QUESTION_KINDS, ScenesReading, list_asked
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import COLORS, KINDS, WORDS
from lit_attn.data.vocab import tokenize
from lit_attn.errors import UserError
from lit_attn.ops.answers import accuracy
from lit_attn.ops.phoc import phoc
from lit_attn.types import ReadingBatch

SIZES = {"train_questions": 53, "val_questions": 101, "test_questions": 11}


@pytest.fixture(scope="module")
def data() -> ScenesReading:
    return ScenesReading(**SIZES, eval_batch_size=101, region_dim=13)


@pytest.fixture(scope="module")
def batch(data) -> ReadingBatch:
    (whole,) = data.val_dataloader()
    return whole


def same(one: ReadingBatch, other: ReadingBatch) -> None:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, field.name


def test_samples_do_not_depend_on_workers_order_or_size_of_the_set():
    plain = ScenesReading(val_questions=11, region_dim=13, eval_batch_size=3)
    workers = ScenesReading(val_questions=23, region_dim=13, eval_batch_size=3, num_workers=2)
    one, other = list(plain.val_dataloader()), list(workers.val_dataloader())
    for here, there in zip(one[:3], other[:3], strict=True):
        same(here, there)
    backwards = ScenesReading(val_questions=11, region_dim=13).dataset("val")
    for index in reversed(range(9)):
        sample, together = backwards[index], one[index // 3]
        np.testing.assert_array_equal(sample.regions, together.regions[index % 3].numpy())
        assert sample.lesson.previous == tuple(together.previous[index % 3].tolist())


def test_a_batch_holds_what_the_scene_and_the_question_say(data, batch):
    for i, (index, number) in enumerate(list_asked(0, "val", 101, False, 10)):
        scene = make_scene(0, "val", index)
        question, tokens, found = reading_questions(scene, 3)[number], read_text(scene), detect(scene, dim=13)
        assert batch.sample_id[i] == f"{scene.scene_id}-{number}"
        assert batch.image_id[i] == index
        assert batch.region_labels[i] == found.labels
        assert batch.words[i] == ("<start>", *question.annotation.tokens, "<end>")
        assert batch.token_mask[i].sum() == len(batch.words[i])
        assert batch.answers[i] == question.answers
        assert batch.kind[i] == question.frame.split()[0]
        assert batch.ocr_words[i] == tuple(token.text for token in tokens)
        assert batch.ocr_mask[i].sum() == len(tokens)
        np.testing.assert_array_equal(batch.regions[i], found.features)
        np.testing.assert_array_equal(batch.boxes[i], found.boxes)
        np.testing.assert_array_equal(batch.ocr_phoc[i, : len(tokens)], phoc(batch.ocr_words[i]))
        for place, token in enumerate(tokens):
            shown = [f for f, thing in zip(found.features, found.thing, strict=True) if thing == token.thing >= 0]
            expected = shown[0] if shown else np.zeros(13)
            np.testing.assert_array_equal(batch.ocr_regions[i, place], expected)
            np.testing.assert_allclose(batch.ocr_boxes[i, place], token.box, atol=1e-6)


def test_causes_are_the_regions_and_the_token_that_the_answer_rests_on(batch):
    landmarks = 0
    for i, (index, number) in enumerate(list_asked(0, "val", 101, False, 10)):
        scene = make_scene(0, "val", index)
        question, tokens, found = reading_questions(scene, 3)[number], read_text(scene), detect(scene, dim=13)
        expected = [thing in question.causes for thing in found.thing.tolist()]
        assert batch.region_causes[i].tolist() == expected
        asked = next(phrase.objects[0] for phrase in question.annotation.phrases if phrase.objects)
        landmarks += len(question.causes) > 1
        on_it = [token.thing == asked for token in tokens]
        assert batch.ocr_causes[i, : len(tokens)].tolist() == on_it
        assert not batch.ocr_causes[i, len(tokens) :].any()
    assert landmarks > 5


def test_what_is_taught_spells_the_answer(data, batch):
    words, taught = data.answer_words, 0
    for i in range(len(batch)):
        steps = int(batch.step_mask[i].sum())
        if not steps:
            continue
        taught += 1
        path = batch.previous[i, 1:steps].tolist()
        assert batch.previous[i, 0] == START
        assert accuracy(words.decode(path, batch.ocr_words[i]), batch.answers[i]) >= 0.6
        assert batch.targets[i, 0, path[0]] >= 0.6
        assert batch.targets[i, steps - 1, END] == 1
        assert not batch.targets[i, steps:].any()
        if batch.kind[i] == "word":
            assert path[0] >= len(words)
    assert taught > 80


def test_printed_words_are_no_answer_words(data):
    known = set(data.answer_words.words)
    assert not known & set(WORDS)
    assert {*COLORS} <= known
    assert {kind.name for kind in KINDS.values() if kind.printed} <= known


def test_the_ceiling_is_the_accuracy_of_the_best_answer_that_can_be_said(data, batch):
    best = []
    for i in range(len(batch)):
        said = {*batch.ocr_words[i], *data.answer_words.words[4:]}
        best.append(max((accuracy(a, batch.answers[i]) for a in batch.answers[i] if {*a.split()} <= said), default=0.0))
    ceiling = data.reference_scores("val")["ceiling_accuracy"]
    assert ceiling == pytest.approx(np.mean(best), abs=1e-9)
    assert 0.7 < ceiling < 0.95


def test_only_readable_questions_can_all_be_answered():
    data = ScenesReading(val_questions=61, only_readable=True)
    assert data.reference_scores("val") == {"ceiling_accuracy": 1.0}
    (batch,) = data.val_dataloader()
    assert batch.step_mask[:, 0].all()
    assert set(batch.kind) == set(QUESTION_KINDS)
    for kind, answers, read in zip(batch.kind, batch.answers, batch.ocr_words, strict=True):
        assert kind != "word" or any(answer in read for answer in answers)


def test_a_token_that_the_model_does_not_see_cannot_be_said():
    wide, narrow = (ScenesReading(val_questions=101, max_ocr=count) for count in (10, 1))
    assert narrow.reference_scores("val")["ceiling_accuracy"] < wide.reference_scores("val")["ceiling_accuracy"]
    (batch,) = narrow.val_dataloader()
    assert batch.ocr_mask.shape[1] == 1


def test_hardly_any_word_of_validation_questions_is_unknown(data, batch):
    unknown = data.vocabulary.vocabulary.ids["<unk>"]
    assert (batch.tokens == unknown).sum() / batch.token_mask.sum() < 0.003
    assert all(tuple(tokenize(" ".join(words[1:-1]))) == words[1:-1] for words in batch.words)
    assert data.vocab_size == len(data.vocabulary)
    assert batch.targets.shape[2] == data.num_answers + batch.ocr_mask.shape[1]


def test_pictures_without_tokens_are_masked(batch):
    empty = [i for i, words in enumerate(batch.ocr_words) if not words]
    assert empty
    assert not batch.ocr_mask[empty].any()
    assert not batch.ocr_vectors[empty].any()


def test_compose_is_its_own_split_and_pictures_can_be_shown():
    data = ScenesReading(test_questions=3, test_split="compose")
    assert data.dataset("test")[0].sample_id.startswith("compose-")
    assert data.dataset("predict") is data.dataset("test")
    assert data.show(2, "test").size == (320, 320)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_question_tokens", 2), ("max_objects", 0), ("max_ocr", 0), ("max_steps", 0), ("batch_size", 0)],
)
def test_impossible_sizes_are_named(name, value):
    with pytest.raises(UserError, match=f"data.{name} must be at least"):
        ScenesReading(**{name: value})


def test_a_batch_without_samples_keeps_its_widths(batch):
    assert batch.emptied().targets.shape == (0, *batch.targets.shape[1:])
    assert len(batch.emptied()) == 0
