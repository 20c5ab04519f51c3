"""What does a linker do to the probe of noun phrases? The shipped captioner on Scenes, with gold links and with linkers'.

The same 211 rooms, captions and attention throughout; only what counts as the right regions differs. Phrases are the gold ones
that name something; a linker may leave some without a link.

    python -m benchmarks.linked_probes [LINKER ...]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import lit_attn  # noqa: F401 - before lightning
from lit_attn.checkpoint import read_weights, transfer
from lit_attn.data.linking.linker import Linker, phrase_words
from lit_attn.data.linking.links import link_phrases
from lit_attn.data.linking.named import LINKERS, open_linker
from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.probes.board import Board
from lit_attn.probes.phrases import PhraseGrounding
from lit_attn.progress import shown
from lit_attn.tasks.captioning import Captioning
from lit_attn.types import Annotation, CaptionBatch

WEIGHTS = Path("checkpoints/captioner_scenes.safetensors")


def relinked(batch: CaptionBatch, linker: Linker) -> CaptionBatch:
    """The batch with every region an object of its own, and phrases linked by the linker."""
    texts: list[Annotation] = []
    for text, owner in zip(batch.annotations, batch.owner.tolist(), strict=True):
        named = [phrase for phrase in text.phrases if phrase.objects]
        found = link_phrases([phrase_words(text, phrase) for phrase in named], batch.region_labels[owner], linker)
        texts.append(replace(text, phrases=tuple(replace(p, objects=o) for p, o in zip(named, found, strict=True))))
    pictures, regions = batch.region_mask.shape
    return replace(batch, annotations=tuple(texts), region_object=torch.arange(regions).expand(pictures, -1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("linkers", nargs="*", default=list(LINKERS))
    given = parser.parse_args()
    weights = read_weights(WEIGHTS)
    task = Captioning(**weights.hyperparameters).eval()
    transfer(weights, task, strict=True)
    batches = list(ScenesCaptions().val_dataloader())
    rows = []
    for name in shown(["gold", *given.linkers], 1 + len(given.linkers), "linkers"):
        linker = None if name == "gold" else open_linker(name)
        board = Board(task.net, [PhraseGrounding(shuffles=1)], "decoder.*.cross")
        for batch in batches:
            asked = batch if linker is None else relinked(batch, linker)
            with torch.inference_mode(), board.listening(asked):
                task(asked)
        values = board.values()
        layers = [
            [v.value for v in values if v.metric == "phrase_grounding" and v.site == site.name] for site in board.sites
        ]
        chance = next(v for v in values if v.metric == "phrase_grounding_chance")
        rows.append((name, chance.rows, *(sum(layer) / len(layer) for layer in layers), chance.value))
    print("| links | phrases | layers from the first on | chance |")
    for name, count, *shares in rows:
        print(f"| {name} | {count} | {' | '.join(f'{share:.3f}' for share in shares)} |")


if __name__ == "__main__":
    main()
