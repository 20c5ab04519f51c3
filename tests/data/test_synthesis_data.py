"""Does chance in samples depend on seed, epoch and picture alone, and does evaluation leave nothing to it?"""

from random import Random

import numpy as np
import pytest
import torch

from lit_attn.data.synthesis import (
    CaptionPool,
    Pictures,
    Saying,
    SynthesisData,
    View,
    collate,
)
from lit_attn.errors import UserError
from lit_attn.types import SynthesisBatch
from lit_attn.vocabulary import CaptionWords

WORDS = CaptionWords(tuple(f"w{i}" for i in range(1, 60)))
SIZE, SIDE = 11, 6
LENGTHS = (3, 9, 14)
"""Words of the captions that every picture has."""


class Patterns(Pictures):
    """Picture i has i in its first pixel and three captions, except the last, which has one."""

    def __len__(self) -> int:
        return SIZE

    def class_id(self, picture: int) -> int:
        return picture // 2

    def sayings(self, picture: int) -> list[Saying]:
        lengths = LENGTHS if picture < SIZE - 1 else LENGTHS[:1]
        return [
            Saying(
                caption_id=picture * 3 + i,
                sample_id=f"p{picture}-{i}",
                words=tuple(f"w{picture + j + 1}" for j in range(length)),
                ids=tuple(picture + j + 1 for j in range(length)),
            )
            for i, length in enumerate(lengths)
        ]

    def view(self, picture: int, chance: Random | None) -> View:
        pixels = np.full((SIDE, SIDE, 3), 17, np.uint8)
        pixels[0, 0] = picture
        view = View(picture, self.class_id(picture), f"p{picture}", pixels)
        return view.mirrored() if chance is not None and chance.random() < 0.5 else view


class PatternData(SynthesisData):
    def __init__(self, **options) -> None:
        settings = {"max_words": 5, "eval_max_words": 7, "captions_per_picture": 1, "sentences": None, "batch_size": 4,
                    "eval_batch_size": 3, "num_workers": 0, "seed": 0}  # fmt: skip
        super().__init__(**(settings | options))

    vocabulary = WORDS
    side = SIDE

    def split_name(self, stage: str) -> str:
        return stage

    def read_pictures(self, split: str) -> Patterns:
        return Patterns()


def same(one: SynthesisBatch, other: SynthesisBatch) -> bool:
    return (
        one.sample_id == other.sample_id
        and one.words == other.words
        and torch.equal(one.tokens, other.tokens)
        and torch.equal(one.image, other.image)
    )


def epochs(data: SynthesisData, count: int) -> list[SynthesisBatch]:
    loader = data.train_dataloader()
    return [batch for _ in range(count) for batch in loader]


def seen(batch: SynthesisBatch, row: int) -> tuple[object, ...]:
    return batch.sample_id[row], batch.words[row], bool(batch.image[row, 0, 0, 0] == batch.image[row, 0, 1, 1])


def test_samples_depend_on_seed_epoch_and_picture_alone():
    data, again = PatternData(), PatternData(batch_size=2)
    found = {(epoch, i): data.dataset("train")[epoch * SIZE + i] for epoch in range(3) for i in range(SIZE)}
    for epoch, i in reversed(found):
        (view, saying), (other_view, other_saying) = found[epoch, i], again.dataset("train")[epoch * SIZE + i]
        assert view.image_id == i
        assert saying == other_saying
        assert (view.pixels == other_view.pixels).all()
    captions = [[found[epoch, i][1].caption_id for i in range(SIZE)] for epoch in range(3)]
    assert captions[0] != captions[1] != captions[2]
    other = [PatternData(seed=1).dataset("train")[i][1].caption_id for i in range(SIZE)]
    assert other != captions[0]


def test_every_caption_and_both_sides_are_seen_in_time():
    data = PatternData()
    shown = [data.dataset("train")[epoch * SIZE] for epoch in range(40)]
    assert {saying.caption_id for _, saying in shown} == {0, 1, 2}
    assert {bool(view.pixels[0, 0, 0] == 0) for view, _ in shown} == {True, False}


def test_long_captions_keep_some_words_in_their_order_in_training_and_the_first_in_evaluation():
    data = PatternData(captions_per_picture=3)
    kept = set()
    for epoch in range(60):
        _, saying = data.dataset("train")[epoch * SIZE]
        whole = Patterns().sayings(0)[saying.caption_id]
        assert len(saying.ids) == min(len(whole.ids), 5)
        assert list(saying.ids) == sorted(saying.ids)
        assert saying.words == tuple(f"w{i}" for i in saying.ids)
        if saying.caption_id == 2:
            kept.add(saying.ids)
    assert len(kept) > 5
    assert len({place for ids in kept for place in ids}) == 14, "any word may stay"
    assert [len(data.dataset("val")[i][1].ids) for i in range(3)] == [3, 7, 7]
    assert data.dataset("val")[2][1].ids == tuple(range(1, 8))


def test_the_training_loader_tells_samples_the_epoch():
    data = PatternData()
    first, second = (epochs(data, 2)[i : i + 2] for i in (0, 2))
    looks = [
        {batch.image_id[row].item(): seen(batch, row) for batch in part for row in range(4)} for part in (first, second)
    ]
    shared = looks[0].keys() & looks[1].keys()
    assert len(shared) > 3
    assert any(looks[0][i] != looks[1][i] for i in shared)
    for epoch, part in enumerate((first, second)):
        for batch in part:
            wanted = collate([data.dataset("train")[epoch * SIZE + i] for i in batch.image_id.tolist()])
            assert same(batch, wanted)


