"""What does a plan find in the records? Maps with their place among all positions, checked, and clean of padding.

All streams stand one after the other as the positions of one long sequence; a joint stream keeps its own order. A weight
counts only where a query exists and may see the key, so that no method needs to think of padding again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lit_attn.attribution.plan import Event, Plan
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionRecord, Part

ROW_SUM_TOLERANCE = 1e-2
"""Half precision stays below it; dropout and unnormalised scores do not."""


@dataclass(frozen=True)
class Map:
    """One event's weights, and what a target says of them. Entries that are not allowed are 0."""

    event: Event
    rows: slice
    columns: slice
    weights: Float[Tensor, "b h q k"]
    allowed: Bool[Tensor, "b q k"]
    """The query exists and may see the key."""
    gradient: Float[Tensor, "b h q k"] | None = None
    """d target / d weights."""
    relevance: Float[Tensor, "b h q k"] | None = None
    """LRP relevance of the weights."""

    def with_weights(self, weights: Float[Tensor, "b g q k"]) -> "Map":
        """The same event with other weights, of which no target has said anything."""
        return replace(self, weights=weights, gradient=None, relevance=None)

    def needed_gradient(self) -> Float[Tensor, "b h q k"]:
        if self.gradient is None:
            raise UserError(f"This method needs gradients, and none were given for site {self.event.site!r}.")
        return self.gradient

    def needed_relevance(self) -> Float[Tensor, "b h q k"]:
        if self.relevance is None:
            raise UserError(f"This method needs LRP relevance, and none was given for site {self.event.site!r}.")
        return self.relevance


@dataclass(frozen=True)
class Layout:
    """Where streams lie among all positions."""

    streams: dict[str, slice]
    parts: dict[str, slice]
    """What scores are told apart by: streams, and the parts of a joint stream in its place."""
    mask: Bool[Tensor, "b n"]
    """Positions that exist."""

    @property
    def size(self) -> int:
        return self.mask.shape[1]


@dataclass(frozen=True)
class Heard:
    """A plan with its maps."""

    plan: Plan
    layout: Layout
    groups: tuple[tuple[Map, ...], ...]

    def __iter__(self) -> Iterator[Map]:
        return (one for group in self.groups for one in group)

    def changed(self, change: Callable[[Map], Map]) -> "Heard":
        """The same with other maps."""
        return replace(self, groups=tuple(tuple(change(one) for one in group) for group in self.groups))

    @property
    def rows(self) -> Int[Tensor, " b"]:
        """The target's position in each sample."""
        target, mask = self.plan.target, self.layout.mask
        wanted = [target.row] * len(mask) if isinstance(target.row, int) else list(target.row)
        if len(wanted) != len(mask):
            raise UserError(f"The target names {len(wanted)} rows, but there are {len(mask)} samples.")
        if target.part is not None and target.part not in self.layout.parts:
            known = ", ".join(self.layout.parts)
            raise UserError(f"The target's part {target.part!r} is unknown. Parts: {known}.")
        place = self.layout.streams[target.stream] if target.part is None else self.layout.parts[target.part]
        for sample, row in enumerate(wanted):
            if not 0 <= row < place.stop - place.start or not bool(mask[sample, place.start + row]):
                count = int(mask[sample, place].sum())
                name = target.part or target.stream
                raise UserError(f"The target row {row} does not exist: sample {sample} has {count} rows of {name!r}.")
        return torch.tensor(wanted, device=mask.device) + place.start

    def one_hot(self) -> Float[Tensor, "b n"]:
        """1 at the target's position: where a row begins its way back to the inputs."""
        like = next(iter(self)).weights
        start = torch.zeros(self.layout.mask.shape, dtype=like.dtype, device=like.device)
        return start.scatter(1, self.rows.unsqueeze(1), 1.0)

    def target_row(self, matrix: Float[Tensor, "b n n"]) -> Float[Tensor, "b n"]:
        """The target's row of a matrix over all positions."""
        return matrix[torch.arange(len(matrix), device=matrix.device), self.rows]


