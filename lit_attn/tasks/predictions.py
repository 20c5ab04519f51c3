"""Where do predictions go, and do they cover all data? One line of JSON each, written by the first process for all."""

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


def sees_all(trainer: L.Trainer, stage: str) -> bool:
    """Whether an evaluation goes through the whole data set, so that scores of whole data sets stand beside its own."""
    limit = trainer.limit_test_batches if stage == "test" else trainer.limit_val_batches
    # One batch is the int 1, all of them the float 1.0.
    return not trainer.sanity_checking and isinstance(limit, float) and limit == 1.0
