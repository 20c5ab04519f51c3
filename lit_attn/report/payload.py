"""How do attention weights travel inside the page?

Each row of a map (one query of one head) is stored as bytes, scaled so that its largest weight is 255, next to that
largest weight as float32. A weight is then off by at most half of 1/255 of its row's maximum. A row with a value
that is not a number has the scale nan and no bytes worth reading.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lit_attn.report.arrays import Weights
from lit_attn.report.gallery import MapName, Sample, picture_size, read_maps
from lit_attn.report.raw import is_raw, used_site
from lit_attn.report.text import format_number

STEPS = 255


@dataclass(frozen=True)
class Quantised:
    """Weights as bytes `heads queries keys` with the value of 255 in each row, `heads queries`."""

    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]


def quantise(weights: Weights) -> Quantised:
    """Weights `heads queries keys`, none negative, as bytes and row scales."""
    valid: NDArray[np.bool_] = np.asarray(np.isfinite(weights).all(axis=-1))
    known = np.where(valid[..., None], weights, 0.0).astype(np.float64)
    scales = known.max(axis=-1, initial=0.0).astype(np.float32)
    divisor = np.where(scales > 0, scales, 1.0)[..., None].astype(np.float64)
    codes = np.clip(np.rint(known / divisor * STEPS), 0, STEPS).astype(np.uint8)
    return Quantised(codes, np.where(valid, scales, np.float32(np.nan)))


def dequantise(quantised: Quantised) -> Weights:
    """What the page computes from the bytes."""
    exact = quantised.codes * quantised.scales[..., None].astype(np.float64) / STEPS
    return exact.astype(np.float32)


def encode(content: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(content).decode("ascii")


def map_payload(name: MapName, weights: Weights) -> dict[str, object]:
    """One map as the page reads it: bytes in row-major order, scales as little-endian float32."""
    quantised = quantise(weights)
    return {
        "site": f"{used_site(name.site)}, raw capture" if is_raw(name.site) else name.site,
        "call": name.call,
        "query": name.query,
        "keys": name.key_stream,
        "shape": list(weights.shape),
        "codes": encode(quantised.codes.tobytes()),
        "scales": encode(quantised.scales.astype("<f4").tobytes()),
    }


def sample_payload(sample: Sample, size: tuple[int, int], left_out: Collection[str] = ()) -> dict[str, object]:
    """One sample as the page reads it, without its picture and the facts left out; raw captures stand last."""
    maps = read_maps(sample)
    ordered = sorted(sample.maps, key=lambda name: is_raw(name.site))
    return {
        "id": sample.sample_id,
        "title": sample.title,
        "words": list(sample.words),
        "boxes": [[round(min(1.0, max(0.0, edge)), 5) for edge in box] for box in sample.boxes],
        "labels": list(sample.labels),
        "size": list(size),
        "facts": [
            [name, fact if isinstance(fact, str) else format_number(fact)]
            for name, fact in sample.facts.items()
            if name not in left_out
        ],
        "gold": [[list(link.words), list(link.regions)] for link in sample.gold],
        "maps": [map_payload(name, maps[name.key]) for name in ordered],
    }


def picture_payload(sample: Sample) -> tuple[str | None, tuple[int, int]]:
    """The picture as a data URI, and its size; a sample without one is shown on an empty sheet of 4 by 3."""
    if sample.picture is None:
        return None, (640, 480)
    content = sample.picture.read_bytes()
    return f"data:image/png;base64,{encode(content)}", picture_size(sample.picture, content)
