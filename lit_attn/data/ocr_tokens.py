"""What was read in a picture? The file `ocr.jsonl` that `lit-attn extract ocr` writes, one picture per line."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lit_attn.data.picture_names import PictureNames
from lit_attn.errors import UserError

FILE = "ocr.jsonl"


@dataclass(frozen=True)
class ReadTokens:
    """The tokens of a picture, in the order of the file, with boxes relative to the picture."""

    texts: tuple[str, ...]
    boxes: NDArray[np.float32]


class OcrFile:
    """Tokens by picture.

    Args:
        path: The file, or the folder that holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / FILE if path.is_dir() else path

    def read(self, *names: str) -> ReadTokens:
        """Of a picture that is known under `names`."""
        name = self._names.find(*names)
        if name is None:
            raise self._names.not_found(*names)
        return self._tokens[name]

    @cached_property
    def _names(self) -> PictureNames:
        return PictureNames(list(self._tokens), str(self.path))

    @cached_property
    def _tokens(self) -> dict[str, ReadTokens]:
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise UserError(f"Cannot read the OCR tokens {self.path}: {error.strerror}.") from error
        found = {}
        for place, line in enumerate(lines, 1):
            if line.strip():
                try:
                    entry = json.loads(line)
                    found[str(entry["name"])] = _tokens(entry)
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(
                        f"{self.path}, line {place} is no picture with name, width, height and tokens of text and box: "
                        f"{error!r}."
                    ) from error
        return found


def _tokens(entry: dict[str, Any]) -> ReadTokens:
    size = np.array([entry["width"], entry["height"]] * 2, np.float32)
    boxes = np.array([token["box"] for token in entry["tokens"]], np.float32).reshape(-1, 4)
    return ReadTokens(tuple(str(token["text"]) for token in entry["tokens"]), (boxes / size).clip(0.0, 1.0))
