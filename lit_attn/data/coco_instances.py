"""Which kinds of things does a COCO picture show? The supercategories of its annotated objects, by the picture's id."""

import json
from collections.abc import Sequence
from pathlib import Path

from lit_attn.errors import UserError


def read_supercategories(paths: Sequence[Path]) -> dict[int, tuple[str, ...]]:
    """By picture id, from COCO's `instances_*.json` files; a picture without any object has none."""
    found: dict[int, set[str]] = {}
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            names = {entry["id"]: str(entry["supercategory"]) for entry in content["categories"]}
            found |= {int(picture["id"]): set() for picture in content["images"]}
            for entry in content["annotations"]:
                found[int(entry["image_id"])].add(names[entry["category_id"]])
        except OSError as error:
            raise UserError(
                f"Cannot read the objects {path}: {error.strerror}. data.instances names the files."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is not in the layout of COCO's instances ({type(error).__name__}: {error}). "
                "Expected images, annotations and categories with a supercategory, as in instances_val2014.json."
            ) from error
    return {picture: tuple(sorted(kinds)) for picture, kinds in found.items()}


def read_picture_ids(path: Path, pictures: int, captions: int) -> list[int]:
    """COCO's ids of the pictures of a split: a line per picture, or per caption, as SCAN distributes them."""
    try:
        lines = [int(line) for line in path.read_text(encoding="utf-8").split()]
    except OSError as error:
        raise UserError(f"Cannot read the picture ids {path}: {error.strerror}. data.instances needs them.") from error
    except ValueError as error:
        raise UserError(f"{path} is no list of COCO's picture ids: {error}.") from error
    if len(lines) == pictures * captions:
        lines = lines[::captions]
    if len(lines) != pictures:
        raise UserError(
            f"{path} has {len(lines)} ids for {pictures} pictures; expected one per picture or per caption."
        )
    return lines
