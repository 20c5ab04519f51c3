"""How do attention weights travel inside the page?

Each row of a map (one query of one head) is stored as bytes, scaled so that its largest weight is 255, next to that
largest weight as float32. A weight is then off by at most half of 1/255 of its row's maximum. Scores of an attribution
method may be negative: they are stored as signed bytes, scaled so that the largest size is 127. A row with a value
that is not a number has the scale nan and no bytes worth reading.
"""

import base64
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from lit_attn.report.arrays import Weights
from lit_attn.report.gallery import picture_size
from lit_attn.report.shown import Shown, ShownMap, Stream
from lit_attn.report.text import format_number

STEPS = 255
SIGNED_STEPS = 127
NO_PICTURE = (640, 480)
"""A sample without a picture is shown on an empty sheet of 4 by 3."""
LARGE_PICTURE = 60_000
"""Bytes from which on a picture may lose what nobody sees."""


@dataclass(frozen=True)
class Quantised:
    """Values as bytes `heads queries keys` with the value of the largest byte in each row, `heads queries`."""

    codes: NDArray[np.integer[Any]]
    scales: NDArray[np.float32]


def quantise(weights: Weights) -> Quantised:
    """Values `heads queries keys` as bytes and row scales; signed bytes where any value is negative."""
    valid: NDArray[np.bool_] = np.asarray(np.isfinite(weights).all(axis=-1))
    known = np.where(valid[..., None], weights, 0.0).astype(np.float64)
    signed = bool((known < 0).any())
    steps, kind = (SIGNED_STEPS, np.int8) if signed else (STEPS, np.uint8)
    scales = np.abs(known).max(axis=-1, initial=0.0).astype(np.float32)
    divisor = np.where(scales > 0, scales, 1.0)[..., None].astype(np.float64)
    codes = np.clip(np.rint(known / divisor * steps), -steps, steps).astype(kind)
    return Quantised(codes, np.where(valid, scales, np.float32(np.nan)))


def dequantise(quantised: Quantised) -> Weights:
    """What the page computes from the bytes."""
    steps = SIGNED_STEPS if quantised.codes.dtype == np.int8 else STEPS
    exact = quantised.codes * quantised.scales[..., None].astype(np.float64) / steps
    return exact.astype(np.float32)


def encode(content: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(content).decode("ascii")


def array_payload(weights: Weights) -> dict[str, object]:
    """One array as the page reads it: bytes in row-major order, scales as little-endian float32."""
    quantised = quantise(weights)
    return {
        "shape": list(weights.shape),
        "signed": quantised.codes.dtype == np.int8,
        "codes": encode(quantised.codes.tobytes()),
        "scales": encode(quantised.scales.astype("<f4").tobytes()),
    }


def sample_payload(shown: Shown, size: tuple[int, int], left_out: Collection[str] = ()) -> dict[str, object]:
    """One sample as the page reads it, without its picture and the facts left out."""
    return {
        "id": shown.sample_id,
        "title": shown.title,
        "size": list(size),
        "facts": [
            [name, fact if isinstance(fact, str) else format_number(fact)]
            for name, fact in shown.facts.items()
            if name not in left_out
        ],
        "streams": [_stream(stream) for stream in shown.streams],
        "links": [[link.source, list(link.items), link.target, list(link.targets)] for link in shown.links],
        "linked": shown.linked,
        "maps": [_map(one) for one in shown.maps],
        "attributions": [
            {"method": one.method, "query": one.query, "keys": one.keys, **array_payload(one.scores[None])}
            for one in shown.attributions
        ],
    }


def _stream(stream: Stream) -> dict[str, object]:
    boxes = [[round(min(1.0, max(0.0, edge)), 5) for edge in box] for box in stream.boxes]
    return {"name": stream.name, "kind": stream.kind, "items": list(stream.items), "boxes": boxes}


def _map(one: ShownMap) -> dict[str, object]:
    return {
        "site": one.site,
        "part": one.part,
        "layer": one.layer,
        "call": one.call,
        "query": one.query,
        "keys": one.keys,
        "shared": one.shared,
        **array_payload(one.weights),
    }


def picture_bytes(picture: Path | None) -> tuple[bytes | None, tuple[int, int]]:
    """A picture as it is on disk, and its size."""
    if picture is None:
        return None, NO_PICTURE
    content = picture.read_bytes()
    return content, picture_size(picture, content)


def picture_uri(content: bytes) -> str:
    """A PNG picture for the page; a large one as JPEG where that is smaller."""
    plain_uri = f"data:image/png;base64,{encode(content)}"
    if len(content) <= LARGE_PICTURE:
        return plain_uri
    output = io.BytesIO()
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            if "A" in picture.getbands() or "transparency" in picture.info:
                return plain_uri
            picture.convert("RGB").save(output, "JPEG", quality=88)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError, SyntaxError):
        return plain_uri  # the browser says what it makes of it
    small = output.getvalue()
    return f"data:image/jpeg;base64,{encode(small)}" if len(small) < len(content) else plain_uri
