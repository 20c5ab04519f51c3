"""What is a probe? A question to the attention at one site: which metrics answer it, and what they are fed.

A probe sees a record and the batch it came from, never a model. It keeps no state: that is in the metrics, which the
callback builds once per site, holds, synchronises and resets.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torchmetrics import Metric

from lit_attn.nn.tape import AttentionRecord, Site


class Probe(ABC):
    """A question to the attention."""

    @abstractmethod
    def metrics(self, site: Site) -> dict[str, Metric]:
        """Fresh metrics for this site by name, each giving one value per head; empty if the site is no concern."""

    @abstractmethod
    def update(self, metrics: Mapping[str, Metric], record: AttentionRecord, batch: object) -> None:
        """Feed the metrics with one record."""