def test_workers_change_nothing():
    alone, helped = epochs(PatternData(), 2), epochs(PatternData(num_workers=2), 2)
    assert len(alone) == 4
    assert all(same(one, other) for one, other in zip(alone, helped, strict=True))


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_goes_on_with_the_very_next_samples(stop, workers):
    whole = epochs(PatternData(), 3)
    cut = PatternData(num_workers=workers)
    loader, before = cut.train_dataloader(), []
    while len(before) < stop:
        for batch in loader:
            before.append(batch)
            if len(before) == stop:
                break
    resumed = PatternData(num_workers=workers)
    resumed.load_state_dict(cut.state_dict())
    after, goes_on = [], resumed.train_dataloader()
    while len(before) + len(after) < len(whole):
        after += list(goes_on)
    assert all(same(one, other) for one, other in zip(before + after, whole, strict=True))


class Trainer:
    def __init__(self, rank: int, world_size: int) -> None:
        self.global_rank, self.world_size = rank, world_size


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_the_samples(world_size):
    trained, judged = [], []
    for rank in range(world_size):
        data = PatternData(batch_size=2)
        data.trainer = Trainer(rank, world_size)
        trained.append([i for batch in data.train_dataloader() for i in batch.image_id.tolist()])
        judged += [i for batch in data.val_dataloader() for i in batch.image_id.tolist()]
    assert len({len(share) for share in trained}) == 1
    flat = [i for share in trained for i in share]
    assert len(set(flat)) == len(flat) >= SIZE - 2 * world_size
    assert sorted(judged) == list(range(SIZE))


def test_a_process_without_samples_gets_an_empty_batch():
    data = PatternData()
    data.trainer = Trainer(SIZE, SIZE + 1)
    (batch,) = data.val_dataloader()
    assert len(batch) == 0
    assert batch.image.shape == (0, 3, SIDE, SIDE)
    assert batch.words == ()


def test_evaluation_takes_the_first_captions_of_every_picture():
    one = list(PatternData().test_dataloader())
    assert [name for batch in one for name in batch.sample_id] == [f"p{i}-0" for i in range(SIZE)]
    assert all((batch.image[:, 0, 1, 1] == 17 / 127.5 - 1).all() for batch in one)
    two = [name for batch in PatternData(captions_per_picture=2).test_dataloader() for name in batch.sample_id]
    assert two == [f"p{i}-{j}" for i in range(SIZE) for j in range(2 if i < SIZE - 1 else 1)]


def test_a_batch_is_padded_and_its_pictures_go_from_minus_one_to_one():
    pixels = np.arange(3 * 2 * 3, dtype=np.uint8).reshape(3, 2, 3)
    pixels[0, 0] = 0, 255, 51
    cells = np.zeros((2, 3, 2), bool)
    cells[0, 1, 0] = cells[1, 2, 1] = True
    view = View(7, 4, "name", pixels, cells, np.array([2, 5, 0]), 1)
    short = Saying(3, "s", ("a",), (9,), ((),), main_kind=-1, main_color=-1)
    long = Saying(4, "l", ("b", "c", "d"), (1, 2, 3), ((1,), (0, 1), ()), main_kind=6, main_color=8)
    batch = collate([(view, short), (view.mirrored(), long)])
    assert batch.tokens.tolist() == [[9, 0, 0], [1, 2, 3]]
    assert batch.token_mask.tolist() == [[True, False, False], [True, True, True]]
    assert (batch.caption_id.tolist(), batch.image_id.tolist(), batch.class_id.tolist()) == ([3, 4], [7, 7], [4, 4])
    assert batch.image.shape == (2, 3, 3, 2)
    torch.testing.assert_close(batch.image[0, :, 0, 0], torch.tensor([-1.0, 1.0, -0.6]))
    assert torch.equal(batch.image[1], batch.image[0].flip(2))
    assert batch.word_cells.shape == (2, 3, 3, 2)
    assert batch.word_cells[1, 0].nonzero().tolist() == [[2, 0]]
    assert batch.word_cells[1, 1].nonzero().tolist() == [[1, 1], [2, 0]]
    assert not batch.word_cells[0].any()
    assert not batch.word_cells[1, 2].any()
    assert (batch.main_kind.tolist(), batch.main_color.tolist()) == ([-1, 6], [-1, 8])
    assert batch.looks.tolist() == [[2, 5, 0]] * 2
    assert batch.main_thing.tolist() == [1, 1]


def test_the_pool_has_all_captions_with_their_classes():
    pool: CaptionPool = PatternData().caption_pool("test")
    assert len(pool) == 3 * (SIZE - 1) + 1
    told = [(saying.ids[:7], i) for i in range(SIZE) for saying in Patterns().sayings(i)]
    for row, (ids, picture) in enumerate(told):
        assert tuple(pool.tokens[row][pool.token_mask[row]].tolist()) == ids
        assert (pool.class_id[row], pool.image_id[row]) == (picture // 2, picture)


def test_a_caption_without_known_words_is_named():
    with pytest.raises(UserError, match="The caption p3-1 has no word that the vocabulary knows"):
        Saying(1, "p3-1", (), ())


@pytest.mark.parametrize("name", ["max_words", "eval_max_words", "captions_per_picture", "batch_size"])
def test_sizes_below_one_are_named(name):
    with pytest.raises(UserError, match=f"data.{name} must be at least 1, got 0"):
        PatternData(**{name: 0})
