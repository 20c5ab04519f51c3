"""Which attention leads from the inputs to an output? A plan: what looks at what, in the order in which it happens.

A network's attention is a list of events over streams. An event says that the rows of one stream read the rows of another
at one call of one site. Events of a group happen in parallel, from the values before the group: both directions of a
co-attention layer are one group. Groups follow each other from the inputs up. Given a plan, every method works for every
network, however many streams it has.

Source of the view: the block matrices behind Cui et al., "Generic Interpretation Approach for Transformer Models
Incorporating Heterogenous Attention Structures"; see `layers`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lit_attn.errors import UserError


@dataclass(frozen=True)
class Event:
    """Rows of stream `query` read rows of stream `key`."""

    query: str
    key: str
    site: str
    call: int = 0
    part: str | None = None
    """The site works on this part of a joint stream alone, as rows and as columns."""

    @property
    def crosses(self) -> bool:
        """One stream reads another."""
        return self.query != self.key


@dataclass(frozen=True)
class Target:
    """The row from which the output is computed."""

    stream: str
    row: int | tuple[int, ...] = 0
    """One for all samples, or one per sample."""
    part: str | None = None
    """Rows are counted from the beginning of this part of a joint stream."""


@dataclass(frozen=True)
class Plan:
    """Groups of events from the inputs up, and the row that is asked about."""

    groups: tuple[tuple[Event, ...], ...]
    target: Target

    def __post_init__(self) -> None:
        if not self.groups or not all(self.groups):
            raise UserError("A plan needs at least one group, and each group at least one event.")
        uses = Counter((event.site, event.call) for event in self)
        twice = [f"{site!r} call {call}" for (site, call), count in uses.items() if count > 1]
        if twice:
            raise UserError(f"A plan names each call of a site once; named twice: {', '.join(twice)}.")
        if self.target.stream not in self.streams:
            raise UserError(
                f"The target's stream {self.target.stream!r} is in no event. Streams: {', '.join(self.streams)}."
            )

    def __iter__(self) -> Iterator[Event]:
        """All events, from the inputs up."""
        return (event for group in self.groups for event in group)

    @property
    def streams(self) -> tuple[str, ...]:
        """In the order in which they appear."""
        return tuple(dict.fromkeys(name for event in self for name in (event.query, event.key)))

    def at(self, row: int | tuple[int, ...]) -> "Plan":
        """The same plan, asked about another row."""
        return replace(self, target=replace(self.target, row=row))

    def first_read(self, stream: str) -> int | None:
        """Index of the first group in which another stream reads this one; None if none does."""
        return self._first(lambda event: event.crosses and event.key == stream)

    def first_met(self, stream: str) -> int | None:
        """Index of the first group in which this stream and another one meet, in either direction."""
        return self._first(lambda event: event.crosses and stream in (event.query, event.key))

    def _first(self, wanted: Callable[[Event], bool]) -> int | None:
        return next((i for i, group in enumerate(self.groups) if any(map(wanted, group))), None)
