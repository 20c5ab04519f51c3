"""The report is one safe, self-contained page with its tables and figures, and appears whole or not at all."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from lit_attn.report import explorer, files, page
from lit_attn.report.errors import ReportError
from lit_attn.report.page import write_report
from lit_attn.report.runs import read_runs

HOSTILE = "<script>window.injected = 1</script>\"'><img src=x onerror=alert(1)> </script> <!-- ü 日本 🐈 $x$ |"


class Elements(HTMLParser):
    """Collects the elements of a page and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def parse(path: Path) -> Elements:
    elements = Elements()
    elements.feed(path.read_text(encoding="utf-8"))
    return elements


def test_one_run(run: Path) -> None:
    found = write_report([run])
    assert found == run / "report" / "index.html"
    names = {path.name for path in (run / "report" / "figures").iterdir()}
    drawn = ("curves-scores", "curves-attention", "heads-entropy", "heads-grounding_mass", "map-scan-general-0-scene-0")
    assert {f"{name}.{kind}" for name in drawn for kind in ("svg", "png")} <= names
    assert not any("chance" in name for name in names)
    rows = list(csv.DictReader((run / "report" / "scores.csv").open()))
    assert rows[0]["run"] == "scan-general-0"
    assert "val/rsum best" in (run / "report" / "scores.md").read_text()
    text = found.read_text(encoding="utf-8")
    best = float(rows[0]["val/rsum best"])
    assert f"{best:.1f}" in text
    assert f"{100 * best / 571.2:.1f} % of the ceiling (571.2)" in text
    assert re.search(r"0\.\d+<small> vs chance 0\.0830</small>", text)
    assert not list((run / "report").glob(".report-*"))


def test_several_runs_beside_the_first(tmp_path: Path, write_run: Callable[..., Path]) -> None:
    first = write_run(tmp_path / "runs" / "a", samples=1, alignment="dot", equivalence="dot")
    second = write_run(
        tmp_path / "runs" / "b", samples=2, seed=1, alignment="scaled_dot", equivalence="dot", status="failed"
    )
    found = write_report([first, second])
    assert found == tmp_path / "runs" / "report" / "index.html"
    text = found.read_text(encoding="utf-8")
    assert "dot, scaled_dot are mathematically the same model" in text
    assert "Settings that differ" in text
    assert "✕ failed" in text
    assert len(re.findall(r'id="sample-\d+"', text)) == 3


def test_given_folder(small_run: Path, tmp_path: Path) -> None:
    assert write_report([small_run], tmp_path / "x" / "y") == tmp_path / "x" / "y" / "index.html"
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="file: is a file; a report needs a folder"):
        write_report([small_run], tmp_path / "file")
    with pytest.raises(ReportError, match=r"inside: cannot be made \(Not a directory\)"):
        write_report([small_run], tmp_path / "file" / "inside")


def test_folder_with_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("")
    text = write_report([tmp_path]).read_text(encoding="utf-8")
    assert f"<h1>{tmp_path.name}" in text
    assert "<section" not in text


