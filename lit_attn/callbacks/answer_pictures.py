"""What did an answer rest on? In predict: a sheet per question, `pictures/<picture>-<question>.png`."""

from typing import Any

import lightning as L
from PIL import Image

from lit_attn.callbacks.answered import AnswerBatch, Answered, answered, first_samples, picture_of, sites_for
from lit_attn.callbacks.attention_probe import bare_net
from lit_attn.callbacks.listening import Ear, file_name, save_sheet, shown_picture
from lit_attn.drawing.reading import THRESHOLD, ReadAnswer, draw_reading
from lit_attn.drawing.steps import draw_steps
from lit_attn.errors import UserError
from lit_attn.nn.tape import sites_of
from lit_attn.types import QuestionBatch, ReadingBatch


class AnswerPictures(L.Callback):
    """Draws the first questions with what their answers attended to: MAC step by step, M4C over what it read.

    Args:
        questions: The first so many.
        layer: Of M4C, from 0, or from -1 backwards.
        head: Of M4C, from 0; the mean of all without.
        step: Of M4C's answer, from 0; an answer that is shorter shows its last.
        threshold: Words and OCR tokens above this weight are marked in M4C's sheets.
    """

    def __init__(
        self,
        questions: int = 100,
        layer: int = -1,
        head: int | None = None,
        step: int = 0,
        threshold: float = THRESHOLD,
    ) -> None:
        if step < 0:
            raise UserError(f"AnswerPictures: steps of an answer count from 0; got step={step}.")
        self.questions = questions
        self.layer, self.head, self.step, self.threshold = layer, head, step, threshold
        self._ear = Ear()
        self._chosen: frozenset[str] = frozenset()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        joint = [site for site in sites_of(bare_net(pl_module)) if site.query_stream == "joint"]
        if joint and not -len(joint) <= self.layer < len(joint):
            raise UserError(f"AnswerPictures: layer={self.layer}, but the model has {len(joint)} layers.")
        if joint and self.head is not None and not 0 <= self.head < joint[0].num_heads:
            raise UserError(f"AnswerPictures: head={self.head}, but the model has {joint[0].num_heads} heads.")

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        data = getattr(trainer, "datamodule", None)
        if data is not None:
            self._chosen = first_samples(data, "predict", self.questions, one_per_picture=False)

    def on_predict_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        if isinstance(batch, AnswerBatch) and not self._chosen.isdisjoint(batch.sample_id):
            self._ear.listen(pl_module, sites_for(batch))

    def on_predict_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        records = self._ear.heard()
        if not records:
            return
        data: Any = getattr(trainer, "datamodule", None)
        for row, name in enumerate(batch.sample_id):
            if name in self._chosen:
                image_id, picture = picture_of(batch, row)
                asked = answered(batch, row, records, outputs[row]["answer"], data)
                sheet = self._draw(asked, shown_picture(trainer, image_id, "predict"))
                stem = file_name(picture.rsplit(".", 1)[0]) or f"picture-{image_id}"
                save_sheet(trainer, f"{stem}-{_number(batch, row)}", sheet)

    def _draw(self, asked: Answered, picture: Image.Image | None) -> Image.Image:
        if isinstance(asked, ReadAnswer):
            options = {"layer": self.layer, "head": self.head, "step": self.step}
            return draw_reading(asked, picture, **options, threshold=self.threshold)  # type: ignore[arg-type]
        return draw_steps(asked, picture)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._ear.fail(exception)


def _number(batch: QuestionBatch | ReadingBatch, row: int) -> int:
    return int(batch.question_id[row])
