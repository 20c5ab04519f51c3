"""What must a collection of regions answer, whatever its format? Which pictures it has, and the regions of each."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from lit_attn.data.picture_names import PictureNames
from lit_attn.data.regions import Regions
from lit_attn.errors import UserError

Size = tuple[float, float]
"""Width and height of a picture."""


class RegionStore(ABC):
    """Regions by picture. Pictures are looked up by the rule of `picture_names`."""

    needs_size = False
    """Whether boxes are in pixels of pictures whose size is not told."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        if not names:
            raise UserError(f"{path} holds no regions of any picture.")
        self.path = path
        self._names = PictureNames(names, str(path))

    @abstractmethod
    def read(self, name: str, size: Size | None = None) -> Regions:
        """The regions of a picture that is listed as `name`. `size` counts only where the format `needs_size`."""

    @property
    def names(self) -> Sequence[str]:
        """Pictures as the files spell them, in a fixed order."""
        return self._names.names

    @cached_property
    def dim(self) -> int:
        """Width of a region's features."""
        return int(self.read(self.names[0], (1.0, 1.0)).features.shape[1])

    def find(self, *keys: str) -> str | None:
        """The listed name of a picture that is known under `keys`, or None."""
        return self._names.find(*keys)

    def not_found(self, *keys: str) -> UserError:
        """What to say of a picture that `find` does not find."""
        return self._names.not_found(*keys)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, key: str) -> bool:
        return self.find(key) is not None

    def __getitem__(self, key: str) -> Regions:
        name = self.find(key)
        if name is None:
            raise self.not_found(key)
        return self.read(name)
