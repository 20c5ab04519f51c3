"""What did an answer rest on, as plain arrays? From a batch and its records to what sheets and galleries are made of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lit_attn.drawing.reading import ReadAnswer
from lit_attn.drawing.steps import StepsAnswer
from lit_attn.nn.tape import AttentionRecord
from lit_attn.ops.answers import accuracy
from lit_attn.types import QuestionBatch, ReadingBatch

AnswerBatch = QuestionBatch | ReadingBatch
Answered = StepsAnswer | ReadAnswer

UNSEEN_TRUTH = "(an answer that training has not)"
SAMPLES_PER_CHOSEN = 50
"""At most so many samples of the data are looked through for each one to be chosen."""


def sites_for(batch: AnswerBatch) -> tuple[str, ...]:
    """The sites that a sheet shows."""
    return ("control", "read") if isinstance(batch, QuestionBatch) else ("joint.*.self",)


def first_samples(data: Any, stage: str, count: int, one_per_picture: bool) -> frozenset[str]:
    """The names of the first questions of a stage, whatever the batches and processes.

    Args:
        one_per_picture: Only one question about each picture: of those that come together, each time the next, because the
            first may always be of one kind.
    """
    dataset = data.dataset(stage)
    found: list[str] = []
    pictures: set[int] = set()
    for index in range(min(len(dataset), SAMPLES_PER_CHOSEN * count)):
        batch = data.collate([dataset[index]])
        names = batch.sample_id
        if one_per_picture and names:
            image_id, _ = picture_of(batch, 0)
            names = () if image_id in pictures else (names[len(found) % len(names)],)
            pictures.add(image_id)
        found += names
        if len(found) >= count:
            break
    return frozenset(found[:count])


def picture_of(batch: AnswerBatch, row: int) -> tuple[int, str]:
    """Number and name of the picture that a question is about."""
    place = int(batch.owner[row]) if isinstance(batch, QuestionBatch) else row
    return int(batch.image_id[place]), batch.picture_name[place] if batch.picture_name else ""


def answered(batch: AnswerBatch, row: int, records: Sequence[AttentionRecord], answer: str, data: Any) -> Answered:
    """One question of a batch with its answer and its attention."""
    if isinstance(batch, QuestionBatch):
        return _in_steps(batch, row, records, answer, data.answers)
    return _by_reading(batch, row, records, answer)


def _in_steps(
    batch: QuestionBatch, row: int, records: Sequence[AttentionRecord], answer: str, answers: Sequence[str]
) -> StepsAnswer:
    words, cells = batch.words[row], batch.grid.shape[2:]
    read = [_array(record.weights[row, 0, 0]) for record in records if record.site.key_stream == "cells"]
    control = [_array(record.weights[row, 0, 0])[: len(words)] for record in records if record.site.name == "control"]
    truth = int(batch.answer[row])
    named = None if truth < 0 else answers[truth] if truth < len(answers) else UNSEEN_TRUTH
    causes = None if batch.causes is None else batch.causes[row].cpu().numpy().reshape(cells)
    return StepsAnswer(words, np.stack(read).reshape(-1, *cells), np.stack(control), answer, named, causes)


def _by_reading(batch: ReadingBatch, row: int, records: Sequence[AttentionRecord], answer: str) -> ReadAnswer:
    people = batch.answers[row]
    objects, tokens = int(batch.region_mask[row].sum()), len(batch.ocr_words[row])
    rows = records[0].part("decoded")
    steps = max(1, int(records[0].query_mask[row, rows].sum()))
    sizes = {"question": len(batch.words[row]), "objects": objects, "ocr": tokens, "decoded": steps}
    weights = np.stack([_array(record.weights[row, :, rows])[:, :steps] for record in records])  # l h s k
    starts = {stream: records[0].part(stream).start for stream in sizes}
    return ReadAnswer(
        words=batch.words[row],
        boxes=_upright(batch.boxes[row, :objects]),
        ocr_words=batch.ocr_words[row],
        ocr_boxes=_upright(batch.ocr_boxes[row, :tokens]),
        **{stream: weights[..., starts[stream] : starts[stream] + size] for stream, size in sizes.items()},
        answer=answer,
        people=people,
        score=accuracy(answer, people) if people else None,
    )


def _array(weights: Tensor) -> Float[np.ndarray, "*shape"]:
    return weights.float().cpu().numpy()


def _upright(boxes: Tensor) -> Float[np.ndarray, "n 4"]:
    """Finite numbers, the upper left corner first."""
    corners = np.nan_to_num(boxes.float().cpu().numpy()).reshape(-1, 2, 2)
    return np.sort(corners, axis=1).reshape(-1, 4)
