"""Which recipes are shipped, and where is one called NAME? Needs no torch."""

import shutil
from pathlib import Path

from lit_attn.errors import UserError, did_you_mean

_INSTALLED = Path(__file__).parents[1] / "recipes"
_CHECKOUT = Path(__file__).parents[2] / "recipes"


def recipe_root() -> Path:
    """Inside an installed package, or at the top of a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def recipe_names() -> list[str]:
    """Names as a user types them: `scan_scenes`, `tiny/scan`, `probes/grounding`."""
    root = recipe_root()
    return sorted(str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.yaml"))


def find_recipe(name: str) -> Path:
    """A file of the user's, or a shipped recipe by name."""
    if Path(name).is_file():
        return Path(name)
    shipped = recipe_root() / f"{name.removeprefix('recipes/').removesuffix('.yaml')}.yaml"
    if shipped.is_file():
        return shipped
    names = recipe_names()
    raise UserError(f"There is no file or recipe {name!r}.{did_you_mean(name, names)} Shipped: {', '.join(names)}.")


def purpose(path: Path) -> str:
    """The first comment line of a recipe."""
    first = path.read_text(encoding="utf-8").splitlines()[:1]
    return first[0].removeprefix("#").strip() if first and first[0].startswith("#") else ""


def list_recipes() -> str:
    names = recipe_names()
    width = max(map(len, names), default=0)
    return "\n".join(f"{name:<{width}}  {purpose(recipe_root() / f'{name}.yaml')}" for name in names)


def copy_recipe(name: str, target: Path) -> Path:
    """Copies a recipe for the user to change; never over an existing file."""
    source = find_recipe(name)
    if target.is_dir():
        target = target / source.name
    if target.exists():
        raise UserError(f"{target} exists already. Name another file: lit-attn recipes copy {name} OTHER.yaml")
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from error
    return target
