"""Samples of every form become streams and maps of the explorer, and attribution files are read strictly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.errors import ReportError
from lit_attn.report.runs import read_run
from lit_attn.report.shown import shown
from tests.report.test_answers import write_reading, write_steps


def attribute(folder: Path, sample: str, **arrays: np.ndarray) -> None:
    (folder / "gallery" / "attribution").mkdir(exist_ok=True)
    np.savez(folder / "gallery" / "attribution" / f"{sample}.npz", **arrays)


def test_a_question_answered_in_steps(tmp_path: Path) -> None:
    write_steps(tmp_path / "gallery")
    attribute(tmp_path, "q-0", **{"rollout.answer.words": np.ones((1, 3)), "rollout.answer.cells": np.ones((1, 12))})
    (sample,) = read_run(tmp_path).answers
    found = shown(sample)
    assert {stream.name: len(stream.items) for stream in found.streams} == {
        "words": 3,
        "steps": 2,
        "cells": 12,
        "answer": 1,
    }
    read, control = found.maps
    assert (read.keys, read.weights.shape) == ("cells", (1, 2, 12))
    assert read.weights[0, 1].argmax() == 1 * 4 + 2
    assert (control.keys, control.weights.shape) == ("words", (1, 2, 3))
    cells = found.streams[2]
    assert cells.boxes[6] == (0.5, 1 / 3, 0.75, 2 / 3)
    assert found.links[0].targets == (0, 5)
    assert [one.keys for one in found.attributions] == ["words", "cells"]


def test_a_question_answered_by_reading(tmp_path: Path) -> None:
    write_reading(tmp_path / "gallery")
    attribute(tmp_path, "r-0", **{"gae.answer.decoded": np.ones((1, 1)), "gae.answer.ocr": -np.ones((1, 1))})
    (sample,) = read_run(tmp_path).answers
    found = shown(sample)
    assert [stream.name for stream in found.streams] == ["question", "answer", "answer so far", "objects", "ocr"]
    assert len(found.maps) == 2 * 4
    assert {one.site for one in found.maps} == {"joint.0.self", "joint.1.self"}
    assert all(one.shared and one.weights.shape[:2] == (3, 1) for one in found.maps)
    assert [one.keys for one in found.attributions] == ["answer so far", "ocr"]
    assert found.attributions[1].scores.tolist() == [[-1.0]]


def test_layers_of_a_caption_form_one_part(tmp_path: Path, sample_writer: Callable[..., None]) -> None:
    (tmp_path / "gallery").mkdir()
    sample_writer(tmp_path / "gallery", 0)
    (sample,) = read_run(tmp_path).gallery
    cross = shown(sample).maps[0]
    assert (cross.site, cross.part, cross.layer) == ("decoder.2.cross", "decoder · cross", 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"gae": np.ones((1, 3))}, "expected numbers under a name <method>.<query>.<keys>"),
        ({"gae.answer.words": np.ones((1, 3), np.int64)}, "of type int64: expected numbers"),
        ({"gae.answer.dreams": np.ones((1, 3))}, "no stream 'dreams'; the sample has words, steps, cells, answer"),
        ({"gae.answer.words": np.ones((1, 4))}, r"shape \(1, 4\), expected \(1, 3\), answer by words"),
        ({"gae.answer.words": np.array([object()])}, "not a readable .npz of plain arrays"),
    ],
)
def test_wrong_attribution_is_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    write_steps(tmp_path / "gallery")
    attribute(tmp_path, "q-0", **arrays)
    (sample,) = read_run(tmp_path).answers
    with pytest.raises(ReportError, match=message):
        shown(sample)
