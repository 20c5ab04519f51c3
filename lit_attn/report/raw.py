"""Which sites are raw captures, and what did the network use in their place?

A site `raw.decoder.3.cross` beside `decoder.3.cross` holds attention on the residual stream before its norm, as a
published probing code captured it. The network never used it, so it is set apart when a run is read and no tile,
table, curve or heat map can take it for the model's attention. A raw site whose used one was not captured stays an
ordinary site: better shown under its own name than not at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lit_attn.report.heads import GridRow, HeadGrid, HeadTable, grid_row, head_grid, latest
from lit_attn.report.metrics import Series, attention_name

RAW = "raw."
_ENTROPY = "entropy"


@dataclass(frozen=True)
class CapturePair:
    """Normalised entropy at one site, a value per measured head, at least one: as used, and as captured raw."""

    row: GridRow
    used: tuple[float, ...]
    raw: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """Used and raw capture in one validation, by family of sites: `encoder · self`, `decoder · cross`."""

    stage: str
    step: int
    families: dict[str, tuple[CapturePair, ...]]


def is_raw(site: str) -> bool:
    return site.startswith(RAW)


def used_site(site: str) -> str:
    """`decoder.3.cross` for `raw.decoder.3.cross`; other names stay."""
    return site.removeprefix(RAW)


def set_apart(sites: Iterable[str]) -> set[str]:
    """The raw sites whose used site is there too."""
    known = set(sites)
    return {site for site in known if is_raw(site) and used_site(site) in known}


def without_raw(metrics: Mapping[str, Series]) -> dict[str, Series]:
    """The metrics but for those of raw sites set apart."""
    sites = {name: parts.site for name in metrics if (parts := attention_name(name))}
    apart = set_apart(sites.values())
    return {name: series for name, series in metrics.items() if sites.get(name) not in apart}


def split_heads(tables: Sequence[HeadTable]) -> tuple[tuple[HeadTable, ...], tuple[HeadTable, ...]]:
    """The tables as used, and those of the raw sites set apart; a table without such sites has no second half."""
    used, raw = [], []
    for table in tables:
        apart = set_apart(value.site for value in table.values)
        used.append(_only(table, apart, inside=False))
        if apart:
            raw.append(_only(table, apart, inside=True))
    return tuple(used), tuple(raw)


def _only(table: HeadTable, sites: set[str], *, inside: bool) -> HeadTable:
    kept = tuple(value for value in table.values if (value.site in sites) == inside)
    return HeadTable(table.stage, table.step, kept)


def comparisons(used: Sequence[HeadTable], raw: Sequence[HeadTable]) -> list[Comparison]:
    """Used beside raw in the last validation of every stage that has both."""
    found = []
    by_time = {(table.stage, table.step): table for table in used}
    for table in latest(tuple(raw)):
        beside = _measured(head_grid(table, _ENTROPY))
        families: dict[str, list[CapturePair]] = {}
        for site, values in _measured(head_grid(by_time[table.stage, table.step], _ENTROPY)).items():
            if f"{RAW}{site}" in beside:
                row = grid_row(site)
                families.setdefault(row.block or site, []).append(CapturePair(row, values, beside[f"{RAW}{site}"]))
        if families:
            ordered = {family: tuple(pairs) for family, pairs in families.items()}
            found.append(Comparison(table.stage, table.step, ordered))
    return found


def _measured(grid: HeadGrid) -> dict[str, tuple[float, ...]]:
    finite = {
        row.site: tuple(values[np.isfinite(values)].tolist())
        for row, values in zip(grid.rows, grid.values, strict=True)
    }
    return {site: values for site, values in finite.items() if values}
