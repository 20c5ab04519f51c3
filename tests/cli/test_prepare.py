"""Does `lit-attn prepare` write what others read, without torch, and say what is wrong?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lit_attn.cli.prepare import run
from lit_attn.data.labels import read_labels
from lit_attn.errors import UserError

ROOT = Path(__file__).parents[2]
PREPARED = Path(os.environ.get("LIT_ATTN_SHARED", ROOT.parent / "shared")) / "golden" / "ort" / "prepro"


@pytest.fixture
def captions(tmp_path):
    words = ["a", "b", "b", "c", "c", "c"]
    image = {"filename": "x.jpg", "cocoid": 5, "split": "train", "sentences": [{"tokens": words}]}
    (tmp_path / "dataset.json").write_text(json.dumps({"images": [image]}))
    return tmp_path / "dataset.json"


def test_labels_equal_the_original(tmp_path, capsys):
    if not PREPARED.exists():
        pytest.skip(f"{PREPARED} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
    assert run(["labels", str(PREPARED / "dataset.json"), "--out", str(tmp_path)]) == 0
    with np.load(PREPARED / "python3_thr5_label.npz") as golden:
        np.testing.assert_array_equal(read_labels(tmp_path).labels, golden["labels"])
    assert capsys.readouterr().out == f"{tmp_path}: 36 pictures, 198 captions, 38 words\n"


def test_options_reach_the_labels(captions, tmp_path):
    run(["labels", str(captions), "--out", str(tmp_path / "out"), "--min-count", "2", "--max-words", "4"])
    labels = read_labels(tmp_path / "out")
    assert labels.words.words == ("b", "c", "UNK")
    assert labels.labels.tolist() == [[3, 1, 1, 2]]


def test_help_explains(capsys):
    assert run(["labels", "--help"]) == 0
    assert "--min-count" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "lit-attn prepare: the following arguments are required: labels"),
        (["lables"], "invalid choice: 'lables'"),
        (["labels", "x.json"], "lit-attn prepare labels: the following arguments are required: --out"),
        (["labels", "x.json", "--out", "o", "--min-count", "six"], "invalid int value: 'six'"),
        (["labels", "x.json", "--out", "o", "--max-words", "0"], "--max-words must be at least 1, got 0"),
        (["labels", "absent.json", "--out", "o"], "Cannot read absent.json"),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(UserError, match=message):
        run(words)


def test_torch_is_not_imported(captions, tmp_path):
    code = "import sys; from lit_attn.cli.prepare import run; run(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    words = ["labels", str(captions), "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
