"""Do the examples of the README run as printed, one after the other?"""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(code) == 2
    (tmp_path / "example.py").write_text("\n".join(code), encoding="utf-8")
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(tmp_path / "example.py"))
    told = capsys.readouterr().out
    assert "torch.Size([5, 4, 25, 36])" in told
    assert "torch.Size([5, 36])" in told
