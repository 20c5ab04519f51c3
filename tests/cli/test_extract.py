"""Does `lit-attn extract` take what it is told, tell mistakes at once, and survive being stopped at any moment?"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lit_attn.cli import extract
from lit_attn.cli.extract import region_limits, run
from lit_attn.data.regions import read_npz
from lit_attn.errors import UserError
from tests.cli.conftest import COMMAND, environment

DETECTOR = "fasterrcnn_mobilenet_v3_large_320_fpn"
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


def start(images: Path, out: Path) -> subprocess.Popen[str]:
    command = [*COMMAND, "extract", "regions", str(images), "--out", str(out), *QUICK]
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
    monkeypatch.setattr(extract.time, "monotonic", lambda: float(next(ticks)))
    assert list(extract._shown(range(6), 6)) == list(range(6))
    said = capsys.readouterr().out.splitlines()
    assert 1 <= len(said) < 6
    assert said[0].endswith("s] 2/6 pictures")


def test_progress_on_a_terminal_is_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert list(extract._shown(iter(range(6)), 6)) == list(range(6))
    assert "6/6" in capsys.readouterr().out


def test_mistakes_are_told_before_torch_is_imported(tmp_path):
    (tmp_path / "empty").mkdir()
    code = """
import sys
from lit_attn.cli.extract import run
from lit_attn.errors import UserError
for words in (["regions"], ["regions", "x", "--out", "y", "--regions", "many"], ["regions", sys.argv[1], "--out", "y"]):
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
    one, two, three = done.stdout.splitlines()
    assert "required: IMAGES, --out" in one
    assert "--regions: invalid int value: 'many'" in two
    assert "No pictures in" in three


def test_usage(capsys):
    with pytest.raises(UserError, match=r"Extract what\? Known: regions\. Usage: lit-attn extract regions IMAGES"):
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
