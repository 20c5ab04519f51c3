"""At which rank did each picture and each caption come? A table that breakdowns by category and by nouns are made from.

`retrieval/<stage>-<step>.csv` of a run: a row per caption. `picture_rank` is that of its picture for the caption (image
retrieval), `sentence_rank` that of the best caption of its picture (text retrieval; the same in all rows of a picture). Ranks
count from 1 and are those among the whole set. `nouns` is empty where the grammar is not known.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lit_attn.files import written_whole
from lit_attn.ops.retrieval import picture_ranks, sentence_ranks

COLUMNS = ("picture", "caption", "sentence_rank", "picture_rank", "nouns", "categories")


class Facts(Protocol):
    """What a data set knows of a picture and its captions."""

    @property
    def categories(self) -> tuple[str, ...]: ...
    @property
    def captions(self) -> tuple[str, ...]: ...
    @property
    def nouns(self) -> tuple[int | None, ...]: ...


def write_ranks(path: Path, similarity: NDArray[np.floating], captions: int, facts: Mapping[int, Facts]) -> None:
    """The ranks of a matrix of similarities, pictures by captions; `facts` has the pictures by id, in its order."""
    of_pictures, of_captions = sentence_ranks(similarity, captions) + 1, picture_ranks(similarity, captions) + 1
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row, (picture, known) in enumerate(facts.items()):
            for place, (name, nouns) in enumerate(zip(known.captions, known.nouns, strict=True)):
                rank = int(of_captions[row * captions + place])
                writer.writerow([picture, name, int(of_pictures[row]), rank, nouns, ";".join(known.categories)])
