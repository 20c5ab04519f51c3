"""Which samples are kept whole to look at? A fixed few: words, picture and every attention map that a report shows of them.

Written to `gallery/<sample>.json`, `.npz` and `.png` at the end of each validation, replacing those of the one before.
Each process writes the samples it saw. The report reads these files; nothing in them needs torch or unpickling.
"""

from pathlib import Path
from typing import Any

import lightning as L
import numpy as np

from lit_attn.callbacks.answered import AnswerBatch, answered, picture_of, sites_for
from lit_attn.callbacks.attention_probe import stage_name
from lit_attn.callbacks.gallery_files import write_answer, write_sample
from lit_attn.callbacks.kept import Kept
from lit_attn.callbacks.listening import Ear, shown_picture
from lit_attn.nn.tape import AttentionRecord
from lit_attn.types import CaptionBatch


class AttentionGallery(L.Callback):
    """Keeps the attention of a caption or question of each of the first `samples` pictures, or of the first questions to read.

    Args:
        samples: How many.
        sites: Patterns of site names to keep of captions. Of answers, it is always the sites that their sheets show.
    """

    def __init__(self, samples: int = 8, sites: str | list[str] = "*") -> None:
        self.sites = sites
        self._kept = Kept(samples)
        self._ear = Ear()

    def _listen(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any) -> None:
        if not trainer.sanity_checking and self._kept.rows(trainer, batch):
            self._ear.listen(pl_module, sites_for(batch) if isinstance(batch, AnswerBatch) else self.sites)

    def _keep(self, trainer: L.Trainer, outputs: Any, batch: Any) -> None:
        """A step returns `answers` to questions; it may return `texts`, what the model itself writes about each picture."""
        records = self._ear.heard()
        if not records:
            return
        folder = Path(trainer.default_root_dir) / "gallery"
        folder.mkdir(parents=True, exist_ok=True)
        stage, data = stage_name(trainer), getattr(trainer, "datamodule", None)
        for row in self._kept.rows(trainer, batch):
            if isinstance(batch, AnswerBatch):
                asked = answered(batch, row, records, outputs["answers"][row], data)
                picture = shown_picture(trainer, picture_of(batch, row)[0], stage)
                write_answer(folder, batch.sample_id[row], asked, picture)
            else:
                written = outputs["texts"][int(batch.owner[row])] if outputs else None
                write_caption(folder, stage, data, batch, row, records, written)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._ear.fail(exception)

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any
    ) -> None:
        self._listen(trainer, pl_module, batch)

    def on_test_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        self._listen(trainer, pl_module, batch)

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(trainer, outputs, batch)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(trainer, outputs, batch)


def write_caption(
    folder: Path,
    stage: str,
    data: Any,
    batch: CaptionBatch,
    row: int,
    records: list[AttentionRecord],
    written: str | None,
) -> None:
    """One caption with its picture, and what the model itself wrote about it, if it writes."""
    owner = int(batch.owner[row])
    words = _words(data, batch, row)
    boxes = batch.boxes[owner][batch.region_mask[owner]].tolist()
    sizes = {"words": len(words), "regions": len(boxes)}
    arrays = {f"{record.site.name}.{record.call}": _map(record, row, owner, sizes) for record in records}
    sample = {
        "form": "caption",
        "sample_id": batch.sample_id[row],
        "words": words,
        "boxes": boxes,
        "labels": list(batch.region_labels[owner]) or [f"region {i}" for i in range(len(boxes))],
        "title": " ".join(words[1:-1]),
        "facts": {"picture": int(batch.image_id[owner])} | _written(data, int(batch.image_id[owner]), stage, written),
        "gold": _gold(batch, row, owner),
        "maps": [
            {
                "key": f"{record.site.name}.{record.call}",
                "site": record.site.name,
                "call": record.call,
                "query": record.site.query_stream,
                "key_stream": record.site.key_stream,
            }
            for record in records
        ],
    }
    write_sample(folder, sample, arrays, data.show(int(batch.image_id[owner]), stage))


def _written(data: Any, image_id: int, stage: str, text: str | None) -> dict[str, str]:
    """What the model wrote, and what the data set says of its sentences."""
    if text is None:
        return {}
    verdicts = data.verdicts(image_id, stage, text)
    return {"written": text} | ({} if verdicts is None else {"verdicts": verdicts})


def _words(data: Any, batch: CaptionBatch, row: int) -> list[str]:
    """START, the words of a caption, also those that the vocabulary does not know, END."""
    count = int(batch.token_mask[row].sum()) - 2
    annotation = batch.annotations[row] if batch.annotations else None
    if annotation is not None:
        words = list(annotation.tokens[:count])
    else:
        words = data.vocabulary.decode(batch.tokens[row, 1 : count + 1].tolist())
    return ["<start>", *words, "<end>"]


def _map(record: AttentionRecord, row: int, owner: int, sizes: dict[str, int]) -> np.ndarray:
    """Weights by head for all words and regions. Where rows predict, each stands at the word that it predicts."""
    site = record.site
    queries, keys = sizes[site.query_stream], sizes[site.key_stream]
    of_pictures = {site.query_stream, site.key_stream} == {"regions"}
    weights = record.weights[owner if of_pictures else row].float().cpu().numpy()  # h q k
    found = np.zeros((len(weights), queries, keys), np.float32)
    if not site.predicts:
        found[:] = weights[:, :queries, :keys]
        return found
    found[:, 0] = np.nan  # nothing predicts START
    keys = min(keys, weights.shape[2])
    found[:, 1:, :keys] = weights[:, : queries - 1, :keys]
    if site.key_stream == "words":
        found[:, 1:, -1] = 0.0  # nothing reads END
    return found


def _gold(batch: CaptionBatch, row: int, owner: int) -> list[dict[str, list[int]]]:
    """Which words name which regions, for each phrase that names something detected."""
    annotation = batch.annotations[row] if batch.annotations else None
    if annotation is None or batch.region_object is None:
        return []
    shown = batch.region_object[owner].tolist()
    links = []
    kept = int(batch.token_mask[row].sum()) - 2
    for phrase in annotation.phrases:
        regions = [r for r, thing in enumerate(shown) if thing in phrase.objects]
        words = [word + 1 for word in range(*phrase.span) if word < kept]
        if regions and words:
            links.append({"words": words, "regions": regions})
    return links
