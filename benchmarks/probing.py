"""What do probes cost? Validation with all cheap probes on, against the same validation without. Target: 1.25 at most.

By the clock, on one thread and on all that there are: a network shares its work among threads, and what probes do with
lists and tables does not. Python's garbage collector rests meanwhile: a full collection takes a quarter of a second and comes
in either side by chance. What probes make of texts is kept for the next validation; `first` is one that has to make it.
"""

import gc
import logging
import statistics
import tempfile
import time

import lightning as L
import torch

from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.probes import memory
from lit_attn.probes.concentration import Concentration
from lit_attn.probes.dependencies import Dependencies
from lit_attn.probes.grounding import Grounding
from lit_attn.probes.nouns import NounFrequency, TopObjects
from lit_attn.probes.object_words import ObjectWords
from lit_attn.probes.part_of_speech import AttentionMaps, PartOfSpeech
from lit_attn.probes.phrases import PhraseGrounding
from lit_attn.probes.probe import Probe
from lit_attn.probes.spatial import SpatialRelations
from lit_attn.tasks.captioning import Captioning
from lit_attn.tasks.matching import Matching

ROUNDS = 11


def word_probes() -> list[Probe]:
    return [
        Concentration(), Grounding(), PartOfSpeech(), AttentionMaps(), Dependencies(), PhraseGrounding(),
        SpatialRelations(), ObjectWords(), NounFrequency(), TopObjects(),
    ]  # fmt: skip


def measure(name: str, task: L.LightningModule, data: L.LightningDataModule, probes: list[Probe], rounds: int) -> None:
    def validate(probed: bool) -> float:
        trainer = L.Trainer(
            accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[AttentionProbe(probes)] if probed else [],
            default_root_dir=tempfile.mkdtemp(),
        )  # fmt: skip
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        trainer.validate(task, datamodule=data, verbose=False)
        seconds = time.perf_counter() - start
        gc.enable()
        return seconds

    validate(False)  # makes the data
    all_threads, told = torch.get_num_threads(), []
    for threads in (1, all_threads):
        torch.set_num_threads(threads)
        memory._KEPT.clear()
        first = validate(True) / validate(False)
        pairs = [(validate(True), validate(False)) for _ in range(rounds)]
        ratio = statistics.median(with_probes / without for with_probes, without in pairs)
        told.append(f"{ratio:.2f}x (first {first:.2f}x) on {threads} thread" + "s" * (threads > 1))
    print(f"{name}: validation with probes takes {', '.join(told)}, of the time without")


def main() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    pairs = ScenesMatching(val_scenes=211, oracle=False)
    scan = Matching(pairs.vocab_size, pairs.region_dim, alignment="dot", dim=256, word_dim=128)
    measure("SCAN, concentration and grounding", scan, pairs, [Concentration(), Grounding()], ROUNDS)
    small = {"dim": 128, "num_heads": 4, "hidden": 256, "encoder_layers": 2, "decoder_layers": 3}
    published = {"dim": 512, "num_heads": 8, "hidden": 2048, "encoder_layers": 6, "decoder_layers": 6}
    sized = ("of Scenes' size", small, 211, ROUNDS), ("of the published size", published, 31, 5)
    for title, sizes, scenes, rounds in sized:
        texts = ScenesCaptions(val_scenes=scenes, max_words=24)
        captioner = Captioning(texts.vocab_size, texts.region_dim, max_words=24, **sizes)
        for said, probes in (("concentration and grounding", [Concentration(), Grounding()]), ("all", word_probes())):
            measure(f"captioner {title}, {said}", captioner, texts, probes, rounds)


if __name__ == "__main__":
    main()
