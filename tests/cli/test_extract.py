"""Does `lit-attn extract` take what it is told, tell mistakes at once, and survive being stopped at any moment?"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from lit_attn import progress
from lit_attn.cli.extract import run
from lit_attn.cli.extract_regions import region_limits
from lit_attn.data.grid_store import GridStore
from lit_attn.data.regions import read_npz
from lit_attn.errors import UserError
from tests.cli.conftest import COMMAND, environment

DETECTOR = "fasterrcnn_mobilenet_v3_large_320_fpn"
GRID = ["grid", "--weights", "random", "--backbone", "test_resnet", "--size", "64", "--batch", "2"]
QUICK = ["--weights", "random", "--detector", DETECTOR, "--size", "96", "--regions", "12"]


@pytest.fixture
def images(tmp_path) -> Path:
    """Sixteen small pictures of noise."""
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(16):
        blocks = Image.fromarray(rng.integers(0, 256, (9, 12, 3), np.uint8))
        blocks.resize((120, 90), Image.Resampling.BICUBIC).save(folder / f"{number:02}.png")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All finished files. A kill inside a write leaves a hidden, unfinished one."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*.npz")}


def start(images: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    """Regions, or what `more` says."""
    command = [*COMMAND, "extract", *(more or ("regions", *QUICK)), str(images), "--out", str(out)]
    return subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it for work in the background
    )


def wait_for_files(process: subprocess.Popen[str], out: Path, count: int) -> None:
    while len(list(out.glob("[!.]*.npz"))) < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def test_stopped_twice_and_resumed_gives_the_same_files_as_never_stopped(images, tmp_path, capsys):
    out = tmp_path / "out"
    first = start(images, out)
    wait_for_files(first, out, 2)
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 130, said
    assert "The same command goes on" in said
    assert "Traceback" not in said
    after_interrupt = contents(out)
    assert 2 <= len(after_interrupt) < 16, "it was stopped in the middle"
    for name in after_interrupt:
        assert len(read_npz(out / name)) == 12
    second = start(images, out)
    wait_for_files(second, out, len(after_interrupt) + 2)
    second.kill()
    second.communicate(timeout=60)
    assert second.returncode == -signal.SIGKILL
    after_kill = contents(out)
    assert len(after_interrupt) < len(after_kill) < 16
    assert run(["regions", str(images), "--out", str(out), *QUICK]) == 0
    assert f"16 pictures, {len(after_kill)} were there already" in capsys.readouterr().out
    assert run(["regions", str(images), "--out", str(tmp_path / "undisturbed"), *QUICK]) == 0
    assert contents(out) == contents(tmp_path / "undisturbed")


def grids(path: Path) -> tuple:
    """All that a file of grids says. HDF5 lets nobody read while an extraction writes, so this is for afterwards."""
    with h5py.File(path, "r") as file:
        arrays = {name: file[name][:].tolist() for name in ("done", "sha256", "names")}
        done = file["done"][:]
        return arrays, file["features"][:][done].tobytes(), dict(file.attrs)


SLOW_GRID = """
import sys, time
import h5py
whole = h5py.File.flush
def slow(file):
    print("flush", flush=True)
    time.sleep(0.2)
    whole(file)
