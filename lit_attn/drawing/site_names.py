"""How is a site called where people read? `decoder.2.cross` is layer 3 of "decoder · cross".

Layers and heads count from 1 in figures and on pages. Names of sites (`decoder.2.cross`), of heads (`decoder.2.cross:4`) and
columns of files count from 0.
"""

import re
from typing import NamedTuple

_LAYERED = re.compile(r"(?P<name>.+?)\.(?P<layer>\d+)(?:\.(?P<kind>.+))?")


class Layer(NamedTuple):
    """One layer of a stack of sites."""

    stack: str
    number: int
    """From 0, as in the name."""

    @property
    def label(self) -> str:
        return f"layer {told_number(self.number)}"


def layer_of(site: str) -> Layer | None:
    """The stack and layer of a site; None for a site that stands alone."""
    match = _LAYERED.fullmatch(site)
    if match is None:
        return None
    stack = match["name"] if match["kind"] is None else f"{match['name']} · {match['kind']}"
    return Layer(stack, int(match["layer"]))


def told_site(site: str) -> str:
    """`decoder · cross, layer 3` for `decoder.2.cross`; a site that stands alone keeps its name."""
    layer = layer_of(site)
    return site if layer is None else f"{layer.stack}, {layer.label}"


def told_number(index: int) -> str:
    """A layer or head, from 0, as people count."""
    return str(index + 1)
