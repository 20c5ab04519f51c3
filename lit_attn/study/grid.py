"""Which runs make up a study? Recipes by alignments by seeds, each with the name of its folder and its command.

Needs no torch: a plan is shown at once.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lit_attn.errors import UserError, did_you_mean

ALIGNMENT_NAMES = (
    "cosine", "dot", "scaled_dot", "general_query", "general_key", "biased_query", "biased_key", "activated",
)  # fmt: skip
"""The names of lit_attn.nn.alignment.ALIGNMENTS, in its order."""
ALL = "all"
OWNED = ("--run", "--root", "--resume", "--model.alignment", "--seed_everything", "--config", "-c", "--ckpt_path")
"""What the grid itself says about every run."""


@dataclass(frozen=True)
class Recipe:
    """A recipe of a study: the name that the user typed, its file, and the short name in tables and folders."""

    name: str
    path: Path
    label: str


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    recipe: str
    """Label of the recipe."""
    alignment: str
    seed: int

    @property
    def name(self) -> str:
        """The run's folder."""
        return "-".join((_folder_part(self.recipe), _folder_part(self.alignment), f"s{self.seed}"))


def _folder_part(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "_", text)


def parse_alignments(text: str) -> tuple[str, ...]:
    """`all`, or names and import paths with commas between them."""
    names: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        if word == ALL:
            names += ALIGNMENT_NAMES
        elif word in ALIGNMENT_NAMES or "." in word.strip("."):
            names.append(word)
        else:
            raise UserError(
                f"Unknown alignment {word!r}.{did_you_mean(word, ALIGNMENT_NAMES)} Known: {', '.join(ALIGNMENT_NAMES)}; "
                "or `all`; or the import path of an Alignment subclass."
            )
    return tuple(dict.fromkeys(names))


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0,1,2` or `0-4`."""
    seeds: list[int] = []
    for word in (part.strip() for part in text.split(",")):
        span = re.fullmatch(r"(\d+)-(\d+)", word)
        if span and int(span[1]) <= int(span[2]):
            seeds += range(int(span[1]), int(span[2]) + 1)
        elif re.fullmatch(r"\d{1,9}", word):
            seeds.append(int(word))
        else:
            raise UserError(f"--seeds {text!r}: {word!r} is no seed. Give whole numbers such as 0,1,2 or 0-4.")
    return tuple(dict.fromkeys(seeds))


def find_recipes(names: Sequence[str], find: Callable[[str], Path]) -> tuple[Recipe, ...]:
    """The recipes by name or path; their labels are file names, or whole names where two files are called alike."""
    found = {name: find(name) for name in names}
    stems = [path.stem for path in found.values()]
    recipes = []
    for name, path in found.items():
        alone = stems.count(path.stem) == 1
        recipes.append(Recipe(name, path, path.stem if alone else _folder_part(name.removesuffix(".yaml"))))
    labels = [recipe.label for recipe in recipes]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"Two recipes would both be called {twice!r} in tables. Rename one of the files.")
    return tuple(recipes)


def cells(recipes: Sequence[str], alignments: Sequence[str], seeds: Sequence[int]) -> tuple[Cell, ...]:
    """All runs. Seeds are outermost, so that a study that was cut short has few seeds of everything."""
    found = tuple(Cell(r, a, s) for s, r, a in itertools.product(seeds, recipes, alignments))
    names = [cell.name for cell in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"Two runs would both be called {twice!r}. Rename a recipe or an alignment.")
    return found


def check_extra(words: Sequence[str]) -> tuple[str, ...]:
    """Flags for every run; those that the grid decides cannot be among them."""
    for word in words:
        if word.partition("=")[0] in OWNED:
            raise UserError(
                f"{word.partition('=')[0]} is decided by the study itself; leave it out of the extra flags."
            )
    return tuple(words)


def settings_as_flags(settings: Sequence[str]) -> list[str]:
    """`--set trainer.max_epochs=3` as `--trainer.max_epochs=3`."""
    for setting in settings:
        if not re.fullmatch(r"[A-Za-z_][\w.+]*=.*", setting, flags=re.DOTALL):
            raise UserError(f"--set {setting!r}: expected KEY=VALUE, such as --set trainer.max_epochs=3.")
    return [f"--{setting}" for setting in settings]


def fit_words(cell: Cell, recipe: Recipe, folder: Path, extra: Sequence[str]) -> list[str]:
    """The words after `lit-attn` for one run."""
    return [
        "fit", str(recipe.path), "--root", str(folder), "--run", cell.name, "--resume", "auto",
        "--model.alignment", cell.alignment, "--seed_everything", str(cell.seed), *extra,
    ]  # fmt: skip
