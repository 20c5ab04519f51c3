"""How much faster is SCAN with all pairs at once than the published loop over captions?

Prints two ratios, each measured in one process with both sides taking turns: scoring all pairs, and a training step of
batch 128. The loop is our own writing of the original algorithm: for every caption, repeat it for all pictures, build
the attended vectors at full width, pool, and join the columns. Run with `make bench`.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from lit_attn.models.scan import StackedCrossAttention
from lit_attn.ops.loss import matching_hinge

TEMPERATURE = 9.0


def caption_loop(regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """Text-to-image similarity, clipped L2 norm, mean: one caption after the other."""
    columns = []
    for caption, length in zip(words, lengths.tolist(), strict=True):
        query = caption[:length].unsqueeze(0).repeat(len(regions), 1, 1)  # b t d
        scores = F.leaky_relu(torch.bmm(regions, query.transpose(1, 2)), 0.1)  # b r t
        scores = scores / (scores.pow(2).sum(2, keepdim=True).sqrt() + 1e-8)
        weights = F.softmax(scores.transpose(1, 2).contiguous() * TEMPERATURE, dim=-1)  # b t r
        context = torch.bmm(regions.transpose(1, 2), weights.transpose(1, 2).contiguous()).transpose(1, 2)  # b t d
        norms = query.norm(2, 2) * context.norm(2, 2)
        columns.append(((query * context).sum(2) / norms.clamp(min=1e-8)).mean(1, keepdim=True))
    return torch.cat(columns, 1)


def data(pictures: int, captions: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors, and lengths spread like those of Flickr30K (mean 14 with START and END)."""
    lengths = (torch.randn(captions) * 4.5 + 14).round().clamp(5, 40).long()
    words = F.normalize(torch.randn(captions, int(lengths.max()), dim), dim=-1)
    return F.normalize(torch.randn(pictures, 36, dim), dim=-1), words, lengths


def compare(title: str, ours: Callable[[], Tensor], theirs: Callable[[], Tensor], rounds: int) -> None:
    difference = (ours() - theirs()).abs().max().item()
    times: dict[str, list[float]] = {"ours": [], "loop": []}
    for _ in range(rounds):
        for name, call in (("ours", ours), ("loop", theirs)):
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    ours_s, loop_s = (statistics.median(times[name]) for name in ("ours", "loop"))
    print(
        f"{title}: {loop_s / ours_s:.1f}x  (loop {loop_s:.2f} s, ours {ours_s:.2f} s, largest difference {difference:.1e})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--captions", type=int, default=320)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    module = StackedCrossAttention(
        args.dim, "dot", "text_to_image", "clipped_l2norm", TEMPERATURE, "mean", 1.0, False, 2**22
    )

    regions, words, lengths = data(args.pictures, args.captions, args.dim)
    mask = torch.arange(words.shape[1]) < lengths[:, None]
    everything = torch.ones(regions.shape[:2], dtype=torch.bool)
    with torch.inference_mode():
        compare(
            f"scoring {args.pictures} pictures x {args.captions} captions",
            lambda: module(words[mask], lengths, regions, everything),
            lambda: caption_loop(regions, words, lengths),
            args.rounds,
        )

    regions, words, lengths = data(128, 128, args.dim)
    mask = torch.arange(words.shape[1]) < lengths[:, None]
    everything = torch.ones(regions.shape[:2], dtype=torch.bool)

    def step(score: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        a, b = regions.clone().requires_grad_(), words.clone().requires_grad_()
        matching_hinge(score(a, b)).backward()
        assert a.grad is not None
        return a.grad

    compare(
        "training step, batch 128",
        lambda: step(lambda a, b: module(b[mask], lengths, a, everything)),
        lambda: step(lambda a, b: caption_loop(a, b, lengths)),
        args.rounds,
    )


if __name__ == "__main__":
    main()