h5py.File.flush = slow
from lit_attn.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, with a line and a pause before each flush: two per batch, before and after its rows are marked as done."""


def test_grids_killed_at_any_moment_and_resumed_are_those_never_disturbed(images, tmp_path, capsys):
    out = tmp_path / "x.h5"
    words = ["extract", *GRID, str(images), "--out", str(out)]
    for flushes in (2, 5):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW_GRID, *words], env=environment(), stdout=subprocess.PIPE, text=True
        )
        while flushes:
            line = process.stdout.readline()
            assert line, "it ended before it was killed"
            flushes -= line == "flush\n"
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    kept = sum(grids(out)[0]["done"])
    assert 4 <= kept < 16
    assert run(words[1:]) == 0
    assert f"16 pictures, {kept} were there already" in capsys.readouterr().out
    assert run([*GRID, str(images), "--out", str(tmp_path / "undisturbed.h5")]) == 0
    assert grids(out) == grids(tmp_path / "undisturbed.h5")


def test_grids_from_the_command_line(images, tmp_path, capsys):
    (images / "broken.jpg").write_bytes(b"?")
    words = [*GRID, str(images), "--out", str(tmp_path / "x.hdf5"), "--half", "--stage", "2", "--blue-std", "0.224"]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "features of an untrained network" in said
    assert "Grids of 48 channels on 8 x 8 cells, of pictures resized to 64 pixels." in said
    assert f"grids: {tmp_path / 'x.hdf5'} has those of 16 pictures\n" in said
    assert "broken.jpg: it is not a picture" in said
    store = GridStore(tmp_path / "x.hdf5")
    assert store.shape == (48, 8, 8)
    assert store.names[0] == "00"
    assert np.isfinite(store.read(3)).all()
    with pytest.raises(UserError, match=r"std was 0\.5 0\.5 0\.224, is 0\.5 0\.5 0\.5"):
        run(words[:-2])


def test_a_file_that_another_extraction_writes_is_left_alone(images, tmp_path):
    words = [*GRID, str(images), "--out", str(tmp_path / "x.h5")]
    assert run(words) == 0
    code = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "x.h5")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "open\n"
    with pytest.raises(UserError, match=r"x\.h5 is open elsewhere"):
        run(words)
    other.communicate("", timeout=60)


def test_mistakes_with_grids(images, tmp_path):
    with pytest.raises(UserError, match="--batch is at least 1 picture, got 0"):
        run(["grid", str(images), "--out", "x.h5", "--batch", "0"])
    with pytest.raises(UserError, match=r"--out is a file that ends in \.h5 or \.hdf5, got x"):
        run(["grid", str(images), "--out", "x"])


def test_words_from_the_command_line(images, tmp_path, capsys):
    for module in ("rapidocr", "onnxruntime"):
        pytest.importorskip(module, reason=f'{module} is not installed: pip install "lit_attn[ocr]" to run this')
    for path in sorted(images.iterdir())[2:]:
        path.unlink()
    out = tmp_path / "out"
    words = ["ocr", str(images), "--out", str(out), "--threshold", "0.6"]
    assert run(words) == 0
    assert f"tokens: {out / 'ocr.jsonl'} has those of 2 pictures\n" in capsys.readouterr().out
    assert run(words) == 0
    assert "2 were there already" in capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "ocr.jsonl").read_text().splitlines()]
    assert [(line["name"], line["width"], line["height"]) for line in lines] == [("00", 120, 90), ("01", 120, 90)]
    with pytest.raises(UserError, match=r"threshold was 0\.6, is 0\.5"):
        run(words[:-2])


def test_a_run_tells_what_it_did_and_what_it_skipped(images, tmp_path, capsys):
    for extra in range(25):
        (images / f"broken{extra:02}.jpg").write_bytes(b"?")
    for path in sorted(images.glob("*.png"))[2:]:
        path.unlink()
    words = ["regions", str(images), "--out", str(tmp_path / "out"), *QUICK, "--half"]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "features of an untrained network" in said
    assert f"regions: {tmp_path / 'out'} has those of 2 pictures\n" in said
    assert "Skipped 25:" in said
    assert "broken00.jpg: it is not a picture" in said
    assert "and 5 more" in said
    assert run(words) == 0, "what was there before counts, though all others are broken"
    with pytest.raises(UserError, match="half was True, is False"):
        run(words[:-1])


def test_when_no_picture_works_the_code_is_2(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").write_bytes(b"?")
    assert run(["regions", str(tmp_path / "images"), "--out", str(tmp_path / "out"), *QUICK]) == 2
    assert "has those of 0 pictures" in capsys.readouterr().out


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch, capsys):
    ticks = iter(range(0, 1000, 8))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))
    assert list(progress.shown(range(6), 6, "pictures")) == list(range(6))
    said = capsys.readouterr().out.splitlines()
    assert 1 <= len(said) < 6
    assert said[0].endswith("s] 2/6 pictures")


def test_progress_on_a_terminal_is_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert list(progress.shown(iter(range(6)), 6, "pictures")) == list(range(6))
    assert "6/6" in capsys.readouterr().out


def test_mistakes_are_told_before_torch_is_imported(tmp_path):
    (tmp_path / "empty").mkdir()
    code = """
import sys
from lit_attn.cli.extract import run
from lit_attn.errors import UserError
for words in (
    ["regions"],
    ["regions", "x", "--out", "y", "--regions", "many"],
    *([kind, sys.argv[1], "--out", "y.h5"] for kind in ("regions", "grid", "ocr")),
):
    try:
        run(words)
    except UserError as error:
        print(error)
assert not {"torch", "torchvision", "lightning"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "empty")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    one, two, *others = done.stdout.splitlines()
    assert "required: IMAGES, --out" in one
    assert "--regions: invalid int value: 'many'" in two
    assert len(others) == 3
    assert all("No pictures in" in line for line in others)


def test_usage(capsys):
    with pytest.raises(
        UserError, match=r"Extract what\? Known: regions, grid, ocr\. Usage: lit-attn extract regions IMAGES"
    ):
        run([])
    with pytest.raises(UserError, match=r"Cannot extract 'region'\. Did you mean 'regions'\? Known: regions"):
        run(["region"])
    assert run(["--help"]) == 0
    assert "Usage: lit-attn extract regions IMAGES" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        run(["regions", "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    for option in ("--out", "--detector", "--weights", "--classes", "--min-regions", "--size", "--half", "--overwrite"):
        assert option in said
    for kind, options in (("grid", ("--backbone", "--stage", "--blue-std", "--batch")), ("ocr", ("--threshold",))):
        with pytest.raises(SystemExit):
            run([kind, "--help"])
        said = capsys.readouterr().out
        assert all(option in said for option in options)


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        ((None, None, None), (36, 36)),
        ((7, None, None), (7, 7)),
        ((None, 5, None), (5, 100)),
        ((None, None, 50), (10, 50)),
        ((None, 5, 50), (5, 50)),
    ],
)
def test_how_many_regions_the_flags_mean(flags, limits):
    assert region_limits(*flags) == limits


def test_flags_that_contradict_each_other():
    with pytest.raises(UserError, match="--regions N means exactly N"):
        region_limits(36, 10, None)
    with pytest.raises(UserError, match="--regions N means exactly N"):
        region_limits(36, None, 100)
