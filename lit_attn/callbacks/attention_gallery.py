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

    def _keep(self, trainer: L.Trainer, batch: Any) -> None:
        self._listening.close()
        records, self._records = self._records, []
        if not records or trainer.sanity_checking:
            return
        folder = Path(trainer.default_root_dir) / "gallery"
        folder.mkdir(parents=True, exist_ok=True)
        stage = stage_name(trainer)
        for row in self._chosen(batch):
            write_sample(folder, stage, getattr(trainer, "datamodule", None), batch, row, records)

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
        self._keep(trainer, batch)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        self._keep(trainer, batch)


def write_sample(
    folder: Path, stage: str, data: Any, batch: CaptionBatch, row: int, records: list[AttentionRecord]
) -> None:
    """One caption with its picture."""
    owner = int(batch.owner[row])
    regions = int(batch.region_mask[owner].sum())
    words = data.vocabulary.decode(batch.tokens[row][batch.token_mask[row]].tolist())
    annotation = batch.annotations[row] if batch.annotations else None
    if annotation is not None:  # the words themselves, also those that the vocabulary does not know
        words[1:-1] = annotation.tokens
    sizes = {"words": len(words), "regions": regions}
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", batch.sample_id[row])
    arrays, maps = {}, []
    for record in records:
        site = record.site
        queries, keys = sizes[site.query_stream], sizes[site.key_stream]
        key = f"{site.name}.{record.call}"
        arrays[key] = record.weights[row, :, :queries, :keys].float().cpu().numpy().astype(np.float16)
        maps.append(
            {
                "key": key,
                "site": site.name,
                "call": record.call,
                "query": site.query_stream,
                "key_stream": site.key_stream,
            }
        )
    np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    picture = data.show(int(batch.image_id[owner]), stage)
    if picture is not None:
        picture.save(folder / f"{name}.png")
    sample = {
        "sample_id": batch.sample_id[row],
        "words": words,
        "boxes": batch.boxes[owner, :regions].tolist(),
        "labels": list(batch.region_labels[owner][:regions]) if batch.region_labels else [""] * regions,
        "picture": None if picture is None else f"{name}.png",
        "title": " ".join(words[1:-1]),
        "facts": {"picture": int(batch.image_id[owner])},
        "gold": _gold(batch, row, owner),
        "maps": maps,
    }
    (folder / f"{name}.json").write_text(json.dumps(sample, ensure_ascii=False), encoding="utf-8")


def _gold(batch: CaptionBatch, row: int, owner: int) -> list[dict[str, list[int]]]:
    """Which words name which regions, for each phrase that names something detected."""
    annotation = batch.annotations[row] if batch.annotations else None
    if annotation is None or batch.region_object is None:
        return []
    shown = batch.region_object[owner].tolist()
    links = []
    for phrase in annotation.phrases:
        regions = [r for r, thing in enumerate(shown) if thing in phrase.objects]
        if regions:
            links.append({"words": [w + 1 for w in range(*phrase.span)], "regions": regions})
    return links
