"""What did the captioner look at while it wrote? In predict: a sheet per picture, `pictures/<name>.png`."""

from typing import Any

import lightning as L
import numpy as np
import torch

from lit_attn.callbacks.listening import Ear, file_name, save_sheet, shown_picture
from lit_attn.drawing.canvas import shape_of
from lit_attn.drawing.caption import draw_caption
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
        self._ear = Ear()

    def on_predict_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        if isinstance(batch, CaptionBatch) and bool((batch.image_id < self.pictures).any()):
            self._ear.listen(pl_module, self.sites)

    def on_predict_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        records = self._ear.heard()
        if not records:
            return
        looked = torch.stack([record.weights.double().mean(1) for record in records]).mean(0).cpu().numpy()  # b t r
        for i, predicted in enumerate(outputs):
            number = int(batch.image_id[i])
            if number < self.pictures:
                words, shown = predicted["caption"].split(), shown_picture(trainer, number, "predict")
                sheet = _sheet(batch, i, words, looked[i, : len(words)], shown)
                name = file_name(predicted["picture"].rsplit(".", 1)[0]) or f"picture-{number}"
                save_sheet(trainer, name, sheet)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._ear.fail(exception)


def _sheet(batch: CaptionBatch, i: int, words: list[str], looked: np.ndarray, shown: Any) -> Any:
    real = batch.region_mask[i].cpu().numpy()
    boxes = batch.boxes[i].double().cpu().numpy()[real]
    labels = batch.region_labels[i] if batch.region_labels else ()
    return draw_caption(shown, shape_of(shown), words, boxes, labels or ("",) * len(boxes), looked[:, real])
