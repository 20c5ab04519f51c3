"""Are METEOR and SPICE asked properly, their answers put in order, and their failures explained?

The Java programs are stood in for by a small package, except in the last test, which runs METEOR itself.
"""

import importlib
import importlib.util
import math
import os
import shutil
import stat
import sys

import pytest

from lit_attn.errors import UserError
from lit_attn.metrics.java import CORENLP, meteor, spice

METEOR = '''
import os, subprocess, threading
seen = []
patient = False
class Meteor:
    """Scores a caption by its number of words, as counted by a process at the other end of a pipe."""
    def __init__(self):
        pipe = subprocess.PIPE
        self.meteor_p = subprocess.Popen(["java"], stdin=pipe, stdout=pipe, stderr=pipe)
        self.lock = threading.Lock()
        self.options = os.environ["JAVA_TOOL_OPTIONS"]
        seen.append(self)
    def compute_score(self, references, hypotheses):
        self.lock.acquire()
        if patient:
            self.meteor_p.wait()
        scores = []
        for number in references:
            line = " ||| ".join([*references[number], hypotheses[number][0]])
            self.meteor_p.stdin.write((line + "\\n").encode())
            self.meteor_p.stdin.flush()
            answer = self.meteor_p.stdout.readline().decode().split("|||")
            scores.append(float(len(answer[-1].split()) + 100 * (len(answer) - 1)) if answer != [""] else float("?"))
        self.lock.release()
        return sum(scores), scores
'''
SPICE = """
import subprocess
failure = None
class Spice:
    def compute_score(self, references, hypotheses):
        if failure:
            raise subprocess.CalledProcessError(failure, "java")
        words = [len(hypotheses[number][0].split()) for number in sorted(references)]
        return sum(words), [{"All": {"f": float(count) or float("nan")}, "Color": {"f": 7.0}} for count in words]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pycocoevalcap of our own, and a `java` that says every line again."""
    for name in [name for name in sys.modules if name.split(".")[0] == "pycocoevalcap"]:
        monkeypatch.delitem(sys.modules, name)
    folder = tmp_path / "packages/pycocoevalcap"
    for name, source in (("meteor", METEOR), ("spice", SPICE)):
        (folder / name / "lib").mkdir(parents=True)
        (folder / name / "__init__.py").touch()
        (folder / name / f"{name}.py").write_text(source)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    importlib.invalidate_caches()
    java(tmp_path, monkeypatch, "exec cat")
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "pycocoevalcap"]:
        del sys.modules[name]


def java(tmp_path, monkeypatch, script: str) -> None:
    program = tmp_path / "bin/java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def scorer():
    (made,) = sys.modules["pycocoevalcap.meteor.meteor"].seen
    return made


def texts(count: int) -> list[str]:
    return [" ".join(["word"] * (i * 5 % count + 1)) for i in range(count)]


def test_meteor_scores_come_in_the_order_of_the_captions(package):
    found = meteor(texts(13), [["a dog"]] * 13)
    assert found.captions.tolist() == [100 * (i * 5 % 13 + 1 + 100) for i in range(13)]
    assert found.corpus == found.captions.sum()


def test_texts_cannot_break_the_messages(package):
    """Line breaks and marks inside a text would be read as more lines and more references."""
    found = meteor(["a\nb ||| c\r\nd", "e"], [["f|||g", "h\ni"], ["j"]])
    assert found.captions.tolist() == [100 * (4 + 200), 100 * (1 + 100)]


def test_the_pipe_is_closed_and_the_lock_free_afterwards(package):
    meteor(["a"], [["b"]])
    made = scorer()
    assert made.meteor_p.returncode is not None
    assert made.meteor_p.stdin.closed
    assert made.meteor_p.stdout.closed
    assert made.meteor_p.stderr.closed
    assert not made.lock.locked()


