"""What is the maximum flow exactly? Solvers for the pairs that bounds leave open, on integers.

scipy's Dinic works on 32 bits, with errors up to 5e-9 here; OR-tools (extra `flow`) on 64 bits reuses one graph for all
sinks and is several times faster. From one source to one sink only 2 n + (l - 2) n^2 edges matter: its own row at the top,
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


def default_solver() -> Solver:
    """The fastest that is installed."""
    return with_scipy if importlib.util.find_spec("ortools") is None else with_ortools


def with_scipy(capacity: Float[ndarray, "l n n"], source: int, sinks: ndarray) -> Float[ndarray, " m"]:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    tails, heads, sizes, last = _edges(capacity, source)
    scaled = (sizes * SCIPY_SCALE).round().astype(np.int32)
    below = (capacity[0] * SCIPY_SCALE).round().astype(np.int32)
    used = scaled > 0
    used[last] = True
    end, n = int(heads[-1]), capacity.shape[-1]
    graph = csr_array((scaled[used], (tails[used], heads[used])), shape=(end + 1, end + 1))
    found = []
    for sink in sinks:
        graph.data[-n:] = below[:, sink]  # rows are in the order of nodes, and the last ones lead to the sink alone
        found.append(maximum_flow(graph, 0, end).flow_value / SCIPY_SCALE)
    return np.array(found, dtype=np.float64)


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
