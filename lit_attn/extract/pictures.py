"""Which files are pictures, what are they called, and what are their pixels?

Every kind of picture becomes upright RGB: EXIF rotation is applied, transparency lies on white, deep greyscale is scaled to
8 bits, and of an animation only the first frame counts.
"""

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from lit_attn.errors import UserError

SUFFIXES = frozenset(
    {".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
"""What counts as a picture in a folder; a file that is named itself is always tried."""

_WHITE_16_BIT = 65535


@dataclass(frozen=True)
class Source:
    """A picture file and its name."""

    name: str
    """Its path below the folder that was asked for, or below the nearest folder that holds all of them; no suffix."""
    path: Path


def find_pictures(paths: Sequence[Path]) -> list[Source]:
    """All pictures among files and, recursively, in folders; sorted, hidden files left out, none twice."""
    if not paths:
        raise UserError("Name at least one picture or folder of pictures.")
    found: dict[Path, None] = {}
    for path in (path.absolute() for path in paths):
        if path.is_dir():
            found |= dict.fromkeys(_walk(path))
        elif path.exists():
            found[path] = None
        else:
            raise UserError(f"There is no picture or folder {path}.")
    if not found:
        raise UserError(
            f"No pictures in {', '.join(map(str, paths))}. Looked for files that end in {', '.join(sorted(SUFFIXES))}."
        )
    base = os.path.commonpath([path if path.is_dir() else path.parent for path in map(Path.absolute, paths)])
    return [Source(path.relative_to(base).with_suffix("").as_posix(), path) for path in sorted(found)]


def _walk(folder: Path) -> Iterator[Path]:
    """Picture files below a folder, through links to folders, too, but through none twice."""
    visited = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            visited.add(real)
            shown = (Path(place, name) for name in sorted(files) if not name.startswith("."))
            yield from (path for path in shown if path.suffix.lower() in SUFFIXES)


def open_picture(content: bytes) -> Image.Image:
    """Upright RGB. Raises `UserError` with the reason when the bytes are no whole picture."""
    if not content:
        raise UserError("the file is empty")
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(content)) as image:
            warnings.simplefilter("ignore")
            return as_rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise UserError("it is not a picture, or its header is damaged") from error
    except Exception as error:  # Pillow's readers raise many kinds for damaged files
        raise UserError(f"it cannot be read: {error}") from error


def as_rgb(image: Image.Image) -> Image.Image:
    """The same picture with 8 bits each of red, green and blue."""
    if image.mode.startswith("I") or image.mode == "F":
        deep = np.nan_to_num(np.asarray(image, np.float64))
        white = _WHITE_16_BIT if image.mode.startswith("I") else max(deep.max(), 1.0)
        return Image.fromarray((deep * (255 / white)).clip(0, 255).round().astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")
