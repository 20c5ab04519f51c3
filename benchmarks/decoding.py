"""How much faster is beam search with a cache than reading the whole prefix again at every step?

The captioner has its published size and random weights, so no caption ends before the limit. The other side is our own
writing of the published way: one picture after the other, regions encoded once and copied for every beam, every word of
every beam read again at every step, candidates sorted in Python. Run with `make bench`.
"""

import argparse

import torch
from torch import Tensor

from benchmarks.turns import ratio
from lit_attn.decode import beam_search
from lit_attn.models.captioner import Captioner

WIDTH, WORDS, VOCABULARY = 5, 16, 9488


def prefix_logprobs(net: Captioner, memory: Tensor, mask: Tensor, words: Tensor) -> Tensor:
    """Log-probabilities after each beam's words, from a pass over all of them."""
    length = words.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril().expand(len(words), -1, -1)
    x = net._embed(words, net.positions[:length])
    for layer in net.decoder:
        x = layer(x, memory, torch.ones_like(words, dtype=torch.bool), causal, mask)
    return net._predict(x[:, -1:])[:, 0]


def full_prefix(net: Captioner, regions: Tensor, boxes: Tensor, mask: Tensor) -> list[list[int]]:
    found = []
    for i in range(len(regions)):
        memory = net.encode(regions[i : i + 1], boxes[i : i + 1], mask[i : i + 1])
        live: list[tuple[float, list[int]]] = [(0.0, [])]
        done: list[tuple[float, list[int]]] = []
        for step in range(WORDS):
            words = torch.tensor([[0, *own] for _, own in live])
            logprobs = prefix_logprobs(net, memory.expand(len(live), -1, -1), mask[i].expand(len(live), -1), words)
            values, ids = logprobs.sort(1, descending=True)
            candidates = [
                (total + values[row, column].item(), [*own, int(ids[row, column])])
                for column in range(WIDTH)
                for row, (total, own) in enumerate(live)
            ]
            candidates = sorted(candidates, key=lambda one: -one[0])[:WIDTH]
            ended = [one for one in candidates if one[1][-1] == 0 or step == WORDS - 1]
            done += ended
            live = [one for one in candidates if one[1][-1] != 0] or live
        found.append(max(done, key=lambda one: one[0])[1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.manual_seed(0)
    net = Captioner(vocab_size=VOCABULARY).eval()
    regions, boxes = torch.randn(given.pictures, 36, 2048), torch.rand(given.pictures, 36, 4)
    mask = torch.ones(given.pictures, 36, dtype=torch.bool)
    start = torch.zeros(given.pictures, 1, dtype=torch.long)
    with torch.inference_mode():
        ours = beam_search(net.step, net.start(regions, boxes, mask), start, WIDTH, WORDS).tokens[:, 0].tolist()
        theirs = full_prefix(net, regions, boxes, mask)
        same = sum(own[: len(other)] == other for own, other in zip(ours, theirs, strict=True))
        ratio(
            f"beam search, width {WIDTH}, {given.pictures} pictures",
            lambda: beam_search(net.step, net.start(regions, boxes, mask), start, WIDTH, WORDS),
            lambda: full_prefix(net, regions, boxes, mask),
            given.rounds,
            f", same captions {same} of {given.pictures}",
        )


if __name__ == "__main__":
    main()
