"""Which of these names means that picture? Files spell one picture as `COCO_train2014_000000132417`, `132417` or both.

The rule: a name that is listed exactly is meant, with or without the suffix of a picture's file; else the one name that
ends in the same number, leading zeros aside, if the number stands alone in the listed name or in all names that the picture
is known by. So `ADE_val_00000530` never means `ADE_train_00000530`.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from lit_attn.errors import UserError

_SUFFIX = re.compile(r"\.(jpe?g|png|tiff?|bmp|webp|gif)$", re.IGNORECASE)
_NUMBER = re.compile(r"(?P<words>.*?)(?P<number>\d+)")


class PictureNames:
    """Names as a file or folder lists them."""

    def __init__(self, names: Sequence[str], source: str) -> None:
        self.names = names
        self.source = source

    def find(self, *keys: str) -> str | None:
        """The listed name of a picture that is known under `keys`: any of them exactly, else by the number of the last."""
        for key in keys:
            if key in self._exact:
                return self._exact[key]
        found = self._same_number(keys)
        return found[0] if len(found) == 1 else None

    def not_found(self, *keys: str) -> UserError:
        """What to say of a picture that `find` does not find."""
        several = self._same_number(keys)
        if several:
            return UserError(f"{self.source} lists several pictures that {keys[-1]!r} could mean: {_some(several)}.")
        looked_for = " or ".join(map(repr, keys))
        return UserError(
            f"{self.source} has nothing for the picture {looked_for}. It lists {len(self.names)} names, such as "
            f"{_some(self.names)}."
        )

    def _same_number(self, keys: Sequence[str]) -> list[str]:
        matches = [_split(key) for key in keys]
        if matches[-1] is None:
            return []
        alone, with_words = self._by_number.get(int(matches[-1]["number"]), ([], []))
        return alone if any(match and match["words"] for match in matches) else alone + with_words

    @cached_property
    def _exact(self) -> dict[str, str]:
        return {_SUFFIX.sub("", name): name for name in self.names} | {name: name for name in self.names}

    @cached_property
    def _by_number(self) -> dict[int, tuple[list[str], list[str]]]:
        """Per number, the names that are nothing else and those that are more."""
        numbers: dict[int, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for name in self.names:
            match = _split(name)
            if match is not None:
                numbers[int(match["number"])][bool(match["words"])].append(name)
        return dict(numbers)


def _split(name: str) -> re.Match[str] | None:
    """What comes before the number at the end of a name, and the number."""
    return _NUMBER.fullmatch(_SUFFIX.sub("", name))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3])