def test_page_needs_nothing_but_itself(run: Path) -> None:
    elements = parse(write_report([run]))
    for _, attributes in elements.found:
        for key in ("src", "href", "xlink:href", "action", "data"):
            target = attributes.get(key)
            assert target is None or target.startswith(("data:image/png;base64,", "#")), target
    policy = next(found["content"] for name, found in elements.found if name == "meta" and found.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


def test_nothing_from_data_becomes_markup(
    tmp_path: Path, write_run: Callable[..., Path], sample_writer: Callable[..., None]
) -> None:
    info = dict.fromkeys(("name", "recipe", "alignment", "equivalence", "verb", "version", "started"), HOSTILE)
    clean = write_run(tmp_path / "clean", samples=1)
    dirty = write_run(tmp_path / "dirty", samples=0, status=HOSTILE, facts={HOSTILE: HOSTILE}, **info)
    sample_writer(
        dirty / "gallery",
        0,
        words=[HOSTILE, "sofa", "\ud800\x00"],
        labels=[HOSTILE] * 36,
        title=HOSTILE,
        sample_id=HOSTILE,
        facts={HOSTILE: HOSTILE},
        gold=[],
    )
    (dirty / "config.yaml").write_text(yaml.safe_dump({"model": HOSTILE}, allow_unicode=True), encoding="utf-8")
    content = (dirty / "metrics.csv").read_text().replace("val/loss", '"val/' + HOSTILE.replace('"', '""') + '"', 1)
    (dirty / "metrics.csv").write_text(content)
    for folder in (dirty, clean):
        heads = folder / "attention" / "val-00001000.csv"
        heads.write_text(heads.read_text().replace("encoder.", "<b>en</b>coder."))
    elements = parse(write_report([dirty, clean], tmp_path / "both"))
    single = parse(write_report([dirty], tmp_path / "one"))
    for found in (elements, single):
        kinds = [attributes.get("type") for name, attributes in found.found if name == "script"]
        assert kinds.count(None) == 1
        assert all(kind == "application/json" for kind in kinds if kind)
        assert not any("onerror" in attributes for _, attributes in found.found)
        assert not any(name == "img" and attributes.get("src") == "x" for name, attributes in found.found)
        assert not any(name == "b" for name, _ in found.found)
    sample = next(json.loads(text) for text in single.scripts if '"streams"' in text)
    assert sample["streams"][0]["items"] == [HOSTILE, "sofa", "?\ufffd"]
    for document in (tmp_path / "one" / "figures").glob("*.svg"):
        assert "<script" not in document.read_text(encoding="utf-8")
    assert "<script" not in (tmp_path / "one" / "scores.md").read_text(encoding="utf-8")


def test_failure_leaves_the_old_report_untouched(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write_report([small_run])
    before = {path: path.read_bytes() for path in sorted((small_run / "report").rglob("*")) if path.is_file()}
    (small_run / "metrics.csv").write_text("epoch,step,val/rsum\n0,1,5\n")
    written: list[str] = []
    original = Path.write_bytes

    def fail(path: Path, content: bytes) -> int:
        if path.name == "index.html":
            original(path, content[:1000])
            raise KeyboardInterrupt
        written.append(path.name)
        return original(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(KeyboardInterrupt):
        write_report([small_run])
    monkeypatch.undo()
    assert "scores.csv" in written
    assert {path: path.read_bytes() for path in sorted((small_run / "report").rglob("*")) if path.is_file()} == before
    write_report([small_run])
    assert found.read_bytes() != before[found]


def test_killed_process_leaves_the_old_page(small_run: Path) -> None:
    before = write_report([small_run]).read_bytes()
    script = (
        "import os, pathlib, sys\n"
        "from lit_attn.report.page import write_report\n"
        "original = pathlib.Path.write_bytes\n"
        "def write(path, content):\n"
        "    original(path, content[: len(content) // 2])\n"
        "    if path.name == 'index.html': os.kill(os.getpid(), 9)\n"
        "pathlib.Path.write_bytes = write\n"
        "write_report([pathlib.Path(sys.argv[1])])\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, str(small_run)], cwd=Path(page.__file__).parents[2], check=False
    )
    assert killed.returncode == -9
    assert (small_run / "report" / "index.html").read_bytes() == before


def test_stale_figures_go_and_others_stay(tmp_path: Path) -> None:
    files.write_files(tmp_path, {"figures/heads-old.png": b"1", "index.html": b"1"})
    (tmp_path / "figures" / "mine.png").write_bytes(b"2")
    files.write_files(tmp_path, {"figures/heads-new.png": b"3", "index.html": b"2"})
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["heads-new.png", "mine.png"]
    assert sorted(os.listdir(tmp_path)) == ["figures", "index.html"]


def test_odd_but_legal_folders(small_run: Path, sample_writer: Callable[..., None]) -> None:
    (small_run / "metrics.csv").write_text("epoch,step,val/rsum,train/loss\n0,1,nan,inf\n1,2,nan,-inf\n")
    (small_run / "attention" / "val-00000003.csv").write_text("site,head,metric,value,count\n")
    (small_run / "attention" / "val-00000004.csv").write_text("site,head,metric,value,count\nmatch,2,entropy,inf,nan\n")
    gallery = small_run / "gallery"
    sample_writer(gallery, 1, words=["a"], maps=[], gold=[], title="")
    sample_writer(gallery, 2, heads=2)
    (gallery / "bare.json").write_text(json.dumps({"sample_id": "", "words": [], "boxes": [], "labels": []}))
    with np.load(gallery / "scene-2.npz") as stored:
        arrays = dict(stored)
    arrays["cross"][0, 3, 5] = np.nan
    np.savez(gallery / "scene-2.npz", **arrays)
    text = write_report([small_run]).read_text(encoding="utf-8")
    assert len(re.findall(r'id="sample-\d+"', text)) == 4


def test_samples_beyond_the_budget_are_counted(tmp_path: Path, write_run: Callable[..., Path]) -> None:
    runs = read_runs([write_run(tmp_path / "a", samples=3), write_run(tmp_path / "b", samples=2)])
    full = explorer.explorer_section(runs, explorer.explorer_entries(runs))
    assert full is not None
    assert "samples fit" not in full.content
    small = explorer.explorer_section(runs, explorer.explorer_entries(runs, budget=1))
    assert small is not None
    assert "1 of 5 samples fit in the page" in small.content


def test_runs_without_torch(small_run: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from lit_attn.report.page import write_report\n"
        "write_report([pathlib.Path(sys.argv[1])])\n"
        "heavy = {'torch', 'lightning', 'pytorch_lightning', 'transformers', 'matplotlib.pyplot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    root = Path(page.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(small_run)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
