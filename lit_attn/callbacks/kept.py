"""Which samples of a batch does a gallery keep? Those of the first pictures, or the first questions, whatever the batches."""

from typing import Any

import lightning as L

from lit_attn.callbacks.answered import AnswerBatch, first_samples
from lit_attn.callbacks.attention_probe import stage_name
from lit_attn.types import CaptionBatch, QuestionBatch


class Kept:
    """A caption or question of each of the first `samples` pictures, or the first questions to read."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._questions: dict[str, frozenset[str]] = {}
        """By stage, the names of the questions to keep."""

    def rows(self, trainer: L.Trainer, batch: Any) -> list[int]:
        """Rows of this batch to keep."""
        if isinstance(batch, CaptionBatch):
            first = {owner: row for row, owner in reversed(list(enumerate(batch.owner.tolist())))}
            return [row for owner, row in sorted(first.items()) if int(batch.image_id[owner]) < self.samples]
        data = getattr(trainer, "datamodule", None)
        if data is None or not isinstance(batch, AnswerBatch):
            return []
        stage = stage_name(trainer)
        if stage not in self._questions:
            of_pictures = isinstance(batch, QuestionBatch)
            self._questions[stage] = first_samples(data, stage, self.samples, one_per_picture=of_pictures)
        return [row for row, name in enumerate(batch.sample_id) if name in self._questions[stage]]
