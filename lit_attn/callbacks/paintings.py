"""What was painted, and by which words? In predict: `paintings/<sample>-image.png`, and a sheet `paintings/<sample>.png`.

In validation: `paintings/val.png`, many pictures at a glance, and on demand the first ones as in predict.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from lit_attn.callbacks.answered import first_samples
from lit_attn.callbacks.listening import Ear, file_name
from lit_attn.drawing.painting import Painting, draw_painting
from lit_attn.drawing.sheet import Tile, draw_tiles
from lit_attn.errors import UserError
from lit_attn.files import written_whole
from lit_attn.metrics.gather import gathered
from lit_attn.nn.tape import AttentionRecord
from lit_attn.types import SynthesisBatch

FOLDER = "paintings"
SITES = "stage.*.words"
HALF_WHITE = 127.5


class PaintingPictures(L.Callback):
    """Keeps every picture that predict paints, and draws how the first ones came about.

    Args:
        captions: The first so many have a sheet.
        validation_captions: In validation, too, the first so many have a picture and a sheet, in `paintings/val`; each
            validation replaces those of the one before.
        glance: So many pictures of a validation are shown together in `paintings/val.png`, with what the caption names
            first of all and, where it can be judged, whether it has its colour.
    """

    def __init__(self, captions: int = 100, validation_captions: int = 0, glance: int = 64) -> None:
        sizes = {"captions": captions, "validation_captions": validation_captions, "glance": glance}
        for name, value in sizes.items():
            if value < 0:
                raise UserError(f"PaintingPictures: {name} must not be negative, got {value}.")
        self.captions, self.validation_captions, self.glance = captions, validation_captions, glance
        self._tiles: list[tuple[int, Tile]] = []
        """By the number of the caption."""
        self._ear = Ear()
        self._chosen: dict[str, frozenset[str]] = {}
        """By stage, the samples that have a sheet."""

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._choose(trainer, "predict", self.captions)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._tiles = []
        self._choose(trainer, "val", 0 if trainer.sanity_checking else self.validation_captions)

    def _choose(self, trainer: L.Trainer, stage: str, count: int) -> None:
        data = getattr(trainer, "datamodule", None)
        chosen = data is not None and count > 0
        self._chosen[stage] = first_samples(data, stage, count, one_per_picture=False) if chosen else frozenset()

    def on_predict_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        self._listen(pl_module, batch, "predict")

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any
    ) -> None:
        self._listen(pl_module, batch, "val")

    def _listen(self, pl_module: L.LightningModule, batch: Any, stage: str) -> None:
        if isinstance(batch, SynthesisBatch) and not self._chosen[stage].isdisjoint(batch.sample_id):
            self._ear.listen(pl_module, SITES)

    def on_predict_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(pl_module, batch, "predict", Path(trainer.default_root_dir) / FOLDER)

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(pl_module, batch, "val", Path(trainer.default_root_dir) / FOLDER / "val")
        if isinstance(batch, SynthesisBatch) and not trainer.sanity_checking:
            self._tiles += _tiles(trainer, pl_module, outputs, batch)
            self._tiles = sorted(self._tiles, key=lambda tile: tile[0])[: self.glance]

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """The first pictures of all processes together."""
        tiles = sorted(gathered(self._tiles), key=lambda tile: tile[0])[: self.glance]
        self._tiles = []
        if tiles and trainer.is_global_zero:
            _save(draw_tiles([tile for _, tile in tiles]), Path(trainer.default_root_dir) / FOLDER / "val.png")

    def _keep(self, pl_module: L.LightningModule, batch: Any, stage: str, folder: Path) -> None:
        """The task says in `painted` what it painted of this batch: pictures of every stage, small to large."""
        records = self._ear.heard()
        if not isinstance(batch, SynthesisBatch):
            return
        for row, sample in enumerate(batch.sample_id):
            drawn = sample in self._chosen[stage]
            if not drawn and stage != "predict":
                continue
            painted: Any = pl_module.painted
            name = file_name(sample)
            _save(Image.fromarray(pixels(painted[-1][row])), folder / f"{name}-image.png")
            if drawn:
                _save(draw_painting(painting_of(batch, row, painted, records)), folder / f"{name}.png")

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._ear.fail(exception)


def _tiles(
    trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: SynthesisBatch
) -> list[tuple[int, Tile]]:
    """A step may return `verdicts`: whether each picture shows what its caption names first of all, None where nobody knows."""
    painted: Any = pl_module.painted
    verdicts = (outputs or {}).get("verdicts") or [None] * len(batch)
    return [
        (int(batch.caption_id[row]), Tile(pixels(painted[-1][row]), _label(trainer, batch, row), verdicts[row]))
        for row in range(len(batch))
    ]


def _label(trainer: L.Trainer, batch: SynthesisBatch, row: int) -> str:
    """Colour and kind of the main thing where they are known, or the caption."""
    data: Any = getattr(trainer, "datamodule", None)
    if batch.main_kind is None or batch.main_color is None or int(batch.main_kind[row]) < 0:
        return " ".join(batch.words[row])
    return f"{data.color_names[int(batch.main_color[row])]} {data.kind_names[int(batch.main_kind[row])]}"


def painting_of(
    batch: SynthesisBatch, row: int, painted: Sequence[Tensor], records: Sequence[AttentionRecord]
) -> Painting:
    """One caption of a batch with its pictures and its attention; of several passes, that of the last."""
    words = batch.words[row]
    last = {record.site.name: record for record in records}
    return Painting(
        words=words,
        stages=tuple(pixels(stage[row]) for stage in painted),
        maps=tuple(_maps(record, row, len(words)) for record in last.values()),
        real=None if batch.image is None else pixels(batch.image[row]),
    )


def _maps(record: AttentionRecord, row: int, words: int) -> Float[np.ndarray, "t y x"]:
    """The weight of each word at each position of a square picture, the mean over heads."""
    weights = record.weights[row].double().mean(0)[:, :words].T  # t (y x)
    side = math.isqrt(weights.shape[1])
    return weights.reshape(words, side, side).cpu().numpy()


def pixels(image: Float[Tensor, "3 y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """From [-1, 1] to what a file holds."""
    levels = ((image.detach().double() + 1) * HALF_WHITE).round().clamp(0, 255)
    return np.ascontiguousarray(levels.cpu().numpy().astype(np.uint8).transpose(1, 2, 0))


def _save(picture: Image.Image, path: Path) -> None:
    with written_whole(path) as temporary:
        picture.save(temporary, "PNG")
