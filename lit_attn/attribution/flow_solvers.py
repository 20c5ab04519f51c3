"""What is the maximum flow exactly? Solvers for the pairs that bounds leave open, on integers.

scipy's Dinic works on 32 bits, with errors up to 5e-9 here; OR-tools (extra `flow`) on 64 bits reuses one graph for all
sinks and is faster. From one source to one sink only 2 n + (l - 2) n^2 edges matter: its own row at the top,
all of the middle, and the sink's column at the bottom. Only the last n change from sink to sink.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lit_attn.errors import UserError

Solver = Callable[[ndarray, int, ndarray], ndarray]
"""Capacities `l n n` with l > 2, a source at the top, and sinks: the flow to each."""

SCIPY_SCALE = 2**30 - 1
ORTOOLS_SCALE = 10**12
EDGES_AT_ONCE = 2**14
"""Edges of all copies that scipy gets in one call; more of them are slower again."""


def default_solver() -> Solver:
    """The fastest that is installed."""
    return with_scipy if importlib.util.find_spec("ortools") is None else with_ortools


def with_scipy(capacity: Float[ndarray, "l n n"], source: int, sinks: ndarray) -> Float[ndarray, " m"]:
    """A call has a cost of its own, so it gets several sinks: copies of the graph with a common source and end."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    capacity, n = _widest_first(capacity, source), capacity.shape[-1]
    tails, heads, sizes, last = _edges(capacity, source)
    below = _scaled(capacity[0])
    used = _scaled(sizes) > 0
    used[:n] = used[last] = True
    tails, heads, widths = tails[used], heads[used], _scaled(sizes[used])
    copies = max(1, min(len(sinks), EDGES_AT_ONCE // len(widths)))
    shift = np.arange(copies, dtype=np.int32)[:, None] * (heads[-1] - 1)
    end = int(copies * (heads[-1] - 1) + 1)
    tails = np.where(tails > 0, tails + shift, np.int32(0))
    heads = np.where(heads < heads[-1], heads + shift, np.int32(end))
    graph = csr_array((np.tile(widths, copies), (tails.ravel(), heads.ravel())), shape=(end + 1, end + 1))
    inner = graph.data[copies * n :].reshape(copies, -1)  # the source's edges come first, then those of each copy
    found = np.zeros(len(sinks))
    for start in range(0, len(sinks), copies):
        part = sinks[start : start + copies]
        inner[:, -n:] = 0
        inner[: len(part), -n:] = below[:, part].T
        flow = maximum_flow(graph, 0, end).flow.data[: copies * n].reshape(copies, n)
        found[start : start + copies] = flow.sum(1, dtype=np.int64)[: len(part)] / SCIPY_SCALE
    return found


def with_ortools(capacity: Float[ndarray, "l n n"], source: int, sinks: ndarray) -> Float[ndarray, " m"]:
    try:
        from ortools.graph.python import max_flow
    except ImportError as error:
        raise UserError("This solver needs OR-tools: pip install 'lit_attn[flow]'.") from error
    tails, heads, sizes, last = _edges(capacity, source)
    scaled = (sizes * ORTOOLS_SCALE).round().astype(np.int64)
    used = scaled > 0
    used[last] = True
    graph: Any = max_flow.SimpleMaxFlow()
    arcs = graph.add_arcs_with_capacity(tails[used], heads[used], scaled[used])
    arcs, end = arcs[-capacity.shape[-1] :], int(heads[-1])
    below = (capacity[0] * ORTOOLS_SCALE).round().astype(np.int64)
    found = []
    for sink in sinks:
        graph.set_arcs_capacity(arcs, below[:, sink])
        if graph.solve(0, end) != graph.OPTIMAL:
            raise RuntimeError(f"OR-tools found no maximum flow from {source} to {sink}.")
        found.append(graph.optimal_flow() / ORTOOLS_SCALE)
    return np.array(found, dtype=np.float64)


def _scaled(sizes: ndarray) -> ndarray:
    return (sizes * SCIPY_SCALE).round().astype(np.int32)


def _widest_first(capacity: Float[ndarray, "l n n"], source: int) -> Float[ndarray, "l n n"]:
    """The same graph with the positions between in the order of what can reach them: wide paths are then tried first."""
    ordered, reach = capacity.copy(), capacity[-1, source]
    for level in range(len(capacity) - 1, 0, -1):
        order = np.argsort(-reach, kind="stable")
        ordered[level] = ordered[level][:, order]
        ordered[level - 1] = ordered[level - 1][order]
        reach = np.minimum(1.0, np.minimum(reach[:, None], capacity[level - 1]).sum(0))
    return ordered


def _edges(capacity: Float[ndarray, "l n n"], source: int) -> tuple[ndarray, ndarray, ndarray, slice]:
    """Tails, heads and capacities; the last n lead to the sink and are empty. Node 0 is the source."""
    layers, n, _ = capacity.shape
    place = np.arange(n)
    tails, heads, sizes = [np.zeros(n, int)], [1 + place], [capacity[-1, source]]
    for depth, layer in enumerate(capacity[-2:0:-1]):
        upper, lower = 1 + depth * n + place, 1 + (depth + 1) * n + place
        tails.append(np.repeat(upper, n))
        heads.append(np.tile(lower, n))
        sizes.append(layer.ravel())
    end = 1 + (layers - 1) * n
    tails.append(end - n + place)
    heads.append(np.full(n, end))
    sizes.append(np.zeros(n))
    joined = np.concatenate(sizes)
    above, below = (
        np.concatenate(ends).astype(np.int32) for ends in (tails, heads)
    )  # scipy would copy wider ones each time
    return above, below, joined, slice(len(joined) - n, len(joined))
