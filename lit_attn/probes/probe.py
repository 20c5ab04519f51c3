"""What is a probe? A question to the attention at one site: which metrics answer it, and what they are fed.

A probe sees a record and the batch it came from, never a model. It keeps no state: that is in the metrics, which a board
builds once per site, holds, synchronises and resets.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torchmetrics import Metric

from lit_attn.nn.tape import AttentionRecord, Site


class HeadValue(NamedTuple):
    """One cell of the layer-by-head table."""

    site: str
    head: int
    metric: str
    value: float
    rows: int


class StepValue(NamedTuple):
    """One cell of the table by reasoning step and kind of question."""

    site: str
    head: int
    metric: str
    step: int
    kind: str
    value: float
    rows: int


class Finding(NamedTuple):
    """A correlation that a whole validation gives."""

    finding: str
    sites: str
    n: int
    r: float
    p: float
    permutation_p: float


class Cell(NamedTuple):
    """One cell of a map or list by words: what targets attend to."""

    table: str
    site: str
    target: str
    source: str
    value: float
    chance: float
    rows: int


class Probe(ABC):
    """A question to the attention."""

    @abstractmethod
    def metrics(self, site: Site) -> dict[str, Metric]:
        """Fresh metrics for this site by name, each giving one value per head; empty if the site is no concern."""

    @abstractmethod
    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        """Feed the metrics with one record."""

    def findings(self, values: Sequence[HeadValue], metrics: Mapping[str, Mapping[str, Metric]]) -> list[Finding]:
        """What the values of all heads and the metrics of all sites say together."""
        return []

    def cells(self, site: Site, metrics: Mapping[str, Metric]) -> Iterable[Cell]:
        """Maps and lists of one site."""
        return ()

    def cells_of_stacks(self, metrics: Mapping[str, Mapping[str, Metric]]) -> Iterable[Cell]:
        """Maps and lists of several sites together, such as those of all layers."""
        return ()


def stack_of(site: str) -> str:
    """`decoder.*.self` for `decoder.3.self`."""
    return ".".join("*" if part.isdigit() else part for part in site.split("."))
