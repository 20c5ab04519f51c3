"""How much faster is attention flow with bounds than one maximum flow per pair, as the original computes it?

Prints ratios of CPU time for one sentence of 32 tokens and 6 layers, from one position at the top to all inputs, measured in one
process with all sides taking turns: against networkx' Edmonds-Karp on the whole graph, our own writing of the original
algorithm, and against its preflow_push. On averaged heads bounds settle every pair; on one sharp head a solver must settle most.
The slow sides run on a sample of the inputs and are scaled to all of them. Run with `make bench`.
"""

import argparse
import importlib.util
import statistics
import time

import networkx as nx
import numpy as np
from networkx.algorithms.flow import edmonds_karp, preflow_push

from lit_attn.attribution.flow import flows_from
from lit_attn.attribution.flow_solvers import Solver, with_ortools, with_scipy


def attention(layers: int, heads: int, tokens: int, spread: float, seed: int) -> np.ndarray:
    """Capacities of softmax attention over random logits: heads averaged, residual added, rows divided by their sum."""
    logits = np.random.default_rng(seed).normal(0, spread, (layers, heads, tokens, tokens))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights.mean(1) + np.eye(tokens)) / 2


def whole_graph(capacity: np.ndarray) -> nx.DiGraph:
    """All levels; node l n + i is position i of level l. Built once: the original's own building is not counted."""
    layers, tokens, _ = capacity.shape
    matrix = np.zeros(((layers + 1) * tokens,) * 2)
    for layer in range(layers):
        upper, lower = (layer + 1) * tokens, layer * tokens
        matrix[upper : upper + tokens, lower : lower + tokens] = capacity[layer]
    graph = nx.from_numpy_array(matrix, create_using=nx.DiGraph)
    for *_, edge in graph.edges(data=True):
        edge["capacity"] = edge["weight"]
    return graph


def compare(title: str, capacity: np.ndarray, source: int, sinks: list[int], solver: Solver, rounds: int) -> None:
    graph, top = whole_graph(capacity), len(capacity) * capacity.shape[-1]
    flows, solved = flows_from(capacity, source, solver)
    ours, slow = [], {"Edmonds-Karp": [], "preflow_push": []}
    difference = 0.0
    for sink in sinks:
        for _ in range(rounds):
            start = time.process_time()
            flows_from(capacity, source, solver)
            ours.append(time.process_time() - start)
        for name, solve in (("Edmonds-Karp", edmonds_karp), ("preflow_push", preflow_push)):
            start = time.process_time()
            value = nx.maximum_flow_value(graph, top + source, sink, flow_func=solve)
            slow[name].append(time.process_time() - start)
            difference = max(difference, abs(value - flows[sink]))
    tokens, own = capacity.shape[-1], statistics.median(ours)
    for name, times in slow.items():
        total = statistics.fmean(times) * tokens
        print(
            f"attention flow, {title}, against {name}: {total / own:.0f}x  ({name} {total:.1f} s, from {len(sinks)} of "
            f"{tokens} inputs; ours {own * 1e3:.1f} ms, {solved} inputs by the solver; largest difference {difference:.1e})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--sample", type=int, default=6, help="inputs that the slow sides compute")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    sinks = np.linspace(0, args.tokens - 1, args.sample).astype(int).tolist()
    solvers = {"scipy": with_scipy}
    if importlib.util.find_spec("ortools") is not None:
        solvers["OR-tools"] = with_ortools
    for kind, heads, spread in (("8 heads averaged", 8, 2.0), ("one sharp head", 1, 6.0)):
        capacity = attention(args.layers, heads, args.tokens, spread, seed=0)
        for name, solver in solvers.items():
            compare(f"{kind}, {name}", capacity, 0, sinks, solver, args.rounds)


if __name__ == "__main__":
    main()
