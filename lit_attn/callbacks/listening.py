"""How does a callback hear the attention of one batch? A tape that opens before the step and closes after it."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
from PIL import Image

from lit_attn.callbacks.attention_probe import bare_net
from lit_attn.files import written_whole
from lit_attn.nn.tape import AttentionRecord, AttentionTape


class Ear:
    """Keeps the records of one batch at a time."""

    def __init__(self) -> None:
        self._records: list[AttentionRecord] = []
        self._tapes = ExitStack()

    def listen(self, pl_module: L.LightningModule, sites: str | Sequence[str]) -> None:
        """From now on, to the sites that match."""
        self._tapes.enter_context(AttentionTape(bare_net(pl_module), sites, listener=self._records.append))

    def heard(self) -> list[AttentionRecord]:
        """What was heard since `listen`; nothing if nobody listened. Closes the tape."""
        self._tapes.close()
        records, self._records = self._records, []
        return records

    def fail(self, exception: BaseException) -> None:
        """Leaves no tape behind when a step fails."""
        self._tapes.__exit__(type(exception), exception, None)
        self._records = []


def file_name(text: str) -> str:
    """Folders and strange characters of a name become part of a plain one."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)


def save_sheet(trainer: L.Trainer, name: str, sheet: Image.Image) -> None:
    """Writes `pictures/<name>.png` of the run."""
    with written_whole(Path(trainer.default_root_dir) / "pictures" / f"{name}.png") as temporary:
        sheet.save(temporary, "PNG")


def shown_picture(trainer: L.Trainer, image_id: int, stage: str) -> Any:
    """The picture itself as a Pillow image, or None where the data set has none."""
    data: Any = getattr(trainer, "datamodule", None)
    return data.show(image_id, stage) if hasattr(data, "show") else None
