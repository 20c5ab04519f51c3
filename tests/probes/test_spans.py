"""Are the places of spans those of plain loops over texts, words and sources?"""

import random

import pytest
import torch

from lit_attn.probes.spans import Asked, span_rows

CPU = torch.device("cpu")


def by_loops(asked, lengths, width):
    words, pairs, item = [], [], 0
    for c, own in enumerate(asked):
        for (start, end), sources in own:
            for word in range(start, end):
                if word < lengths[c]:
                    words.append((item, c, word))
                    pairs += [(item, c, word, source) for source in sources if source < width]
            item += 1
    return words, pairs, item


@pytest.mark.parametrize("seed", range(5))
def test_spans_against_loops(seed):
    """Texts without spans, spans behind the end of a text that was cut, none, one and several sources, some too far."""
    rng = random.Random(seed)
    lengths = [rng.randrange(12) for _ in range(7)]
    asked = [
        [
            Asked(
                (start := rng.randrange(11), start + rng.randrange(1, 5)),
                sorted(rng.sample(range(13), rng.randrange(5))),
            )
            for _ in range(rng.randrange(4))
        ]
        for _ in lengths
    ]
    words, pairs, items = by_loops(asked, lengths, 11)
    found = span_rows(asked, lengths, 11, CPU)
    assert [(i, *at) for i, at in zip(found.item.tolist(), found.words.tolist(), strict=True)] == words
    assert [(i, *at) for i, at in zip(found.pair_item.tolist(), found.pairs.tolist(), strict=True)] == pairs
    assert found.items == items


def test_texts_without_spans_have_none():
    found = span_rows([[], []], [3, 5], 7, CPU)
    assert (found.words.shape, found.pairs.shape, found.items) == ((0, 2), (0, 3), 0)
