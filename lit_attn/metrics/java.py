"""What do METEOR 1.5 and SPICE say about captions? Both are Java programs, run through the extra `pycocoevalcap`.

Scale: that of the papers, from 0 to 100. METEOR of a set is not the mean of its captions; SPICE is.

The package talks to METEOR through a pipe that breaks easily. Known causes, all met here: a line break or `|||` inside
a text ends the message early; a runtime with a locale that writes decimal commas cannot read its own numbers back, so
Java is told to speak English; and after any error the package keeps its lock, then waits for it forever when the scorer
is deleted.
"""

import math
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from lit_attn.errors import UserError
from lit_attn.ops.cider import check_pairs

SCALE = 100.0
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


class JavaScores(NamedTuple):
    """A score of the whole set, and of each caption in the order in which they were given."""

    corpus: float
    captions: Float64[np.ndarray, " captions"]


NOTHING = JavaScores(math.nan, np.zeros(0))
"""Of an empty set."""


def meteor(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> JavaScores:
    """METEOR 1.5 with COCO's settings. Starting it takes several seconds."""
    asked = _asked("METEOR", hypotheses, references)
    if not hypotheses:
        return NOTHING
    from pycocoevalcap.meteor.meteor import Meteor

    with _english_java():
        scorer = Meteor()
    failure: Exception | None = None
    try:
        corpus, each = scorer.compute_score(*asked)
    except (OSError, ValueError) as error:
        failure = error
    finally:
        if scorer.lock.locked():
            scorer.lock.release()
        complaint = _end(scorer.meteor_p)
    if failure is not None:
        raise UserError(
            f"METEOR's Java process broke off ({failure}). It said: {complaint or 'nothing'}. "
            "Check that `java -version` works and that 2 GB of memory are free."
        ) from failure
    return JavaScores(SCALE * corpus, SCALE * np.array(each, dtype=np.float64))


def spice(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> JavaScores:
    """SPICE 1.0: F measure of the scene graphs. NaN for a caption that it cannot judge. Takes minutes for a large set."""
    asked = _asked("SPICE", hypotheses, references)
    if not hypotheses:
        return NOTHING
    from pycocoevalcap.spice import spice as package

    library = Path(package.__file__).parent / "lib"
    missing = [name for name in CORENLP if not (library / name).exists()]
    if missing:
        raise UserError(
            f"SPICE needs {missing[0]} in {library}: run `python -m pycocoevalcap.spice.get_stanford_models` once, with "
            "a network, or leave SPICE out."
        )
    try:
        with _english_java():
            corpus, each = package.Spice().compute_score(*asked)
    except subprocess.CalledProcessError as error:
        raise UserError(
            f"SPICE's Java program failed with exit code {error.returncode}; its own message stands above. Runtimes newer "
            "than Java 15 refuse its library: put Java 8 or 11 first on PATH. It also asks for 8 GB of memory."
        ) from error
    return JavaScores(SCALE * float(corpus), SCALE * np.array([graph["All"]["f"] for graph in each], dtype=np.float64))


def _asked(
    what: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """References and hypotheses as the package wants them, once everything it needs is there.

    Captions are numbered in the order given, because SPICE hands its results back sorted by number.
    """
    check_pairs(hypotheses, references)
    if shutil.which("java") is None:
        raise UserError(f"{what} needs Java, and no `java` is on PATH: install a Java runtime, or leave {what} out.")
    if find_spec("pycocoevalcap") is None:
        raise UserError(f'{what} needs the package pycocoevalcap: pip install "lit_attn[java]", or leave {what} out.')
    theirs = {number: [_clean(text) for text in own] for number, own in enumerate(references)}
    return theirs, {number: [_clean(text)] for number, text in enumerate(hypotheses)}


def _clean(text: str) -> str:
    """On one line, without the mark that divides messages."""
    return " ".join(text.replace("|||", " ").split())


@contextmanager
def _english_java() -> Iterator[None]:
    """Runtimes that start inside write numbers with decimal points, whatever the locale of the machine."""
    name = "JAVA_TOOL_OPTIONS"
    before = os.environ.get(name)
    os.environ[name] = f"{before or ''} -Duser.language=en -Duser.country=US".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _end(process: subprocess.Popen[bytes]) -> str:
    """Ends a process, closes its pipes and tells what it complained about."""
    process.kill()
    _, complaint = process.communicate()
    return complaint.decode(errors="replace").strip()
