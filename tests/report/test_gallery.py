"""Samples are read whole, or refused with the file and key."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.errors import ReportError
from lit_attn.report.gallery import picture_size, read_gallery, read_maps, read_sample

SampleWriter = Callable[..., None]


def change(path: Path, **replaced: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | replaced))


@pytest.fixture
def sample(tmp_path: Path, sample_writer: SampleWriter) -> Path:
    sample_writer(tmp_path, 0)
    return tmp_path / "scene-0.json"


def test_sample_and_maps(sample: Path) -> None:
    found = read_sample(sample)
    maps = read_maps(found)
    assert (found.sample_id, len(found.words), len(found.boxes)) == ("scene-0", 14, 36)
    assert {key: array.shape for key, array in maps.items()} == {
        "cross": (8, 14, 36),
        "match": (1, 36, 14),
        "self": (8, 14, 14),
    }
    with np.load(sample.with_suffix(".npz")) as stored:
        np.testing.assert_array_equal(maps["cross"], stored["cross"].astype(np.float32))
    assert found.picture is not None
    assert picture_size(found.picture, found.picture.read_bytes()) == (480, 360)


def test_samples_come_in_natural_order(tmp_path: Path, sample_writer: SampleWriter) -> None:
    for number in (10, 2, 1):
        sample_writer(tmp_path, number)
    assert [found.sample_id for found in read_gallery(tmp_path)] == ["scene-1", "scene-2", "scene-10"]


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"words": "a b"}, r"scene-0\.json, key 'words': 'a b', expected a list of texts"),
        ({"labels": ["one"]}, r"key 'labels': 1 labels for 36 boxes"),
        ({"boxes": [[0, 0, 1]]}, r"key 'boxes\[0\]'"),
        ({"boxes": [[0.9, 0, 0.1, 1]], "labels": ["x"]}, r"key 'boxes\[0\]'.*x1 <= x2"),
        ({"picture": "../secret.png"}, r"key 'picture': '\.\./secret\.png', expected the name of a PNG file in"),
        ({"picture": "gone.png"}, r"key 'picture': 'gone\.png'"),
        (
            {"gold": [{"words": [99], "regions": []}]},
            r"key 'gold\.words': \[99\], expected a list of whole numbers from 0 to 13",
        ),
        (
            {"maps": [{"key": "cross", "site": "s", "query": "pixels", "key_stream": "words"}]},
            r"key 'maps\.query': 'pixels'",
        ),
        ({"facts": {"a": [1]}}, r"key 'facts\.a': \[1\], expected a number or a text"),
        ({"sample_id": None}, r"key 'sample_id': None, expected text"),
    ],
)
def test_malformed_samples_name_the_key(sample: Path, replaced: dict[str, object], message: str) -> None:
    change(sample, **replaced)
    with pytest.raises(ReportError, match=message):
        read_sample(sample)


def test_broken_json_names_the_line(sample: Path) -> None:
    sample.write_text('{"words":\n [}')
    with pytest.raises(ReportError, match=r"scene-0\.json, line 2: not valid JSON"):
        read_sample(sample)


def test_unknown_array(sample: Path) -> None:
    change(sample, maps=[{"key": "gone", "site": "s", "query": "words", "key_stream": "regions"}])
    with pytest.raises(ReportError, match=r"scene-0\.npz: no array 'gone'; it holds \['cross', 'match', 'self'\]"):
        read_maps(read_sample(sample))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((8, 36, 14)), r"array 'cross': shape \(8, 36, 14\), expected \(heads, 14 words, 36 regions\)"),
        (np.zeros((8, 14, 36), dtype=np.int64), r"array 'cross': type int64, expected floating point"),
        (np.full((8, 14, 36), -0.5), r"array 'cross': negative weight -0\.5"),
        (np.array([{"code": 1}], dtype=object), r"scene-0\.npz: not a readable \.npz of plain arrays"),
    ],
)
def test_malformed_arrays_name_the_key(sample: Path, array: np.ndarray, message: str) -> None:
    np.savez(sample.with_suffix(".npz"), cross=array, match=np.ones((1, 36, 14)), self=np.ones((8, 14, 14)))
    with pytest.raises(ReportError, match=message):
        read_maps(read_sample(sample))


def test_truncated_and_missing_arrays(sample: Path) -> None:
    arrays = sample.with_suffix(".npz")
    arrays.write_bytes(arrays.read_bytes()[:500])
    with pytest.raises(ReportError, match=r"scene-0\.npz: not a readable"):
        read_maps(read_sample(sample))
    arrays.unlink()
    with pytest.raises(ReportError, match=r"scene-0\.npz: missing, but scene-0\.json names 3 maps"):
        read_maps(read_sample(sample))


def test_picture_that_is_no_png(sample: Path) -> None:
    with pytest.raises(ReportError, match="not a PNG picture"):
        picture_size(sample, b"GIF89a" + bytes(40))
