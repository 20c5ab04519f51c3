"""Which samples of our models are explained, and how do they look? Words of captions, answers in steps, answers read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lit_attn.attribution.subjects import answers_in_steps, caption_words, sentence_classes, words_read
from lit_attn.drawing.explanation import Boxes, Cells, Words
from lit_attn.errors import UserError
from lit_attn.explain.case import Case, Shown
from lit_attn.explain.model import OurModel
from lit_attn.models.m4c import read_back
from lit_attn.probes.grounding import word_region_links
from lit_attn.tasks.answering import Answering
from lit_attn.tasks.captioning import Captioning
from lit_attn.tasks.reading import Reading
from lit_attn.tasks.sentences import SentenceTask
from lit_attn.types import CaptionBatch

Caption = Literal["gold", "written"]
REFUSED = {
    "Matching": "SCAN compares words and regions once and pools all rows into a score: no product of maps means anything, and "
    "no row is the output's own. Its attention is shown by `lit-attn validate scan_scenes --config probes/grounding`",
    "Synthesis": "AttnGAN's stages paint cells of growing number, none of which is an answer. Its word maps are drawn by "
    "`lit-attn predict`",
    "DamsmTraining": "DAMSM compares words and cells once: no row is the output's own",
    "Classifying": "the judge of pictures has no attention",
}
PER_CASE = 32
"""Samples in one pass, at most."""


@dataclass(frozen=True)
class Chosen:
    """Which samples are explained."""

    samples: int = 4
    start: int = 0
    stage: str = "val"
    caption: Caption | None = None
    """Explain gold captions or those that the model writes; by default gold ones where it is known what they name."""
    words: str = "auto"
    """Of captions: `heads` of noun phrases, `all`, a word, or a place from 0 on; `auto`: heads where they are known."""
    step: int = 0
    """Of an answer that is read, from 0."""
    pictures: bool = True
    """Whether pictures are needed."""


def cases(model: OurModel, chosen: Chosen) -> Iterator[Case]:
    """The chosen samples of a model, in the order of its data."""
    task = model.task
    kind = type(task).__name__
    for name in (base.__name__ for base in type(task).__mro__):
        if name in REFUSED:
            raise UserError(f"{model.name} cannot be explained: {REFUSED[name]}.")
    if chosen.samples < 1:
        raise UserError(f"--samples must be at least 1, got {chosen.samples}.")
    if isinstance(task, Captioning):
        yield from _captions(model, task, chosen)
    elif isinstance(task, Answering):
        yield from _answers(model, task, chosen)
    elif isinstance(task, Reading):
        yield from _reading(model, task, chosen)
    elif isinstance(task, SentenceTask):
        yield from _sentences(model, task, chosen)
    else:
        raise UserError(f"{model.name} is a {kind}, which is not known to explain.")


def total(model: OurModel, chosen: Chosen) -> int:
    """How many samples there will be."""
    return len(_indices(model.data.dataset(chosen.stage), chosen))


def _indices(dataset: Any, chosen: Chosen) -> range:
    if chosen.start >= len(dataset) or chosen.start < 0:
        raise UserError(f"--start {chosen.start} is outside of the data, which has {len(dataset)} samples.")
    return range(chosen.start, min(len(dataset), chosen.start + chosen.samples))


def _picture(model: OurModel, chosen: Chosen, image_id: int) -> Image.Image | None:
    return model.data.show(image_id, chosen.stage) if chosen.pictures else None


def _chunks(rows: Sequence[Any], size: int = PER_CASE) -> Iterator[Sequence[Any]]:
    return (rows[i : i + size] for i in range(0, len(rows), size))


# Captions.


def _captions(model: OurModel, task: Captioning, chosen: Chosen) -> Iterator[Case]:
    dataset = model.data.dataset(chosen.stage)
    for indices in _chunks(_indices(dataset, chosen), 8):
        batch: CaptionBatch = model.data.collate([dataset[i] for i in indices])
        gold = chosen.caption == "gold" or (chosen.caption is None and any(batch.annotations))
        if gold:
            batch = _first_captions(batch)
        else:
            batch = _written(task, batch)
        assert task.words is not None
        texts = [task.words.decode(row[1:]) for row in batch.tokens.tolist()]
        links = word_region_links(batch, heads_only=True) if gold and any(batch.annotations) else None
        asked = [(c, place) for c, text in enumerate(texts) for place in _places(text, c, links, chosen.words)]
        for rows in _chunks(asked):
            yield _caption_case(model, task, chosen, batch, texts, rows, links)


def _first_captions(batch: CaptionBatch) -> CaptionBatch:
    """One caption of each picture."""
    owner = batch.owner.tolist()
    kept = [owner.index(picture) for picture in range(len(batch.image_id)) if picture in owner]
    if not kept:
        raise UserError("These pictures have no captions. Explain what the model writes: --caption written.")
    index = torch.tensor(kept)
    return replace(
        batch,
        caption_id=batch.caption_id[index],
        owner=batch.owner[index],
        tokens=batch.tokens[index],
        token_mask=batch.token_mask[index],
        sample_id=tuple(batch.sample_id[i] for i in kept),
        annotations=tuple(batch.annotations[i] for i in kept),
    )


def _written(task: Captioning, batch: CaptionBatch) -> CaptionBatch:
    tokens, _ = task.caption(batch)
    opened = torch.nn.functional.pad(tokens, (1, 1))
    length = (tokens > 0).sum(-1, keepdim=True) + 2
    return replace(
        batch,
        caption_id=batch.image_id,
        owner=torch.arange(len(tokens)),
        tokens=opened,
        token_mask=torch.arange(opened.shape[1]) < length,
        sample_id=tuple(f"{name}-written" for name in batch.picture_name),
        annotations=(None,) * len(tokens),
    )


def _places(text: Sequence[str], caption: int, links: Tensor | None, wanted: str) -> list[int]:
    """Token positions of the words that are asked about; START stands at 0."""
    everywhere = range(1, len(text) + 1)
    if wanted.isdigit():
        if int(wanted) >= len(text):
            raise UserError(f"--words {wanted}: the caption {' '.join(text)!r} has {len(text)} words, counted from 0.")
        return [int(wanted) + 1]
    if wanted == "all" or (wanted == "auto" and links is None):
        return list(everywhere)
    if wanted in ("auto", "heads"):
        if links is None:
            raise UserError("--words heads needs captions whose phrases are known (--caption gold on Scenes).")
        return [place for place in everywhere if bool(links[caption, place].any())]
    return [place for place in everywhere if text[place - 1] == wanted]


def _caption_case(
    model: OurModel,
    task: Captioning,
    chosen: Chosen,
    batch: CaptionBatch,
    texts: Sequence[Sequence[str]],
    rows: Sequence[tuple[int, int]],
    links: Tensor | None,
) -> Case:
    captions, places = torch.tensor(list(rows)).T
    words = ("(end)", *task.words.words) if task.words is not None else ()
    shown = []
    for caption, place in rows:
        picture = int(batch.owner[caption])
        real = int(batch.region_mask[picture].sum())
        labels = batch.region_labels[picture] if batch.region_labels else ()
        views = {
            "regions": Boxes(_array(batch.boxes[picture, :real]), tuple(labels or ("",) * real)),
            "words": Words(("(start)", *texts[caption][: place - 1])),
        }
        shown.append(
            Shown(
                batch.sample_id[caption],
                _picture(model, chosen, int(batch.image_id[picture])),
                " ".join(texts[caption]),
                views,  # type: ignore[arg-type]
                f"word {place - 1}",
            )
        )
    return Case(
        caption_words(task.net, batch, captions, places, links), tuple(shown), lambda _, number: words[number], words
    )


# Answers.


def _answers(model: OurModel, task: Answering, chosen: Chosen) -> Iterator[Case]:
    data: Any = model.data
    dataset = data.dataset(chosen.stage)
    for indices in _chunks(_indices(dataset, chosen)):
        samples = [dataset[i] for i in indices]
        # One question about each picture, of changing kinds.
        own = [
            (picture, [asked[i % len(asked)]]) for i, (picture, asked) in zip(indices, samples, strict=True) if asked
        ]
        if not own:
            continue
        batch = data.collate(own)
        subject = answers_in_steps(task.net, batch, torch.arange(len(batch)))
        rows, columns = batch.grid.shape[2:]
        shown = tuple(
            Shown(
                batch.sample_id[i],
                _picture(model, chosen, int(batch.image_id[int(batch.owner[i])])),
                " ".join(batch.words[i]),
                {"cells": Cells(rows, columns), "words": Words(batch.words[i])},
            )
            for i in range(len(batch))
        )
        yield Case(subject, shown, lambda _, number: data.answers[number], tuple(data.answers))


def _sentences(model: OurModel, task: SentenceTask, chosen: Chosen) -> Iterator[Case]:
    data: Any = model.data
    dataset = data.dataset(chosen.stage)
    for indices in _chunks(_indices(dataset, chosen)):
        batch = data.collate([dataset[i] for i in indices])
        subject = sentence_classes(task.net, batch, torch.arange(len(batch)))
        shown = tuple(
            Shown(name, None, " ".join(words[1:-1]), {"words": Words(words)})
            for name, words in zip(batch.sample_id, batch.words, strict=True)
        )
        yield Case(subject, shown, lambda _, number: data.answers[number], tuple(data.answers))


def _reading(model: OurModel, task: Reading, chosen: Chosen) -> Iterator[Case]:
    data: Any = model.data
    dataset, words = data.dataset(chosen.stage), data.answer_words
    for indices in _chunks(_indices(dataset, chosen)):
        batch = data.collate([dataset[i] for i in indices])
        if not 0 <= chosen.step < task.net.max_steps:
            raise UserError(f"--step {chosen.step}: an answer of this model has steps 0 to {task.net.max_steps - 1}.")
        batch = read_back(batch, task.net.answer(batch))
        kept = batch.step_mask[:, chosen.step].nonzero()[:, 0]
        if not len(kept):
            continue
        subject = words_read(task.net, batch, kept, chosen.step)
        rows = kept.tolist()
        name = partial(_answer_name, words.words, [batch.ocr_words[row] for row in rows])
        shown = []
        for row in rows:
            objects, tokens = int(batch.region_mask[row].sum()), int(batch.ocr_mask[row].sum())
            views = {
                "objects": Boxes(_array(batch.boxes[row, :objects]), ("",) * objects),
                "ocr": Boxes(_array(batch.ocr_boxes[row, :tokens]), batch.ocr_words[row][:tokens]),
                "question": Words(batch.words[row]),
            }
            shown.append(
                Shown(
                    batch.sample_id[row],
                    _picture(model, chosen, int(batch.image_id[row])),
                    " ".join(batch.words[row][1:-1]),
                    views,  # type: ignore[arg-type]
                    f"step {chosen.step}",
                )
            )
        yield Case(subject, tuple(shown), name, tuple(words.words))


def _answer_name(words: Sequence[str], ocr_words: Sequence[Sequence[str]], sample: int, number: int) -> str:
    own, copied = ocr_words[sample], number - len(words)
    if copied < 0:
        return words[number]
    return f"{own[copied]} (copied)" if copied < len(own) else f"OCR token {copied}"


def _array(boxes: Tensor) -> np.ndarray:
    return boxes.double().cpu().numpy()
