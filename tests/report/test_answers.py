"""Answered questions are read strictly, and shown as sheets, those of several runs together."""

import base64
import io
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lit_attn.report import answering
from lit_attn.report.answering import answer_questions, answering_section
from lit_attn.report.answers import open_picture, read_answer
from lit_attn.report.errors import ReportError
from lit_attn.report.gallery import gallery_files, read_gallery
from lit_attn.report.page import write_report
from lit_attn.report.runs import read_run

HOSTILE = '<img src=x onerror="window.injected=1"></script><script>window.injected=1</script>'


def write_steps(folder: Path, name: str = "q-0", *, hot: float = 0.5, **replaced: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    words = replaced.get("words", ["is", "it", "red"])
    content = {"sample_id": name, "form": "steps", "words": words, "answer": "yes", "truth": "no", "causes": [0, 5]}
    Image.new("RGB", (40, 30), (10, 120, 200)).save(folder / f"{name}.png")
    (folder / f"{name}.json").write_text(json.dumps(content | {"picture": f"{name}.png"} | replaced))
    read = np.full((2, 3, 4), 0.01)
    read[:, 1, 2] = hot
    np.savez(folder / f"{name}.npz", read=read, control=np.full((2, len(words)), 1 / len(words)))
    return folder / f"{name}.json"


def write_reading(folder: Path, name: str = "r-0", *, ocr: float = 0.4, **replaced: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "sample_id": name,
        "form": "reading",
        "words": ["what", "word"],
        "answer": "stop",
        "boxes": [[0, 0, 1, 1]],
        "ocr_words": ["stop"],
        "ocr_boxes": [[0.2, 0.2, 0.4, 0.3]],
        "people": ["stop", "shop"],
        "score": 0.5,
        "picture": None,
    }
    (folder / f"{name}.json").write_text(json.dumps(content | replaced))
    shape = (2, 3, 1)
    np.savez(
        folder / f"{name}.npz",
        question=np.full((*shape, 2), 0.1),
        objects=np.full((*shape, 1), 0.6 - ocr),
        ocr=np.full((*shape, 1), ocr),
        decoded=np.full((*shape, 1), 0.2),
    )
    return folder / f"{name}.json"


def load(path: Path) -> Any:
    ((_, source),) = [found for found in gallery_files(path.parent) if found[0] == path]
    return read_answer(path, source).load()


def replace_arrays(path: Path, **arrays: np.ndarray) -> None:
    with np.load(path.with_suffix(".npz")) as stored:
        before = dict(stored)
    np.savez(path.with_suffix(".npz"), **(before | arrays))


@pytest.fixture
def two_runs(tmp_path: Path) -> list[Path]:
    runs = []
    for name, alignment, hot in (("first", "dot", 0.5), ("second", "cosine", 0.9)):
        folder = tmp_path / name
        for number in range(3):
            write_steps(folder / "gallery", f"q-{number}", hot=hot, words=["is", "it", f"red{number}"])
        write_reading(folder / "gallery", ocr=hot / 2)
        (folder / "run.json").write_text(json.dumps({"alignment": alignment}))
        runs.append(folder)
    return runs


def test_samples_of_all_forms_are_told_apart(tmp_path: Path, sample_writer: Callable[..., None]) -> None:
    write_steps(tmp_path / "gallery")
    write_reading(tmp_path / "gallery")
    sample_writer(tmp_path / "gallery", 0)
    run = read_run(tmp_path)
    assert [sample.sample_id for sample in run.gallery] == ["scene-0"]
    assert [sample.sample_id for sample in run.answers] == ["q-0", "r-0"]
    assert read_gallery(tmp_path / "gallery") == run.gallery


def test_steps_come_back_whole(tmp_path: Path) -> None:
    asked = load(write_steps(tmp_path))
    assert (asked.words, asked.answer, asked.truth) == (("is", "it", "red"), "yes", "no")
    assert asked.read.shape == (2, 3, 4)
    assert np.argwhere(asked.causes).tolist() == [[0, 0], [1, 1]]
    assert load(write_steps(tmp_path, causes=None, truth=None)).causes is None


def test_reading_comes_back_whole(tmp_path: Path) -> None:
    asked = load(write_reading(tmp_path))
    assert asked.row().ocr.tolist() == pytest.approx([0.4])
    assert (asked.people, asked.score) == (("stop", "shop"), 0.5)
    nothing = write_reading(tmp_path, "empty", ocr_words=[], ocr_boxes=[], boxes=[], people=[], score=None)
    replace_arrays(nothing, ocr=np.zeros((2, 3, 1, 0)), objects=np.zeros((2, 3, 1, 0)))
    assert load(nothing).ocr.shape == (2, 3, 1, 0)


@pytest.mark.parametrize(
    ("write", "replaced", "message"),
    [
        (write_steps, {"form": "dream"}, r"q-0\.json, key 'form': 'dream', expected one of caption, steps, reading"),
        (write_steps, {"answer": None}, r"key 'answer': None, expected text"),
        (write_steps, {"truth": 3}, r"key 'truth': 3, expected text or null"),
        (write_steps, {"causes": [12]}, r"key 'causes': \[12\], expected a list of whole numbers from 0 to 11"),
        (write_steps, {"picture": "../x.png"}, r"key 'picture': '\.\./x\.png', expected the name of a PNG"),
        (write_reading, {"ocr_words": ["a", "b"]}, r"key 'ocr_boxes': 1 boxes for 2 OCR tokens"),
        (write_reading, {"ocr_boxes": [[0.4, 0, 0.1, 1]]}, r"key 'ocr_boxes\[0\]'.*x1 <= x2"),
        (write_reading, {"boxes": None}, r"key 'boxes': None, expected a list of boxes"),
        (write_reading, {"score": 2}, r"key 'score': 2, expected a number from 0 to 1"),
        (write_reading, {"people": "stop"}, r"key 'people': 'stop', expected a list of texts"),
    ],
)
def test_malformed_samples_name_the_key(
    tmp_path: Path, write: Callable[..., Path], replaced: dict[str, object], message: str
) -> None:
    path = write(tmp_path, **replaced)
    with pytest.raises(ReportError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("write", "arrays", "message"),
    [
        (write_steps, {"read": np.ones((2, 12))}, r"'read': shape \(2, 12\), expected \(steps, rows, columns\)"),
        (write_steps, {"read": np.ones((0, 3, 4))}, r"'read': shape \(0, 3, 4\)"),
        (write_steps, {"control": np.ones((2, 9))}, r"'control': shape \(2, 9\), expected \(2 steps, 3 words\)"),
        (write_steps, {"control": -np.ones((2, 3))}, r"'control': negative weight -1"),
        (write_reading, {"ocr": np.ones((2, 3, 1, 5))}, r"'ocr': shape \(2, 3, 1, 5\), expected \(2, 3, 1, 1\)"),
        (write_reading, {"decoded": np.ones((2, 3, 1, 1), int)}, r"'decoded': type int64, expected floating point"),
        (write_reading, {"question": np.ones((2, 3, 0, 2))}, r"'question': shape \(2, 3, 0, 2\), expected \(layers"),
    ],
)
def test_malformed_arrays_name_the_key(
    tmp_path: Path, write: Callable[..., Path], arrays: dict[str, np.ndarray], message: str
) -> None:
    path = write(tmp_path)
    replace_arrays(path, **arrays)
    with pytest.raises(ReportError, match=message):
        load(path)


def test_missing_arrays_and_pictures_that_are_none(tmp_path: Path) -> None:
    path = write_steps(tmp_path)
    path.with_suffix(".npz").unlink()
    with pytest.raises(ReportError, match=r"q-0\.npz: missing"):
        load(path)
    path.with_suffix(".png").write_bytes(b"GIF89a" + bytes(40))
    with pytest.raises(ReportError, match=r"q-0\.png: not a PNG picture"):
        open_picture(read_answer(path, json.loads(path.read_text())))


def test_two_runs_show_the_same_questions_next_to_each_other(two_runs: list[Path], tmp_path: Path) -> None:
    text = write_report(two_runs, tmp_path / "out").read_text(encoding="utf-8")
    assert '<a href="#answers">How it answers</a>' in text
    articles = re.findall(r'<article class="answered (\w+)">(.*?)</article>', text)
    assert [kind for kind, _ in articles] == ["steps", "steps", "reading", "steps"]
    folded = re.search(r"<details><summary>1 more question</summary>(.*?)</details>", text)
    assert folded is not None
    assert folded[1].count("<article") == 1, "the first two of each form are open"
    for _, article in articles:
        captions = re.findall(r"<figcaption>.*?</span> (\w+)<span class=\"note\"> (\w+)</span>", article)
        assert captions == [("first", "dot"), ("second", "cosine")]
        sheets = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]+)"', article)
        assert len(sheets) == 2
        for content, _ in sheets:
            with Image.open(io.BytesIO(base64.b64decode(content))) as sheet:
                assert sheet.width > 600
    alts = re.findall(r'alt="([^"]+)"', articles[0][1])
    assert alts[0] == "is it red0 Answer: yes. Truth: no. Strongest word of each step: is, is."
    figures = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
    assert [name for name in figures if "q-0" in name] == ["answer-q-0-first.png", "answer-q-0-second.png"]
    assert "The sheets of one question share one scale." in text


