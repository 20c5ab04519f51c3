"""What do attribution methods say of the samples that a gallery keeps? Written beside them, for the report's explorer.

`gallery/attribution/<sample>.npz` holds an array `<method>.<query stream>.<key stream>` per method: every word of a caption
by regions and earlier words, MAC's answer by cells and words, every word of M4C's answer by question, objects and OCR.
Methods need a plan, and some need gradients; no probe hears the passes that they make.
"""

from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn

from lit_attn.attribution.capture import differentiable
from lit_attn.attribution.explain import explain_subject, known_methods
from lit_attn.attribution.scores import Scores
from lit_attn.attribution.subjects import answers_in_steps, caption_words, words_read
from lit_attn.callbacks.answered import AnswerBatch
from lit_attn.callbacks.attention_probe import bare_net
from lit_attn.callbacks.gallery_files import write_attribution
from lit_attn.callbacks.kept import Kept
from lit_attn.nn.tape import silence
from lit_attn.types import CaptionBatch, QuestionBatch, ReadingBatch

Arrays = dict[str, np.ndarray]


class AttributionGallery(L.Callback):
    """Explains the samples that an `AttentionGallery` of as many samples keeps.

    Args:
        samples: How many.
        methods: Names as in `lit-attn explain --methods help`.
    """

    def __init__(self, samples: int = 8, methods: list[str] | None = None) -> None:
        self.methods = known_methods(methods or ["rollout", "gae"], inputs=True)
        self._kept = Kept(samples)

    def _explain(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any) -> None:
        """A step may return `heard`: the batch with the model's own answers, as the network last read it."""
        rows = [] if trainer.sanity_checking else self._kept.rows(trainer, batch)
        if not rows:
            return
        with silence(), differentiable():
            heard = (outputs or {}).get("heard", batch).map(torch.clone)
            for row in rows:
                found = attributions(bare_net(pl_module), heard, row, self.methods)
                write_attribution(Path(trainer.default_root_dir) / "gallery", batch.sample_id[row], found)

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._explain(trainer, pl_module, outputs, batch)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._explain(trainer, pl_module, outputs, batch)


def attributions(net: nn.Module, batch: CaptionBatch | AnswerBatch, row: int, methods: list[str]) -> Arrays:
    """All of one sample, `queries keys` each, by `<method>.<query stream>.<key stream>`."""
    if isinstance(batch, CaptionBatch):
        return _caption(net, batch, row, methods)
    return _steps(net, batch, row, methods) if isinstance(batch, QuestionBatch) else _reading(net, batch, row, methods)


def _caption(net: nn.Module, batch: CaptionBatch, row: int, methods: list[str]) -> Arrays:
    """Every word but START, which nothing predicts: its row is nan. END is the last word."""
    size, regions = int(batch.token_mask[row].sum()), int(batch.region_mask[int(batch.owner[row])].sum())
    places = torch.arange(1, size, device=batch.tokens.device)
    found = explain_subject(caption_words(net, batch, torch.full_like(places, row), places), methods)
    arrays = _named(found, "words", {"regions": regions, "words": size})
    return {name: np.pad(own, ((1, 0), (0, 0)), constant_values=np.nan) for name, own in arrays.items()}


def _steps(net: nn.Module, batch: QuestionBatch, row: int, methods: list[str]) -> Arrays:
    found = explain_subject(answers_in_steps(net, batch, _one(row, batch.tokens)), methods)
    return _named(found, "answer", {"cells": batch.grid.shape[2:].numel(), "words": len(batch.words[row])})


def _reading(net: nn.Module, batch: ReadingBatch, row: int, methods: list[str]) -> Arrays:
    """Every word of the answer, END among them."""
    sizes = {
        "question": len(batch.words[row]),
        "objects": int(batch.region_mask[row].sum()),
        "ocr": len(batch.ocr_words[row]),
    }
    steps = [
        _named(explain_subject(words_read(net, batch, _one(row, batch.tokens), step), methods), "answer", sizes)
        for step in range(max(1, int(batch.step_mask[row].sum())))
    ]
    return {name: np.concatenate([own[name] for own in steps]) for name in steps[0]}


def _one(row: int, like: Tensor) -> Tensor:
    return torch.tensor([row], device=like.device)


def _named(found: dict[str, Scores], query: str, sizes: dict[str, int]) -> Arrays:
    """Scores of the items that exist, streams without any left out; a stream may score fewer than there are, the rest is 0."""
    arrays = {}
    for method, scores in found.items():
        for stream, size in sizes.items():
            if stream in scores.streams and size:
                values = scores.streams[stream].detach().float().cpu().numpy()[:, :size]
                arrays[f"{method}.{query}.{stream}"] = np.pad(values, ((0, 0), (0, size - values.shape[1])))
    return arrays
