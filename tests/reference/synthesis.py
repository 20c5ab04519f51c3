"""DAMSM, the losses of AttnGAN and its word attention as loops over single numbers, and published networks as ours."""

import math
import re

import torch
from torch import Tensor

from lit_attn.models.attngan import Discriminator, Generator
from lit_attn.models.attngan_weights import convert, settings_of


def softmax(numbers: list[float]) -> list[float]:
    total = sum(math.exp(number) for number in numbers)
    return [math.exp(number) / total for number in numbers]


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / (math.sqrt(float(a @ a)) * math.sqrt(float(b @ b)))


def word_attention(regions: Tensor, words: Tensor, sharpness: float) -> list[list[float]]:
    """One picture `r d` and one unpadded caption `t d`: per word the weight of every region."""
    shares = [softmax([float(word @ region) for word in words]) for region in regions]
    return [softmax([sharpness * share[t] for share in shares]) for t in range(len(words))]


def word_similarity(regions: Tensor, words: Tensor, gammas: tuple[float, float, float]) -> float:
    """One picture `r d` and one unpadded caption `t d`."""
    first, second, third = gammas
    total = 0.0
    for word, weights in zip(words, word_attention(regions, words, first), strict=True):
        context = sum(weight * region for weight, region in zip(weights, regions, strict=True))
        total += math.exp(second * cosine(word, context))
    return third * math.log(total)


def match_loss(logits: Tensor, classes: list[int] | None) -> tuple[float, float]:
    """Mean over rows, then over columns, of minus the log-probability of the diagonal, without rivals of its class."""

    def by_row(table: list[list[float]]) -> float:
        losses = []
        for i, row in enumerate(table):
            rivals = [x for j, x in enumerate(row) if j == i or classes is None or classes[j] != classes[i]]
            losses.append(math.log(sum(math.exp(x) for x in rivals)) - row[i])
        return sum(losses) / len(losses)

    return by_row(logits.tolist()), by_row(logits.T.tolist())


def says(logits: Tensor, real: bool) -> float:
    """Mean binary cross-entropy of probabilities."""
    chances = [1 / (1 + math.exp(-logit)) for logit in logits.tolist()]
    return -sum(math.log(p if real else 1 - p) for p in chances) / len(chances)


def attended(picture: Tensor, words: Tensor, score) -> tuple[Tensor, Tensor]:
    """One picture `f y x` and the projected words `t f` that exist: context `f y x` and weights `y x t`."""
    context, weights = torch.zeros_like(picture), picture.new_zeros(*picture.shape[1:], len(words))
    for y in range(picture.shape[1]):
        for x in range(picture.shape[2]):
            weights[y, x] = weights.new_tensor(softmax([float(score(picture[:, y, x], word)) for word in words]))
            context[:, y, x] = sum(weight * word for weight, word in zip(weights[y, x], words, strict=True))
    return context, weights


def published_shapes(width=3, text=8, condition=5, z=7, residuals=2, doublings=4, stages=3) -> dict[str, tuple]:
    """Names and shapes of a published generator's tensors, from its layers."""
    shapes = {"ca_net.fc.weight": (4 * condition, text), "ca_net.fc.bias": (4 * condition,)}

    def norm(name: str, channels: int) -> None:
        shapes.update({f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")})

    start = width * 2**doublings
    shapes["h_net1.fc.0.weight"] = (start * 32, condition + z)
    norm("h_net1.fc.1", start * 32)
    for i in range(1, doublings + 1):
        wide = start // 2 ** (i - 1)
        shapes[f"h_net1.upsample{i}.1.weight"] = (wide, wide, 3, 3)
        norm(f"h_net1.upsample{i}.2", wide)
    for stage in range(2, stages + 1):
        shapes[f"h_net{stage}.att.conv_context.weight"] = (width, text, 1, 1)
        for i in range(residuals):
            shapes[f"h_net{stage}.residual.{i}.block.0.weight"] = (4 * width, 2 * width, 3, 3)
            norm(f"h_net{stage}.residual.{i}.block.1", 4 * width)
            shapes[f"h_net{stage}.residual.{i}.block.3.weight"] = (2 * width, 2 * width, 3, 3)
            norm(f"h_net{stage}.residual.{i}.block.4", 2 * width)
        shapes[f"h_net{stage}.upsample.1.weight"] = (2 * width, 2 * width, 3, 3)
        norm(f"h_net{stage}.upsample.2", 2 * width)
    for stage in range(1, stages + 1):
        shapes[f"img_net{stage}.img.0.weight"] = (3, width, 3, 3)
    return shapes


def below(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The golden arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def published_generator(arrays: dict[str, Tensor]) -> Generator:
    """The golden generator as ours, in evaluation mode."""
    kind, weights = convert(below(arrays, "weights."))
    assert kind == "generator"
    net = Generator(**settings_of(kind, weights)).double().eval()
    net.load_state_dict(weights, strict=True)
    return net


_DISCRIMINATOR = (
    (r"img_code_s16\.0\.(.+)", lambda m: f"trunk.0.{m[1]}"),
    (r"img_code_s16\.(\d)\.(.+)", lambda m: f"trunk.{1 + (int(m[1]) + 1) // 3}.{(int(m[1]) + 1) % 3}.{m[2]}"),
    (r"img_code_s32\.(.+)", lambda m: f"trunk.5.{m[1]}"),
    (r"img_code_s32_1\.(.+)", lambda m: f"trunk.6.{m[1]}"),
    (r"img_code_s64\.(.+)", lambda m: f"trunk.6.{m[1]}"),
    (r"img_code_s64_1\.(.+)", lambda m: f"trunk.7.{m[1]}"),
    (r"img_code_s64_2\.(.+)", lambda m: f"trunk.8.{m[1]}"),
    (r"UNCOND_DNET\.outlogits\.0\.(.+)", lambda m: f"alone.{m[1]}"),
    (r"COND_DNET\.jointConv\.(.+)", lambda m: f"joint.{m[1]}"),
    (r"COND_DNET\.outlogits\.0\.(.+)", lambda m: f"matched.{m[1]}"),
)


def published_discriminator(arrays: dict[str, Tensor], side: int) -> Discriminator:
    """A golden discriminator as ours, in evaluation mode."""
    weights = {}
    for name, value in below(arrays, f"D{side}.weights.").items():
        match, rename = next((m, rename) for rule, rename in _DISCRIMINATOR if (m := re.fullmatch(rule, name)))
        weights[rename(match)] = value
    width, text_dim = len(weights["trunk.0.weight"]), arrays[f"D{side}.cond"].shape[1]
    net = Discriminator(side, text_dim, width).double().eval()
    missing, unexpected = net.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    return net
