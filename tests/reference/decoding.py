"""Beam search as the published code does it: one picture at a time, the whole prefix read again at every step."""

import torch


def prefix_logprobs(net, regions, boxes, mask, prefix: list[int]) -> torch.Tensor:
    """Log-probabilities after a prefix of words, from a pass over all of it."""
    tokens = torch.tensor([[0, *prefix, 0]])
    owner = torch.zeros(1, dtype=torch.long)
    return net(regions[None], boxes[None], mask[None], tokens, owner)[0, -1].clone()


def beam_search(net, regions, boxes, mask, width, max_words, unknown=None, by_length=False):
    """The best texts with their scores, best first."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    for length in range(max_words):
        candidates = []
        for total, prefix in live:
            logprobs = prefix_logprobs(net, regions, boxes, mask, prefix)
            if unknown is not None:
                logprobs[unknown] = -torch.inf
            candidates += [(total + value, [*prefix, word]) for word, value in enumerate(logprobs.tolist())]
        candidates.sort(key=lambda one: -one[0])
        live = []
        for total, words in candidates[:width]:
            if words[-1] == 0 or length == max_words - 1:
                done.append((total / (length + 1) if by_length else total, words))
            else:
                live.append((total, words))
    return sorted(done, key=lambda one: -one[0])[:width]


def greedy(net, regions, boxes, mask, max_words) -> list[int]:
    words: list[int] = []
    while len(words) < max_words and (not words or words[-1] != 0):
        words.append(int(prefix_logprobs(net, regions, boxes, mask, words).argmax()))
    return words
