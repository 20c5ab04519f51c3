"""Which captions does a picture have? Reads the public files of captions into one form. Needs no torch.

- Karpathy's layout (Karpathy and Fei-Fei 2015): `images[]` with `filename`, `split` and `sentences[].tokens`, mostly with
  `filepath` and `cocoid`. Tokens are taken as they are.
- COCO's own layout: `images[]` and `annotations[]`. Captions are cut into lower-cased NLTK tokens without the punctuation
  that COCO's evaluation removes, which is close to its Java tokenizer on plain text. A picture's split is its entry
  `split`, else the word train, val or test in the name of the file.
"""

import json
import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lit_attn.data.region_base import Size
from lit_attn.data.vocab import tokenize
from lit_attn.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

SPLITS = ("train", "restval", "val", "test")
PUNCTUATION = frozenset(
    ("''", "'", "``", "`", '"', "(", ")", "[", "]", "{", "}", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)

_PLAIN = re.compile(r"(?:[a-z0-9]+,?\s+)*[a-z0-9]+\s*\.?")
"""Most captions: words, commas, a full stop. NLTK, which takes half a minute for 100,000, would do no more than split them."""
_TWO_IN_ONE = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))
"""Words that NLTK splits."""


@dataclass(frozen=True)
class CaptionedPicture:
    """A picture with its captions, as a file of captions lists it."""

    file: str
    """Its path below the folder of pictures."""
    split: str
    captions: tuple[tuple[str, ...], ...]
    """Tokens, whole."""
    picture_id: int
    is_numbered: bool = True
    """Whether `picture_id` is the picture's own number, or only its place in the file."""
    size: Size | None = None
    called: str | None = None
    """What predictions call it; by default its file name."""

    @property
    def name(self) -> str:
        return self.called or PurePosixPath(self.file).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.file).stem

    @property
    def references(self) -> tuple[str, ...]:
        """All captions, whole: tokens joined by blanks."""
        return tuple(" ".join(token for token in caption if token.strip()) for caption in self.captions)


def read_captions(path: Path) -> list[CaptionedPicture]:
    """All pictures of a file in Karpathy's or COCO's layout. Captions without any word are left out, with a warning."""
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise UserError(f"{path} is no file of captions: expected a JSON object with a list 'images'.")
    read = _read_coco if "annotations" in content else _read_karpathy
    try:
        pictures, empty = read(content, path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        layout = "COCO's" if read is _read_coco else "Karpathy's"
        raise UserError(f"{path} is not in {layout} layout: {error!r}.") from error
    if empty:
        log.warning("%s: %d captions have no words and are left out.", path, empty)
    return pictures


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is no complete JSON file: {error}.") from error


def _read_karpathy(content: dict[str, Any], path: Path) -> tuple[list[CaptionedPicture], int]:
    pictures, empty = [], 0
    for place, image in enumerate(content["images"]):
        captions = _shared(sentence["tokens"] for sentence in image["sentences"])
        worded = tuple(caption for caption in captions if any(token.strip() for token in caption))
        empty += len(captions) - len(worded)
        pictures.append(
            CaptionedPicture(
                file=str(PurePosixPath(image.get("filepath", "")) / image["filename"]),
                split=_known_split(image["split"], path),
                captions=worded,
                picture_id=int(image.get("cocoid", image.get("imgid", place))),
                is_numbered="cocoid" in image,
                size=_size(image),
            )
        )
    return pictures, empty


def _read_coco(content: dict[str, Any], path: Path) -> tuple[list[CaptionedPicture], int]:
    named = re.search("(?<![a-z])(train|val|test)(?![a-z])", path.name)
    captions: dict[int, list[list[str]]] = defaultdict(list)
    empty = 0
    for annotation in content["annotations"]:
        tokens = caption_tokens(annotation["caption"])
        empty += not tokens
        captions[int(annotation["image_id"])] += [tokens] if tokens else []
    strangers = captions.keys() - {int(image["id"]) for image in content["images"]}
    if strangers:
        raise UserError(f"{path} has captions of pictures that it does not list, such as {min(strangers)}.")
    pictures = []
    for image in content["images"]:
        split = image.get("split", named and named[0])
        if split is None:
            raise UserError(f"{path} does not say which split {image['file_name']} belongs to, nor does its name.")
        number = int(image["id"])
        pictures.append(
            CaptionedPicture(
                file=image["file_name"],
                split=_known_split(split, path),
                captions=_shared(captions[number]),
                picture_id=number,
                size=_size(image),
            )
        )
    return pictures, empty


def caption_tokens(caption: str) -> list[str]:
    """Lower-cased words, as near to COCO's tokens as NLTK's rules come."""
    plain = caption.lower().strip()
    if _PLAIN.fullmatch(plain):
        words = plain.rstrip(".").replace(",", " ").split()
        if _TWO_IN_ONE.isdisjoint(words):
            return words
    return [token for token in tokenize(caption) if token not in PUNCTUATION]


def _shared(captions: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """One string per word instead of one per occurrence: COCO has six million."""
    return tuple(tuple(map(sys.intern, tokens)) for tokens in captions)


def _known_split(split: str, path: Path) -> str:
    if split not in SPLITS:
        raise UserError(f"{path} names a split {split!r}.{did_you_mean(split, SPLITS)} Known: {', '.join(SPLITS)}.")
    return split


def _size(image: Mapping[str, Any]) -> Size | None:
    return (float(image["width"]), float(image["height"])) if "width" in image and "height" in image else None
