"""Is every sample seen as promised, in an order that a resume can continue?"""

import re

import pytest

from lit_attn.data.loader import EvalLoader, Loading, TrainLoader
from lit_attn.errors import UserError


class Numbers:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index


class Batch(list):
    def emptied(self) -> "Batch":
        return Batch()


def loading(size: int = 23, batch: int = 3, **options) -> Loading:
    return Loading(Numbers(size), batch, Batch, **options)


@pytest.mark.parametrize("world_size", [1, 2, 3, 29])
def test_evaluation_shards_hold_every_sample_once(world_size):
    seen = []
    for rank in range(world_size):
        loader = EvalLoader(loading(rank=rank, world_size=world_size))
        batches = list(loader)
        assert len(batches) == len(loader)
        seen += [sample for batch in batches for sample in batch]
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_training_shards_have_equal_length_and_do_not_overlap(world_size):
    loaders = [TrainLoader(loading(rank=rank, world_size=world_size), seed=7) for rank in range(world_size)]
    shards = [list(loader) for loader in loaders]
    assert len({len(shard) for shard in shards}) == 1
    assert all(len(batch) == 3 for shard in shards for batch in shard)
    seen = [sample for shard in shards for batch in shard for sample in batch]
    assert len(set(seen)) == len(seen)


def test_epochs_differ_and_repeat_with_the_seed():
    one, two = TrainLoader(loading(), seed=1), TrainLoader(loading(), seed=1)
    first, second = list(one), list(one)
    assert first != second
    assert [list(two), list(two)] == [first, second]
    assert list(TrainLoader(loading(), seed=2)) != first


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 6, 7, 8, 13, 14])
def test_a_loaded_state_continues_with_the_very_next_batch(workers, stop):
    def batches(loader, count):
        found = []
        iterator = iter(loader)
        while len(found) < count:
            try:
                found.append(next(iterator))
            except StopIteration:
                iterator = iter(loader)
        return found

    whole = batches(TrainLoader(loading(num_workers=workers), seed=3), 21)
    cut = TrainLoader(loading(num_workers=workers), seed=3)
    before = batches(cut, stop)
    resumed = TrainLoader(loading(num_workers=workers), seed=3)
    resumed.load_state_dict(cut.state_dict())
    assert before + batches(resumed, 21 - stop) == whole


def test_stopping_an_epoch_early_goes_on_with_the_next_one():
    loader = TrainLoader(loading(), seed=3)
    for _ in zip(range(2), loader, strict=False):
        pass
    assert list(loader) == list(loader.loading.fetch(loader.batches(1)))


@pytest.mark.parametrize("done", [0, 3, 7])
def test_an_iterator_that_nobody_reads_moves_nothing(done):
    """Lightning makes one when it estimates the number of steps, before the epoch is gone on with."""
    whole = TrainLoader(loading(), seed=5)
    state = {"epoch": 2, "done": done}
    whole.load_state_dict(state)
    resumed = TrainLoader(loading(), seed=5)
    resumed.load_state_dict(state)
    iter(resumed)
    iter(resumed)
    assert list(resumed) == list(whole)


class Picky(Numbers):
    def __getitem__(self, index: int) -> int:
        raise UserError(f"Sample {index} is bad. Leave it out.")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [EvalLoader, lambda own: TrainLoader(own, seed=0)])
def test_mistakes_of_users_are_told_without_the_traceback_of_a_worker(workers, kind):
    loader = kind(Loading(Picky(5), 1, Batch, num_workers=workers))
    with pytest.raises(UserError) as caught:
        list(loader)
    assert re.fullmatch(r"Sample \d is bad. Leave it out.", str(caught.value))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_samples_of_like_length_share_a_batch_and_processes_stay_alike(world_size):
    lengths = [(7 * i) % 41 for i in range(397)]
    shards = [
        TrainLoader(loading(397, rank=rank, world_size=world_size, lengths=lengths), seed=5)
        for rank in range(world_size)
    ]
    epochs = [[list(shard) for shard in shards] for _ in range(2)]
    for epoch in epochs:
        seen = [sample for shard in epoch for batch in shard for sample in batch]
        assert len(seen) == len(set(seen)) == world_size * len(shards[0]) * 3
        assert all(len(batch) == 3 for shard in epoch for batch in shard)
    batches = epochs[0][0]
    spread = sum(max(map(lengths.__getitem__, b)) - min(map(lengths.__getitem__, b)) for b in batches) / len(batches)
    plain = list(TrainLoader(loading(397, world_size=world_size), seed=5))
    unsorted = sum(max(map(lengths.__getitem__, b)) - min(map(lengths.__getitem__, b)) for b in plain) / len(plain)
    assert spread < unsorted / 4
    longest = [max(lengths[i] for i in batch) for batch in batches]
    assert longest != sorted(longest)
    assert epochs[0] != epochs[1]
    for others in epochs[0][1:]:  # the same step works on the same lengths everywhere
        assert all(abs(max(lengths[i] for i in b) - long) <= 2 for b, long in zip(others, longest, strict=True))
