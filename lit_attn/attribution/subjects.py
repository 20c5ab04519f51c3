"""What can be explained of a batch of ours? A word of a caption, an answer in steps, a word of an answer that was read.

How an item is taken away: regions, words of captions and sentences, objects, OCR tokens and tokens of M4C's questions as if
they were padding, which nothing attends to; MAC knows no such mask, so its cells and words are blanked to zeros. An OCR token
that is gone cannot be copied. Boxes stay.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.attribution.capture import bare_net
from lit_attn.attribution.plans import plan_of
from lit_attn.attribution.subject import Features, Kept, Subject, scores_without
from lit_attn.types import CaptionBatch, QuestionBatch, ReadingBatch, SentenceBatch


def caption_words(
    net: nn.Module,
    batch: CaptionBatch,
    captions: Int[Tensor, " n"],
    places: Int[Tensor, " n"],
    links: Bool[Tensor, "c t r"] | None = None,
) -> Subject:
    """The words at some places of some captions of a batch, given the words before them.

    Args:
        places: Positions in `batch.tokens`, from 1 on: START is not written.
        links: Which word names what which region shows, where that is known.
    """
    owner, rows = batch.owner[captions], places - 1
    regions, boxes, region_mask = batch.regions[owner], batch.boxes[owner], batch.region_mask[owner]
    tokens, index = batch.tokens[captions], torch.arange(len(captions), device=captions.device)
    position = torch.arange(tokens.shape[1] - 1, device=tokens.device)
    read_words = (position >= 1) & (position <= rows.unsqueeze(1)) & (tokens[:, :-1] > 0)

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Float[Tensor, "n v"]:
        seen = region_mask & kept["regions"] if "regions" in kept else region_mask
        hidden = read_words & ~kept["words"] if "words" in kept else torch.zeros_like(read_words)
        words = torch.cat([tokens[:, :-1].masked_fill(hidden, 0), tokens[:, -1:]], 1)
        with _embedded(net, "embed", "words", features):
            return net(_leaf(regions, "regions", features), boxes, seen, words, index)[index, rows]

    return Subject(
        net,
        plan_of(net, tuple(rows.tolist())),
        run,
        {"regions": region_mask, "words": read_words},
        tokens[index, places],
        {} if links is None else {"regions": links[captions, places] & region_mask},
    )


def answers_in_steps(net: nn.Module, batch: QuestionBatch, questions: Int[Tensor, " n"]) -> Subject:
    """MAC's own answers to some questions of a batch."""
    owner = batch.owner[questions]
    grid, tokens, word_mask = batch.grid[owner], batch.tokens[questions], batch.token_mask[questions]
    cells, index = grid.flatten(2).mT.contiguous(), torch.arange(len(questions), device=questions.device)

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Float[Tensor, "n v"]:
        seen = _leaf(cells, "cells", features)
        if "cells" in kept:
            seen = seen * kept["cells"].unsqueeze(-1)
        read = tokens.masked_fill(~kept["words"], 0) if "words" in kept else tokens
        with _embedded(net, "question.embed", "words", features):
            return net(seen.mT.reshape(grid.shape), read, word_mask, index)

    everywhere = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
    causes = {} if batch.causes is None else {"cells": batch.causes[questions]}
    return _own_answers(Subject(net, plan_of(net), run, {"cells": everywhere, "words": word_mask}, questions, causes))


def sentence_classes(net: nn.Module, batch: SentenceBatch, sentences: Int[Tensor, " n"]) -> Subject:
    """The classes that a classifier of sentences finds for some sentences of a batch."""
    tokens, word_mask = batch.tokens[sentences], batch.token_mask[sentences]
    inner = word_mask & torch.roll(word_mask, -1, 1)
    inner[:, 0] = inner[:, -1] = False  # the marks around a sentence
    table = "words" if hasattr(bare_net(net), "words") else "embedding.words"

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Float[Tensor, "n v"]:
        seen = word_mask & (kept["words"] | ~inner) if "words" in kept else word_mask
        with _embedded(net, table, "words", features):
            return net(tokens, seen)

    causes = {} if batch.causes is None else {"words": batch.causes[sentences] & inner}
    return _own_answers(Subject(net, plan_of(net), run, {"words": inner}, sentences, causes))


def words_read(net: nn.Module, batch: ReadingBatch, questions: Int[Tensor, " n"], step: int = 0) -> Subject:
    """A word of M4C's own answers to some questions: `batch` holds these answers, see `models.m4c.read_back`."""
    own = chosen(batch, questions.tolist())
    inner = own.token_mask & torch.roll(own.token_mask, -1, 1)
    inner[:, 0] = inner[:, -1] = False  # the marks around a question
    items = {"question": inner, "objects": own.region_mask, "ocr": own.ocr_mask}
    read = torch.cat([own.ocr_vectors, own.ocr_phoc, own.ocr_regions], -1)
    widths = [own.ocr_vectors.shape[-1], own.ocr_phoc.shape[-1], own.ocr_regions.shape[-1]]

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Float[Tensor, "n v"]:
        def seen(stream: str, mask: Bool[Tensor, "n k"]) -> Bool[Tensor, "n k"]:
            return mask & (kept[stream] | ~items[stream]) if stream in kept else mask

        vectors, spelling, looks = _leaf(read, "ocr", features).split(widths, -1)
        changed = {
            "token_mask": seen("question", own.token_mask),
            "region_mask": seen("objects", own.region_mask),
            "ocr_mask": seen("ocr", own.ocr_mask),
            "regions": _leaf(own.regions, "objects", features),
            "ocr_vectors": vectors,
            "ocr_phoc": spelling,
            "ocr_regions": looks,
        }
        with _embedded(net, "text.embed.words", "question", features):
            return net(_replaced(own, changed))[:, step]

    causes = {}
    if own.region_causes is not None and own.ocr_causes is not None:
        causes = {"objects": own.region_causes & own.region_mask, "ocr": own.ocr_causes & own.ocr_mask}
    return _own_answers(Subject(net, plan_of(net, step), run, items, questions, causes))


def chosen(batch: ReadingBatch, rows: Sequence[int]) -> ReadingBatch:
    """Some questions of a batch."""
    index = torch.tensor(list(rows), dtype=torch.long, device=batch.tokens.device)

    def pick(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value[index]
        return tuple(value[i] for i in rows) if value else value

    return _replaced(batch, {f.name: pick(getattr(batch, f.name)) for f in fields(batch)})


def _replaced(batch: ReadingBatch, changed: dict[str, Any]) -> ReadingBatch:
    return ReadingBatch(**{f.name: getattr(batch, f.name) for f in fields(batch)} | changed)


def _own_answers(subject: Subject) -> Subject:
    """About the classes that the network itself finds best."""
    return subject.asking(scores_without(subject, {}).argmax(-1))


def _leaf(inputs: Float[Tensor, "n k d"], stream: str, features: Features | None) -> Float[Tensor, "n k d"]:
    """Inputs as first features of a stream, where these are wanted."""
    if features is None:
        return inputs
    features[stream] = inputs.detach().clone().requires_grad_(True)
    return features[stream]


@contextmanager
def _embedded(net: nn.Module, path: str, stream: str, features: Features | None) -> Iterator[None]:
    """Inside, what an embedding gives is kept as first features, where these are wanted."""
    if features is None:
        yield
        return

    def keep(module: nn.Module, inputs: Any, output: Float[Tensor, "n k d"]) -> None:
        features[stream] = output

    handle = net.get_submodule(path).register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()
