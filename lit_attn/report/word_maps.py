"""Which words look at which? Maps of tags by tags and of words by words, the mean over all heads of a stack, as in paper (a).

Read from the last `-tables.csv` of every stage of a run. Lists of the objects that words look at are in `top_objects.py`.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from lit_attn.report.errors import ReportError
from lit_attn.report.figures import draw_word_map
from lit_attn.report.files import free_name
from lit_attn.report.heads import grid_row
from lit_attn.report.runs import Run
from lit_attn.report.stage_files import last_files
from lit_attn.report.text import slug

_COLUMNS = ["table", "site", "target", "source", "value", "chance", "rows"]
_MAPS = "map_"


def word_map_figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """A figure per run, stage, kind of map and stack of sites."""
    found: dict[str, Figure] = {}
    for run, stage, (header, *rows) in last_files(runs, "tables"):
        check_columns(run, header)
        stacks: dict[tuple[str, str], list[list[str]]] = {}
        for row in rows:
            if row[0].startswith(_MAPS):
                stacks.setdefault((row[0], grid_row(row[1]).block or row[1]), []).append(row)
        whose, suffix = (f"{run.name}, {stage}", f"-{slug(stage)}") if stage else (run.name, "")
        for (table, stack), own in stacks.items():
            targets, sources, values = word_map(own)
            title = f"{table.removeprefix(_MAPS)}, {stack}, {whose}: from rows to columns, mean of heads"
            name = free_name(f"words-{slug(table)}-{slug(stack)}-{slug(run.name)}{suffix}", found)
            found[name] = draw_word_map(values, targets, sources, title)
    return found


def check_columns(run: Run, header: list[str]) -> None:
    """A table of words has the columns that are read from it."""
    if header != _COLUMNS:
        raise ReportError(f"{run.folder}: a table of words has the columns {header}, expected {_COLUMNS}.")


def word_map(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[str], np.ndarray]:
    """Targets, sources and the mean over sites; sources that nothing looks at are left out."""
    sites = len({row[1] for row in rows})
    targets = list(dict.fromkeys(row[2] for row in rows))
    sources = list(dict.fromkeys(row[3] for row in rows if float(row[4]) > 0))
    values = np.zeros((len(targets), len(sources)))
    for _, _, target, source, value, *_ in rows:
        if source in sources:
            values[targets.index(target), sources.index(source)] += float(value) / sites
    return targets, sources, values
