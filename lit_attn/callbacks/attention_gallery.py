"""Which samples are kept whole to look at? A fixed few: words, regions, picture and every attention map of them.

Written to `gallery/<sample>.json`, `.npz` and `.png` at the end of each validation, replacing those of the one before.
Each process writes the samples it saw. The report reads these files; nothing in them needs torch or unpickling.
"""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np

from lit_attn.callbacks.attention_probe import bare_net, stage_name
from lit_attn.files import write_text, written_whole
from lit_attn.nn.tape import AttentionRecord, AttentionTape
from lit_attn.types import CaptionBatch


class AttentionGallery(L.Callback):
    """Keeps the attention of the first caption of the first `samples` pictures.

    Args:
        samples: How many.
        sites: Patterns of site names to keep.
    """

    def __init__(self, samples: int = 8, sites: str | list[str] = "*") -> None:
        self.samples = samples
        self.sites = sites
        self._records: list[AttentionRecord] = []
        self._listening = ExitStack()

    def _listen(self, pl_module: L.LightningModule, batch: Any) -> None:
        if self._chosen(batch):
            tape = AttentionTape(bare_net(pl_module), self.sites, listener=self._records.append)
            self._listening.enter_context(tape)

    def _chosen(self, batch: Any) -> list[int]:
        """Rows of this batch to keep: the first caption of each early picture."""
        if not isinstance(batch, CaptionBatch):
            return []
        first = {owner: row for row, owner in reversed(list(enumerate(batch.owner.tolist())))}
        return [row for owner, row in sorted(first.items()) if int(batch.image_id[owner]) < self.samples]

    def _keep(self, trainer: L.Trainer, outputs: Any, batch: Any) -> None:
        """A step may return `texts`: what the model itself writes about each picture."""
        self._listening.close()
        records, self._records = self._records, []
        if not records or trainer.sanity_checking:
            return
        folder = Path(trainer.default_root_dir) / "gallery"
        folder.mkdir(parents=True, exist_ok=True)
        stage = stage_name(trainer)
        for row in self._chosen(batch):
            written = outputs["texts"][int(batch.owner[row])] if outputs else None
            write_sample(folder, stage, getattr(trainer, "datamodule", None), batch, row, records, written)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._listening.__exit__(type(exception), exception, None)

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any
    ) -> None:
        self._listen(pl_module, batch)

    def on_test_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, *rest: Any) -> None:
        self._listen(pl_module, batch)

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(trainer, outputs, batch)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(trainer, outputs, batch)


def write_sample(
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
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", batch.sample_id[row])
    boxes = batch.boxes[owner][batch.region_mask[owner]].tolist()
    sizes = {"words": len(words), "regions": len(boxes)}
    arrays = {f"{r.site.name}.{r.call}": _map(r, row, owner, sizes).astype(np.float16) for r in records}
    picture = data.show(int(batch.image_id[owner]), stage)
    sample = {
        "sample_id": batch.sample_id[row],
        "words": words,
        "boxes": boxes,
        "labels": list(batch.region_labels[owner]) or [f"region {i}" for i in range(len(boxes))],
        "picture": None if picture is None else f"{name}.png",
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
    with written_whole(folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    if picture is not None:
        with written_whole(folder / f"{name}.png") as temporary:
            picture.save(temporary, "PNG")
    write_text(folder / f"{name}.json", json.dumps(sample, ensure_ascii=False))


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
