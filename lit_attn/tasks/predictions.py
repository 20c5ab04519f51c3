"""Where do predictions go? One line of JSON each, in the order of the data, written by the first process for all."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning as L

from lit_attn.metrics.gather import gathered

FILE = "predictions.jsonl"


def write_predictions(trainer: L.Trainer, own: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Gathers what every process predicted, each with its place in the data."""
    rows = [row for _, row in sorted(gathered(list(own)), key=lambda one: one[0])]
    if trainer.is_global_zero:
        path = Path(trainer.default_root_dir) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
