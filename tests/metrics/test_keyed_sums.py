"""Are rows added up by their key, whenever they come?"""

import numpy as np
import pytest

from lit_attn.metrics.keyed_sums import KeyedSums, added_up


@pytest.mark.parametrize("waiting", [3, 10**6], ids=["added up at once", "added up at the end"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_sums_by_key_equal_a_dictionary(monkeypatch, waiting, parts):
    monkeypatch.setattr("lit_attn.metrics.keyed_sums.WAITING", waiting)
    rng = np.random.default_rng(0)
    words = np.array(["sofa", "", "a b", "ütze", "🪑", "Sofa", "zebra"])
    metric, wanted = KeyedSums(), {}
    for _ in range(5):
        names = [rng.permutation(words)[:5].tolist() for _ in range(parts)]
        index, values = rng.integers(0, 5, (11, parts)), rng.normal(size=(11, 2))
        metric.update(names, index, values)
        for places, row in zip(index.tolist(), values, strict=True):
            key = tuple(names[p][place] for p, place in enumerate(places))
            wanted[key] = wanted.get(key, 0) + row
    keys, sums = metric.compute().keys, metric.compute().sums
    assert [tuple(key) for key in keys.tolist()] == sorted(wanted)
    np.testing.assert_allclose(sums, [wanted[key] for key in sorted(wanted)], atol=1e-12)
    metric.reset()
    assert len(metric.compute().keys) == 0


def test_nothing_changes_nothing():
    metric = KeyedSums()
    metric.update([["sofa"]], np.zeros((1, 1), np.int64), np.ones((1, 2)))
    metric.update([[]], np.zeros((0, 1), np.int64), np.zeros((0, 2)))
    assert metric.compute().sums.tolist() == [[1.0, 1.0]]


def test_sums_of_several_are_added_by_key():
    one, other = KeyedSums(), KeyedSums()
    one.update([["sofa", "lamp"], ["red"]], np.array([[0, 0], [1, 0]]), np.array([[1.0], [2.0]]))
    other.update([["a", "sofa"], ["red"]], np.array([[1, 0], [0, 0]]), np.array([[4.0], [8.0]]))
    found = added_up([one.compute(), other.compute()], 2)
    assert found.keys.tolist() == [["a", "red"], ["lamp", "red"], ["sofa", "red"]]
    assert found.sums.tolist() == [[8.0], [2.0], [5.0]]
