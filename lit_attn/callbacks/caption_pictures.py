"""What did the captioner look at while it wrote? In predict: a sheet per picture, `pictures/<name>.png`."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch

from lit_attn.callbacks.attention_probe import bare_net
from lit_attn.callbacks.caption_picture import draw_caption
from lit_attn.files import written_whole
from lit_attn.nn.tape import AttentionRecord, AttentionTape
from lit_attn.types import CaptionBatch


class CaptionPictures(L.Callback):
    """Draws the caption of each picture and the boxes that each of its words looked at.

    Args:
        pictures: The first so many.
        sites: What to draw: the mean over the heads of all sites that match.
    """

    def __init__(self, pictures: int = 100, sites: str | list[str] = "decoder.*.cross") -> None:
        self.pictures = pictures
        self.sites = sites
        self._records: list[AttentionRecord] = []
        self._listening = ExitStack()

    def on_predict_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        if isinstance(batch, CaptionBatch) and bool((batch.image_id < self.pictures).any()):
            tape = AttentionTape(bare_net(pl_module), self.sites, listener=self._records.append)
            self._listening.enter_context(tape)

    def on_predict_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._listening.close()
        records, self._records = self._records, []
        if not records:
            return
        looked = torch.stack([record.weights.double().mean(1) for record in records]).mean(0).cpu().numpy()  # b t r
        folder = Path(trainer.default_root_dir) / "pictures"
        data = getattr(trainer, "datamodule", None)
        for i, predicted in enumerate(outputs):
            number = int(batch.image_id[i])
            if number < self.pictures:
                words, shown = predicted["caption"].split(), data.show(number, "predict") if data else None
                sheet = _sheet(batch, i, words, looked[i, : len(words)], shown)
                with written_whole(folder / f"{_file_name(predicted['picture'], number)}.png") as temporary:
                    sheet.save(temporary, "PNG")

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._listening.__exit__(type(exception), exception, None)


def _sheet(batch: CaptionBatch, i: int, words: list[str], looked: np.ndarray, shown: Any) -> Any:
    real = batch.region_mask[i].cpu().numpy()
    boxes = batch.boxes[i].double().cpu().numpy()[real]
    labels = batch.region_labels[i] if batch.region_labels else ()
    size = shown.size if shown is not None else (4.0, 3.0)
    return draw_caption(shown, size, words, boxes, labels or ("",) * len(boxes), looked[:, real])


def _file_name(name: str, number: int) -> str:
    """The picture's own name where it has one; folders of it become part of the name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.rsplit(".", 1)[0]) or f"picture-{number}"
