"""Is one thing told as one?"""

import json

import pytest

from lit_attn.cli.counting import counted
from lit_attn.cli.main import main


@pytest.mark.parametrize(("number", "told"), [(0, "0 noun phrases"), (1, "1 noun phrase"), (2, "2 noun phrases")])
def test_numbers_with_their_nouns(number, told):
    assert counted(number, "noun phrase") == told


def test_one_picture_is_one_picture(tmp_path, capsys):
    sentence = {"tokens": ["a", "red", "box"], "raw": "a red box"}
    picture = {"filename": "a.jpg", "cocoid": 7, "split": "val", "sentences": [sentence]}
    (tmp_path / "one.json").write_text(json.dumps({"images": [picture]}))
    assert main(["prepare", "labels", str(tmp_path / "one.json"), "--out", str(tmp_path), "--min-count", "1"]) == 0
    assert "1 picture, 1 caption, " in capsys.readouterr().out
