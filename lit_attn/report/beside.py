"""What stands beside the values of heads? The same as captured raw, and what the task loses without each head.

`lit-attn ablate` adds the changes of scores to a run's table of heads as `ablation_loss` and its like; `capture: raw_residual`
adds raw sites. Both are arranged here in the rows of a grid, so that the maps can be compared cell by cell.
"""

from collections.abc import Sequence

import numpy as np

from lit_attn.drawing.derived import is_derived
from lit_attn.report.heads import GridRow, HeadGrid, HeadTable, head_grid
from lit_attn.report.metrics import chance_of
from lit_attn.report.raw import RAW
from lit_attn.report.runs import Run
from lit_attn.report.text import natural_key

ABLATION = "ablation_"


def drawn_metrics(runs: Sequence[Run]) -> list[str]:
    """Metrics of heads with a map of their own."""
    found = {metric for run in runs for table in run.heads for metric in table.metrics}
    return sorted((metric for metric in found if not is_derived(metric)), key=natural_key)


def change_metric(table: HeadTable) -> str | None:
    """The change that stands beside every map: of the loss, or of the first score that there is."""
    changes = [metric for metric in table.metrics if metric.startswith(ABLATION)]
    return f"{ABLATION}loss" if f"{ABLATION}loss" in changes else next(iter(changes), None)


def change_title(metric: str) -> str:
    return f"change of {metric.removeprefix(ABLATION)} without the head"


def changes_beside(table: HeadTable, metric: str, rows: Sequence[GridRow]) -> HeadGrid | None:
    """What the task loses without each head of these rows; None where it was not measured, or is what the map itself shows."""
    change = change_metric(table)
    if change is None or metric.startswith(ABLATION):
        return None
    return _arranged(head_grid(table, change), [row.site for row in rows], rows)


def raw_beside(run: Run, table: HeadTable, metric: str, rows: Sequence[GridRow]) -> HeadGrid | None:
    """The same metric on raw captures of these rows, from the same validation."""
    raw = next((one for one in run.raw_heads if (one.stage, one.step) == (table.stage, table.step)), None)
    return None if raw is None else _arranged(head_grid(raw, metric), [RAW + row.site for row in rows], rows)


def _arranged(grid: HeadGrid, sites: Sequence[str], rows: Sequence[GridRow]) -> HeadGrid | None:
    place = {row.site: index for index, row in enumerate(grid.rows)}
    if not any(site in place for site in sites):
        return None
    shape = (len(rows), grid.values.shape[1])
    values, counts = np.full(shape, np.nan), np.zeros(shape)
    for index, site in enumerate(sites):
        if site in place:
            values[index], counts[index] = grid.values[place[site]], grid.counts[place[site]]
    return HeadGrid(grid.metric, tuple(rows), values, counts)


def blocks_of(grid: HeadGrid) -> dict[str, HeadGrid]:
    """The grid by stacks of sites: a part per block, and one per site that stands alone."""
    places: dict[str, list[int]] = {}
    for index, row in enumerate(grid.rows):
        places.setdefault(row.block or row.site, []).append(index)
    return {
        block: HeadGrid(grid.metric, tuple(grid.rows[i] for i in own), grid.values[own], grid.counts[own])
        for block, own in places.items()
    }


def chance_levels(table: HeadTable, metric: str) -> dict[str, float]:
    """By stack of sites the chance level of a metric, the mean over its layers."""
    chance = chance_of(metric)
    grid = head_grid(table, chance) if chance is not None else None
    if grid is None or not grid.rows:
        return {}
    return {
        block: float(np.nanmean(part.values))
        for block, part in blocks_of(grid).items()
        if np.isfinite(part.values).any()
    }
