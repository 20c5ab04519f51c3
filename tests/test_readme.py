"""Does the example of the README run as printed?"""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_short_example_runs(tmp_path, monkeypatch, capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "example.py").write_text(code[1], encoding="utf-8")
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(tmp_path / "example.py"))
    assert "torch.Size([5, 4, 25, 36])" in capsys.readouterr().out