def read(
    plan: Plan,
    records: Sequence[AttentionRecord],
    gradients: Sequence[Tensor] | None = None,
    relevance: Sequence[Tensor] | None = None,
    *,
    strict_rows: bool = True,
) -> Heard:
    """The maps of a plan. Gradients and relevance belong to the records one by one.

    Args:
        strict_rows: Refuse weights whose rows do not sum to 1.
    """
    by_call = {(record.site.name, record.call): i for i, record in enumerate(records)}
    _check_complete(plan, by_call)
    check_batch(records)
    if strict_rows:
        for record in records:
            _check_rows(record)
    layout = _layout(plan, {event: records[by_call[event.site, event.call]] for event in plan})

    def found(event: Event) -> Map:
        i = by_call[event.site, event.call]
        record = records[i]
        allowed = record.query_mask.unsqueeze(-1) & record.key_mask
        keep = allowed.unsqueeze(1)
        own = [None if given is None else torch.where(keep, given[i].detach(), 0.0) for given in (gradients, relevance)]
        weights = torch.where(keep, record.weights.detach(), 0.0)
        rows, columns = layout.streams[event.query], layout.streams[event.key]
        if event.part is not None:
            rows = columns = layout.parts[event.part]
        return Map(event, rows, columns, weights, allowed, *own)

    return Heard(plan, layout, tuple(tuple(found(event) for event in group) for group in plan.groups))


def _check_complete(plan: Plan, heard: dict[tuple[str, int], int]) -> None:
    """Every event was heard, and everything heard is an event."""
    planned = {(event.site, event.call) for event in plan}
    silent = sorted(planned - set(heard))
    if silent:
        raise UserError(
            f"The plan names {_calls(silent)}, which the records do not hold. Heard: {_calls(sorted(heard))}."
        )
    unplanned = sorted(set(heard) - planned)
    if unplanned:
        raise UserError(
            f"The plan misses {_calls(unplanned)}: relevance that passes there would be lost. Add it to the plan, or do "
            "not listen to it."
        )


def _calls(uses: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{site!r} call {call}" if call else repr(site) for site, call in uses) or "nothing"


def check_batch(records: Sequence[AttentionRecord]) -> None:
    """All records must have the same samples."""
    sizes = {record.site.name: len(record.weights) for record in records}
    if len(set(sizes.values())) > 1:
        (first, a), (other, b) = (
            next(iter(sizes.items())),
            next(p for p in sizes.items() if p[1] != len(records[0].weights)),
        )
        raise UserError(
            f"Site {first!r} has {a} samples and {other!r} {b}: samples that share an input would share its gradient. "
            "Repeat the input for each sample, such as a picture for each of its captions."
        )


def _check_rows(record: AttentionRecord) -> None:
    allowed = record.query_mask.unsqueeze(-1) & record.key_mask
    off = (record.weights.detach().sum(-1) - 1).abs() * allowed.any(-1).unsqueeze(1)  # b h q
    if off.numel() and not float(off.max()) <= ROW_SUM_TOLERANCE:
        sample, head, row = (int(i) for i in torch.unravel_index(off.nan_to_num(torch.inf).argmax(), off.shape))
        total = float(record.weights[sample, head, row].sum())
        raise UserError(
            f"Attention at site {record.site.name!r} is no distribution: row {row} of sample {sample}, head {head}, sums "
            f"to {total:.4g} instead of 1. Record weights after the softmax and before dropout."
        )


def _layout(plan: Plan, records: dict[Event, AttentionRecord]) -> Layout:
    sizes: dict[str, int] = {}
    masks: dict[str, Tensor] = {}
    joint: dict[str, tuple[Part, ...]] = {}
    for event, record in records.items():
        seen = (record.key_mask & record.query_mask.unsqueeze(-1)).any(1)  # a key that nobody sees may still exist
        for stream, mask, sure in ((event.query, record.query_mask, True), (event.key, seen, False)):
            if event.part is not None:
                continue
            if sizes.setdefault(stream, mask.shape[1]) != mask.shape[1]:
                raise UserError(
                    f"Stream {stream!r} has {sizes[stream]} rows elsewhere and {mask.shape[1]} at site {event.site!r}. "
                    "A plan needs one name for each sequence."
                )
            masks[stream] = masks[stream] | mask if stream in masks and not sure else mask
        if record.parts and event.part is None:
            joint[event.query] = record.parts
    start, streams, parts = 0, {}, {}
    for stream in plan.streams:
        if stream not in sizes:
            raise UserError(f"No site works on the whole of stream {stream!r}, so its size is unknown.")
        streams[stream] = slice(start, start + sizes[stream])
        for part in joint.get(stream, (Part(stream, 0, sizes[stream]),)):
            parts[part.stream] = slice(start + part.start, start + part.end)
        start += sizes[stream]
    for event, record in records.items():
        if event.part is not None:
            place = parts.get(event.part)
            if place is None or place.stop - place.start != record.weights.shape[-1]:
                raise UserError(
                    f"Site {event.site!r} is planned on part {event.part!r} of {event.query!r}, which does not have its "
                    f"{record.weights.shape[-1]} rows. Parts: {', '.join(parts)}."
                )
    return Layout(streams, parts, torch.cat([masks[stream] for stream in plan.streams], 1))
