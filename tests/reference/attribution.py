"""Attribution as loops over single numbers and single flows, straight from the equations. Slow and obvious, for comparison."""

import networkx as nx
import numpy as np
import torch
from networkx.algorithms.flow import preflow_push
from torch import Tensor

from lit_attn.attribution.heard import Heard, read
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.nn.tape import AttentionRecord, Part, Site

# Records from arrays


def record(
    name: str,
    weights: Tensor,
    *,
    streams: tuple[str, str] = ("x", "x"),
    query_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    call: int = 0,
    parts: tuple[Part, ...] = (),
) -> AttentionRecord:
    """Weights `b h q k` as a network would have spoken of them."""
    b, h, q, k = weights.shape
    query_mask = torch.ones(b, q, dtype=torch.bool) if query_mask is None else query_mask
    key_mask = torch.ones(b, 1, k, dtype=torch.bool) if key_mask is None else key_mask
    value = torch.eye(k, dtype=weights.dtype).expand(b, h, k, k)
    return AttentionRecord(Site(name, *streams, h), call, weights, query_mask, key_mask, value, weights @ value, parts)


def one_stream(
    weights: Tensor,
    gradients: Tensor | None = None,
    relevance: Tensor | None = None,
    *,
    row: int | tuple[int, ...] = 0,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    strict_rows: bool = True,
) -> Heard:
    """A stack of layers `l b h n n` over one stream; `mask` says which positions exist."""
    if key_mask is None and mask is not None:
        key_mask = mask.unsqueeze(1)
    records = [record(f"{i}", layer, query_mask=mask, key_mask=key_mask) for i, layer in enumerate(weights)]
    plan = Plan(tuple((Event("x", "x", f"{i}"),) for i in range(len(weights))), Target("x", row))
    given = [None if layers is None else list(layers) for layers in (gradients, relevance)]
    return read(plan, records, *given, strict_rows=strict_rows)


def random_weights(*shape: int, spread: float = 2.0, mask: Tensor | None = None) -> Tensor:
    """Softmax of random scores in float64; columns outside `mask` get nothing."""
    scores = torch.randn(*shape, dtype=torch.float64) * spread
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


# Methods


def rollout(weights: Tensor) -> Tensor:
    """Layers, heads, n, n to layers, n, n."""
    n, found, below = weights.shape[-1], [], None
    for layer in weights:
        joined = torch.zeros(n, n, dtype=weights.dtype)
        for i in range(n):
            for j in range(n):
                joined[i, j] = sum(float(head[i, j]) for head in layer) / len(layer) + (i == j)
            joined[i] /= sum(float(value) for value in joined[i])
        below = joined if below is None else joined @ below
        found.append(below)
    return torch.stack(found)


def flow_graph(capacity: np.ndarray) -> nx.DiGraph:
    """Node l n + i is position i of level l; level 0 holds the inputs."""
    layers, n, _ = capacity.shape
    graph = nx.DiGraph()
    graph.add_nodes_from(range((layers + 1) * n))
    for layer in range(layers):
        for i in range(n):
            for j in range(n):
                if capacity[layer, i, j] > 0:
                    graph.add_edge((layer + 1) * n + i, layer * n + j, capacity=float(capacity[layer, i, j]))
    return graph


def flow(capacity: np.ndarray, source: int, solve=preflow_push) -> np.ndarray:
    """Maximum flows from one position at the top to every input."""
    layers, n, _ = capacity.shape
    graph = flow_graph(capacity)
    return np.array([nx.maximum_flow_value(graph, layers * n + source, j, flow_func=solve) for j in range(n)])


def heterogenous(fused: list[list[tuple[str, str, Tensor]]], sizes: dict[str, int]) -> dict[tuple[str, str], Tensor]:
    """Equations 6 and 7: for each stream what it holds of each source; fused maps by group, `q k` each."""
    held = {
        (s, source): torch.eye(sizes[s], dtype=torch.float64)
        if s == source
        else torch.zeros(sizes[s], sizes[source], dtype=torch.float64)
        for s in sizes
        for source in sizes
    }
    for group in fused:
        old = dict(held)
        for query, key, weights in group:
            for source in sizes:
                held[query, source] = held[query, source] + weights @ old[key, source]
    return held


def average_precision(scores: list[float], truth: list[bool]) -> float:
    """The mean, over true positions, of the share of true ones among all that score at least as high."""
    found = []
    for score, right in zip(scores, truth, strict=True):
        if right:
            above = [t for s, t in zip(scores, truth, strict=True) if s >= score]
            found.append(sum(above) / len(above))
    return sum(found) / len(found)


def otsu(values: list[int]) -> int:
    """The first threshold with the largest variance between the two sides."""
    best, chosen = 0.0, 0
    for threshold in range(256):
        low = [value for value in values if value <= threshold]
        high = [value for value in values if value > threshold]
        if low and high:
            difference = sum(low) / len(low) - sum(high) / len(high)
            between = len(low) * len(high) / len(values) ** 2 * difference**2
            if between > best * (1 + 1e-12):
                best, chosen = between, threshold
    return chosen
