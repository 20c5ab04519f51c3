"""What is there to explain in a batch? Heads of noun phrases, answers in steps, answers read, classes of sentences."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from lit_attn.attribution.subject import Subject
from lit_attn.attribution.subjects import answers_in_steps, caption_words, sentence_classes, words_read
from lit_attn.errors import UserError
from lit_attn.models.m4c import read_back
from lit_attn.probes.grounding import word_region_links
from lit_attn.types import CaptionBatch, QuestionBatch, ReadingBatch, SentenceBatch

WORDS_AT_ONCE = 32


def subjects(net: nn.Module, batch: Any) -> Iterator[Subject]:
    """Of captions, those words of each picture's first one whose regions are known, or all where none are; of all else, the
    network's own answer to each question or sentence, its first word where it has several."""
    if not len(batch):
        return
    if isinstance(batch, CaptionBatch):
        yield from _words(net, batch)
    elif isinstance(batch, QuestionBatch):
        yield answers_in_steps(net, batch, torch.arange(len(batch), device=batch.tokens.device))
    elif isinstance(batch, ReadingBatch):
        read: Any = net
        batch = read_back(batch, read.answer(batch))
        answered = batch.step_mask[:, 0].nonzero()[:, 0]
        if len(answered):
            yield words_read(net, batch, answered)
    elif isinstance(batch, SentenceBatch):
        yield sentence_classes(net, batch, torch.arange(len(batch), device=batch.tokens.device))
    else:
        raise UserError(f"Nothing is known to explain in a {type(batch).__name__}. Leave AttributionProbe out.")


def _words(net: nn.Module, batch: CaptionBatch) -> Iterator[Subject]:
    owner = batch.owner.tolist()
    first = [owner.index(picture) for picture in sorted(set(owner))]
    known = any(batch.annotations) and batch.region_object is not None
    links = word_region_links(batch, heads_only=True) if known else None
    asked = torch.zeros_like(batch.token_mask)
    asked[first] = (batch.tokens > 0 if links is None else links.any(-1))[first]
    for part in asked.nonzero().split(WORDS_AT_ONCE):
        captions, places = part.T
        yield caption_words(net, batch, captions, places, links)
