"""What does a method answer? One number for every input position, by stream."""

from dataclasses import dataclass, field

from jaxtyping import Bool, Float
from torch import Tensor

from lit_attn.attribution.heard import Heard


@dataclass(frozen=True)
class Scores:
    """How much each input position matters to the target. Padding scores 0."""

    streams: dict[str, Float[Tensor, "b n"]]
    masks: dict[str, Bool[Tensor, "b n"]]
    """Positions that exist."""
    notes: dict[str, Float[Tensor, " b"]] = field(default_factory=dict)
    """What a reader must know beside the scores, such as how far attention flow is saturated."""


def by_stream(
    heard: Heard, values: Float[Tensor, "b n"], notes: dict[str, Float[Tensor, " b"]] | None = None
) -> Scores:
    """Scores of all positions, told apart by stream, and by part where a stream is joint."""
    mask = heard.layout.mask
    values = values.masked_fill(~mask, 0.0)
    return Scores(
        {name: values[:, place] for name, place in heard.layout.parts.items()},
        {name: mask[:, place] for name, place in heard.layout.parts.items()},
        notes or {},
    )
