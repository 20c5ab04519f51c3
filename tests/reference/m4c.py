"""The golden M4C as ours, its batch, and decoding by full passes as the original does it."""

from dataclasses import replace

import torch
from torch import Tensor

from lit_attn.models.m4c import M4C, START
from lit_attn.models.m4c_weights import convert
from lit_attn.types import ReadingBatch

GOLDEN_SIZES = {
    "vocab_size": 29, "num_answers": 13, "region_dim": 19, "fc7_dim": 17, "dim": 24, "num_heads": 3, "hidden": 40,
    "layers": 2, "text_layers": 2, "max_steps": 4,
}  # fmt: skip


def below(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def published_m4c(arrays: dict[str, Tensor], **options: object) -> M4C:
    """`m4c_model.npz` in eval mode and double precision. Its table of places is shorter than BERT's."""
    weights = convert(below(arrays, "weights."), max_steps=4)
    net = M4C(**(GOLDEN_SIZES | options))
    places = net.text.embed.positions.weight.detach().clone()
    places[:7] = weights["text.embed.positions.weight"]
    net.load_state_dict(weights | {"text.embed.positions.weight": places}, strict=True)
    return net.double().eval()


def published_batch(arrays: dict[str, Tensor]) -> ReadingBatch:
    def mask(counts: str, size: int) -> Tensor:
        return torch.arange(size) < arrays[counts][:, None]

    return ReadingBatch(
        question_id=torch.arange(3),
        image_id=torch.arange(3),
        tokens=arrays["token_ids"],
        token_mask=mask("text_lengths", 5),
        regions=arrays["object_fc6"].double(),
        boxes=arrays["object_boxes"].double(),
        region_mask=mask("object_counts", 7),
        ocr_vectors=arrays["ocr_fasttext"].double(),
        ocr_phoc=arrays["ocr_phoc"].double(),
        ocr_regions=arrays["ocr_fc6"][:, :6].double(),
        ocr_boxes=arrays["ocr_boxes"].double(),
        ocr_mask=mask("ocr_counts", 6),
        previous=arrays["previous_indices"],
        targets=arrays["loss.targets"].double(),
        step_mask=arrays["loss.step_mask"].bool(),
        words=(("word",) * 5,) * 3,
        ocr_words=(("word",) * 6,) * 3,
        answers=((),) * 3,
    )


def answer_by_full_passes(net: M4C, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
    """Ids and the scores of the last pass: every pass computes everything and fills in one more id."""
    previous = torch.zeros(len(batch), net.max_steps, dtype=torch.long)
    previous[:, 0] = START
    step_mask = torch.ones_like(previous, dtype=torch.bool)
    for _ in range(net.max_steps):
        scores = net(replace(batch, previous=previous, step_mask=step_mask))
        chosen = scores.argmax(-1)
        previous = torch.cat([previous[:, :1], chosen[:, :-1]], 1)
    return chosen, scores
