"""For which pictures and captions does retrieval work? Rsum by what pictures show, and by the number of nouns.

Reads `retrieval/<stage>-<step>.csv` of a run: a row per caption with the ranks among the whole set. Rsum of a direction is the
sum of R@1, R@5 and R@10 in per cent, from 0 to 300. A picture counts in every category that it shows. By nouns, image retrieval
takes the caption's own number, text retrieval the largest of the picture's captions.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lit_attn.report.errors import ReportError

Way = Literal["text", "image"]
WAYS: tuple[Way, ...] = ("text", "image")
TITLES = {"text": "text retrieval", "image": "image retrieval"}
RECALLS = (1, 5, 10)
FOLDER = "retrieval"
_COLUMNS = ("picture", "sentence_rank", "picture_rank", "nouns", "categories")


@dataclass(frozen=True)
class Picture:
    """The ranks of one picture, of its best caption and for each of its captions."""

    sentence_rank: int
    picture_ranks: tuple[int, ...]
    nouns: tuple[int | None, ...]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Bin:
    """Some of the pictures and captions."""

    name: str
    counts: dict[Way, int]
    """Pictures of text retrieval, captions of image retrieval."""
    rsum: dict[Way, float]
    """nan where there is none."""
    share: float | None = None
    """Of all pictures; of a category only."""

    def title(self, way: Way) -> str:
        """The name with its size in one direction."""
        return (
            f"{self.name} (n = {self.counts[way]})" if self.share is None else f"{self.name} ({100 * self.share:.0f} %)"
        )


Ranks = tuple[Picture, ...]


def read_ranks(folder: Path, step: int | None, stage: str = "val") -> Ranks | None:
    """The ranks of a run at a step, or at the last where nothing is there for it; None for a run without any."""
    files = {int(path.stem.rpartition("-")[2]): path for path in sorted((folder / FOLDER).glob(f"{stage}-*.csv"))}
    if not files:
        return None
    return _read(files.get(max(files) if step is None else step, files[max(files)]))


def _read(path: Path) -> Ranks:
    rows: dict[str, list[dict[str, str]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rows.setdefault(row["picture"], []).append(row)
        return tuple(_picture(own) for own in rows.values())
    except (OSError, UnicodeDecodeError, KeyError, ValueError, TypeError, csv.Error) as error:
        raise ReportError(
            f"{path}: not a table of ranks ({type(error).__name__}: {error}); it needs the columns {', '.join(_COLUMNS)}."
        ) from error


def _picture(rows: list[dict[str, str]]) -> Picture:
    return Picture(
        int(rows[0]["sentence_rank"]),
        tuple(int(row["picture_rank"]) for row in rows),
        tuple(int(row["nouns"]) if row["nouns"] else None for row in rows),
        tuple(name for name in rows[0]["categories"].split(";") if name),
    )


def rsum(ranks: Iterable[int]) -> float:
    """R@1 + R@5 + R@10 in per cent, of ranks from 1; nan without any."""
    found: NDArray[np.int64] = np.fromiter(ranks, dtype=np.int64)
    return float(sum(100.0 * np.mean(found <= k) for k in RECALLS)) if found.size else float("nan")


def by_category(ranks: Ranks) -> list[Bin]:
    """A bin per category, the one that most pictures show first."""
    names = sorted({name for picture in ranks for name in picture.categories})
    found = [_bin(name, [p for p in ranks if name in p.categories], len(ranks)) for name in names]
    return sorted(found, key=lambda one: (-(one.share or 0.0), one.name))


def _bin(name: str, pictures: list[Picture], total: int) -> Bin:
    text = [picture.sentence_rank for picture in pictures]
    image = [rank for picture in pictures for rank in picture.picture_ranks]
    return Bin(
        name, {"text": len(text), "image": len(image)}, {"text": rsum(text), "image": rsum(image)}, len(text) / total
    )


def by_nouns(ranks: Ranks) -> list[Bin]:
    """A bin per number of nouns that occurs; pictures and captions whose grammar is not known are in none."""
    text: dict[int, list[int]] = {}
    image: dict[int, list[int]] = {}
    for picture in ranks:
        known = [count for count in picture.nouns if count is not None]
        if known:
            text.setdefault(max(known), []).append(picture.sentence_rank)
        for rank, count in zip(picture.picture_ranks, picture.nouns, strict=True):
            if count is not None:
                image.setdefault(count, []).append(rank)
    return [
        Bin(
            str(count),
            {"text": len(text.get(count, ())), "image": len(image.get(count, ()))},
            {"text": rsum(text.get(count, ())), "image": rsum(image.get(count, ()))},
        )
        for count in sorted(text.keys() | image.keys())
    ]
