"""Captions and scores that the original metrics gave them: the JSON files among the golden data."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[3] / "shared"))


def golden_json(path: str) -> Any:
    """`shared/golden/ort/<path>`; skips when it is absent."""
    file = SHARED / "golden/ort" / path
    if not file.exists():
        pytest.skip(f"{file} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
    return json.loads(file.read_text(encoding="utf-8"))
