"""How much faster does M4C answer when everything but the answer is computed once?

The network has its published sizes and random weights. The other side is our own writing of the published way: every step
is a pass of the question encoder and of the joint layers over everything and all steps of the answer, and fills in one
more of them; objects and OCR tokens are embedded once on both sides. Run with `make bench`.
"""

import argparse
import logging

import torch
from torch import Tensor

from benchmarks.turns import ratio
from lit_attn.models.m4c import M4C, START
from lit_attn.types import ReadingBatch

TOKENS, OBJECTS, OCR, STEPS, ANSWERS, VOCABULARY = 20, 100, 50, 12, 5000, 30522


def questions(count: int) -> ReadingBatch:
    """As many questions, each as long as it may be, with as many objects and OCR tokens as there may be."""
    return ReadingBatch(
        question_id=torch.arange(count),
        image_id=torch.arange(count),
        tokens=torch.randint(0, VOCABULARY, (count, TOKENS)),
        token_mask=torch.ones(count, TOKENS, dtype=torch.bool),
        regions=torch.randn(count, OBJECTS, 2048).relu(),
        boxes=torch.rand(count, OBJECTS, 4),
        region_mask=torch.ones(count, OBJECTS, dtype=torch.bool),
        ocr_vectors=torch.randn(count, OCR, 300),
        ocr_phoc=(torch.rand(count, OCR, 604) < 0.05).float(),
        ocr_regions=torch.randn(count, OCR, 2048).relu(),
        ocr_boxes=torch.rand(count, OCR, 4),
        ocr_mask=torch.ones(count, OCR, dtype=torch.bool),
        previous=torch.full((count, STEPS), START),
        targets=torch.zeros(count, STEPS, ANSWERS + OCR),
        step_mask=torch.ones(count, STEPS, dtype=torch.bool),
        words=(),
        ocr_words=(),
        answers=(),
    )


def full_passes(net: M4C, batch: ReadingBatch) -> Tensor:
    seen = net.see(batch)
    previous = torch.zeros_like(batch.previous)
    previous[:, 0] = START
    for _ in range(STEPS):
        question = net.text_join(net.text(batch.tokens, batch.token_mask))
        again = seen._replace(tokens=torch.cat([question, seen.tokens[:, TOKENS:]], 1))
        chosen = net.write(again, previous, batch.step_mask).argmax(-1)
        previous = torch.cat([previous[:, :1], chosen[:, :-1]], 1)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alignment", default="scaled_dot")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # random weights are meant
    torch.manual_seed(0)
    net = M4C(vocab_size=VOCABULARY, num_answers=ANSWERS, alignment=given.alignment).eval()
    batch = questions(given.questions)
    with torch.inference_mode():
        assert torch.equal(net.answer(batch), full_passes(net, batch)), "the two ways chose different tokens"
        ratio(
            f"M4C answers, {given.questions} questions of {TOKENS}+{OBJECTS}+{OCR} tokens, {STEPS} steps",
            lambda: net.answer(batch),
            lambda: full_passes(net, batch),
            given.rounds,
            ", same tokens",
        )


if __name__ == "__main__":
    main()