@pytest.mark.parametrize("question_first", [True, False])
def test_a_broken_pipe_is_explained_and_cannot_hang_later(package, tmp_path, monkeypatch, question_first):
    """Dead after a question, which is then answered by nothing; or dead before it, when nobody takes it."""
    java(tmp_path, monkeypatch, f"{'read line; ' if question_first else ''}echo no room for the heap >&2; exit 1")
    importlib.import_module("pycocoevalcap.meteor.meteor").patient = not question_first
    with pytest.raises(UserError, match="METEOR's Java process broke off .*no room for the heap.*2 GB"):
        meteor(["a"], [["b"]])
    assert scorer().meteor_p.returncode == 1
    assert not scorer().lock.locked()


@pytest.mark.parametrize("before", [None, "-Xss4m"])
def test_java_speaks_english_and_the_environment_stays_as_it_was(package, monkeypatch, before):
    """Under a German locale METEOR writes 0,41 and cannot read it."""
    if before:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", before)
    meteor(["a"], [["b"]])
    assert scorer().options.split() == [*([before] if before else []), "-Duser.language=en", "-Duser.country=US"]
    assert os.environ.get("JAVA_TOOL_OPTIONS") == before


def with_corenlp(package) -> None:
    for name in CORENLP:
        (package / "spice/lib" / name).touch()


def test_spice_scores_come_in_the_order_of_the_captions(package):
    with_corenlp(package)
    found = spice([*texts(13), ""], [["a dog"]] * 14)
    assert found.captions[:13].tolist() == [100 * (i * 5 % 13 + 1) for i in range(13)]
    assert math.isnan(found.captions[13])
    assert found.corpus == 100 * sum(range(1, 14))


def test_spice_without_its_parser_says_how_to_get_it(package):
    (package / "spice/lib" / CORENLP[0]).touch()
    with pytest.raises(UserError, match=f"SPICE needs {CORENLP[1]} in .*get_stanford_models"):
        spice(["a"], [["b"]])


def test_a_failing_spice_is_explained(package):
    with_corenlp(package)
    importlib.import_module("pycocoevalcap.spice.spice").failure = 3
    with pytest.raises(UserError, match="failed with exit code 3.*Java 8 or 11"):
        spice(["a"], [["b"]])


@pytest.mark.parametrize("score", [meteor, spice])
def test_nothing_to_score_is_not_a_number(package, score):
    found = score([], [])
    assert math.isnan(found.corpus)
    assert found.captions.shape == (0,)


@pytest.mark.parametrize(("score", "name"), [(meteor, "METEOR"), (spice, "SPICE")])
def test_what_is_missing_is_named_java_first(package, monkeypatch, tmp_path, score, name):
    shutil.rmtree(package)
    monkeypatch.setattr("lit_attn.metrics.java.find_spec", lambda module: None)
    with pytest.raises(UserError, match=rf'{name} needs the package pycocoevalcap: pip install "lit_attn\[java\]"'):
        score(["a"], [["b"]])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=f"{name} needs Java, .* install a Java runtime"):
        score(["a"], [["b"]])


def test_hypotheses_and_references_must_match(package):
    with pytest.raises(UserError, match="1 hypotheses but 0 lists"):
        meteor(["a"], [])


def test_meteor_itself():
    """A run of the program: several seconds, most of them to read its tables."""
    if shutil.which("java") is None or importlib.util.find_spec("pycocoevalcap") is None:
        pytest.skip('no Java runtime, or no pycocoevalcap: pip install "lit_attn[java]" to run it')
    found = meteor(
        ["a dog near the cat", "", "a café\nnear", "a dog", "un cafe"],
        [["a dog by the cat", "two dogs"], ["a dog"], ["a café ||| near"], ["", "a dog"], ["un café"]],
    )
    # The first score was read from the program on a terminal.
    assert found.captions[[0, 1, 2, 3]].tolist() == pytest.approx([41.08986339976993, 0, 100, 100], abs=1e-9)
    assert 0 < found.captions[4] < 100
    assert min(found.captions) < found.corpus < max(found.captions)
