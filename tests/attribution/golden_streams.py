"""The golden maps of LXMERT and DETR as plans and records."""

from torch import Tensor

from lit_attn.attribution.heard import Heard, read
from lit_attn.attribution.plan import Event, Plan, Target
from tests.reference.attribution import record

LXMERT_STREAMS = {
    "lang": ("text", "text"),
    "visn": ("image", "image"),
    "x_ti": ("text", "image"),
    "x_it": ("image", "text"),
    "x_tt": ("text", "text"),
    "x_ii": ("image", "image"),
}
DETR_STREAMS = {"enc": ("image", "image"), "dec": ("queries", "queries"), "cross": ("queries", "image")}


def lxmert_plan(row: int = 0) -> Plan:
    """Three language, two visual and three cross layers."""

    def group(layer: int, *sites: str) -> tuple[Event, ...]:
        return tuple(Event(*LXMERT_STREAMS[site], f"{site}.{layer}") for site in sites)

    single = [group(i, "lang") for i in range(3)] + [group(i, "visn") for i in range(2)]
    crossed = [group(i, *sites) for i in range(3) for sites in (("x_ti", "x_it"), ("x_tt", "x_ii"))]
    return Plan((*single, *crossed), Target("text", row))


def detr_plan(row: int) -> Plan:
    """Three encoder and six decoder layers."""
    encoder = [(Event("image", "image", f"enc.{i}"),) for i in range(3)]
    decoder = [(Event(*DETR_STREAMS[site], f"{site}.{i}"),) for i in range(6) for site in ("dec", "cross")]
    return Plan((*encoder, *decoder), Target("queries", row))


def from_arrays(
    plan: Plan,
    arrays: dict[str, Tensor],
    streams: dict[str, tuple[str, str]],
    gradient: str,
    relevance: str | None = None,
) -> Heard:
    """The maps of `plan` with the gradients of one golden target."""

    def layer(kind: str, event: Event) -> Tensor:
        site, number = event.site.split(".")
        return arrays[f"{kind}/{site}"][int(number)].unsqueeze(0)

    records = [record(e.site, layer("attn", e), streams=(e.query, e.key)) for e in plan]
    gradients = [layer(gradient, event) for event in plan]
    return read(plan, records, gradients, None if relevance is None else [layer(relevance, event) for event in plan])


def lxmert(arrays: dict[str, Tensor], which: str = "top", relevance: bool = False, row: int = 0) -> Heard:
    return from_arrays(lxmert_plan(row), arrays, LXMERT_STREAMS, f"grad_{which}", "lrp_top" if relevance else None)


def detr(arrays: dict[str, Tensor], which: str = "top", relevance: bool = False) -> Heard:
    plan = detr_plan(int(arrays["query"]))
    return from_arrays(plan, arrays, DETR_STREAMS, f"grad_{which}", "lrp_top" if relevance else None)


def blocks(heard: Heard, matrix: Tensor) -> dict[tuple[str, str], Tensor]:
    """The first sample's matrix by row stream and column stream."""
    places = heard.layout.streams
    return {(a, b): matrix[0, places[a], places[b]] for a in places for b in places}