def test_sheets_of_one_question_have_one_scale(two_runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tops = []
    for name in ("draw_steps", "draw_reading"):
        original = getattr(answering, name)

        def draw(asked: Any, picture: Any, top: float, original: Any = original) -> Image.Image:
            tops.append(round(top, 3))
            return original(asked, picture, top=top)

        monkeypatch.setattr(answering, name, draw)
    answer_questions([read_run(folder) for folder in two_runs], 10**9)
    assert tops == [0.9] * 6 + [0.45] * 2


def test_one_run_alone_and_questions_that_only_one_run_has(two_runs: list[Path]) -> None:
    write_steps(two_runs[1] / "gallery", "q-0", words=["something", "else"])
    runs = [read_run(folder) for folder in two_runs]
    numbers = [[sheet.run for sheet in question.sheets] for question in answer_questions(runs, 10**9)]
    assert numbers == [[0], [0, 1], [0, 1], [0, 1], [1]], "another question of the same name is another question"
    single = answering_section(runs[:1], answer_questions(runs[:1], 10**9))
    assert single is not None
    assert single.content.count("<figure>") == 4
    assert "one scale" not in single.content


def test_questions_beyond_the_budget_are_counted(two_runs: list[Path]) -> None:
    runs = [read_run(folder) for folder in two_runs]
    questions = answer_questions(runs, 1)
    assert [len(question.sheets) for question in questions] == [2], "no run is missing in a comparison"
    section = answering_section(runs, questions)
    assert section is not None
    assert "1 of 4 questions fit in the page" in section.content


def test_hostile_texts_are_only_text(tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE.replace("/", "")
    write_steps(folder / "gallery", sample_id=HOSTILE, words=[HOSTILE, "b"], answer=HOSTILE, truth=HOSTILE)
    write_reading(folder / "gallery", words=[HOSTILE, "b"], answer=HOSTILE, ocr_words=[HOSTILE], people=[HOSTILE])
    (folder / "run.json").write_text(json.dumps({"name": HOSTILE, "alignment": HOSTILE}))
    text = write_report([folder], tmp_path / "out").read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert "<script>window" not in text
    assert unescape(re.findall(r'alt="([^"]+)"', text)[0]).startswith(f"{HOSTILE} b Answer: {HOSTILE}.")


def test_a_run_without_answers_has_no_such_part(small_run: Path) -> None:
    assert answering_section([read_run(small_run)], answer_questions([read_run(small_run)], 10**9)) is None
