"""Where is the picture itself? Finds the file of a picture in a folder, for drawings and for its size."""

from functools import cached_property
from pathlib import Path, PurePosixPath

from PIL import Image, ImageOps

from lit_attn.data.picture_names import PictureNames
from lit_attn.data.region_base import Size
from lit_attn.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")


class PictureFolder:
    """A folder of pictures, flat or with the folders that the captions' file names."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"data.images {str(root)!r} is not a folder.")
        self.root = root

    def find(self, file: str) -> Path | None:
        """`file` below the folder, with or without its suffix, or a picture right inside it of that name or number."""
        whole = [self.root / file, self.root / PurePosixPath(file).name]
        for path in [*whole, *(Path(f"{whole[0]}{suffix}") for suffix in SUFFIXES)]:
            if path.is_file():
                return path
        name = self._names.find(PurePosixPath(file).stem)
        return None if name is None else self._files[name]

    def open(self, file: str) -> Image.Image | None:
        """The picture, upright: boxes count from its upper left corner as a person sees it."""
        path = self.find(file)
        return None if path is None else ImageOps.exif_transpose(Image.open(path)).convert("RGB")

    def size(self, file: str) -> Size | None:
        path = self.find(file)
        if path is None:
            return None
        picture = ImageOps.exif_transpose(Image.open(path))
        return (float(picture.width), float(picture.height))

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(self.root.iterdir()) if path.suffix.lower() in SUFFIXES}

    @cached_property
    def _names(self) -> PictureNames:
        return PictureNames(list(self._files), str(self.root))
