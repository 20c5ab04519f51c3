"""How much can flow from an output to each input, if attention weights are the widths of pipes? Attention flow.

Source: Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers": one maximum flow per pair of source and
input, with capacities (W + I) / row sum. Small graphs have closed forms; bounds that meet settle most other pairs
(`flow_bounds`); a solver settles the rest (`flow_solvers`), so that every value is exact within `tolerance`.

Read this before a comparison: a source gives at most 1, and an input takes at most the sum c_j of its column in the first
layer. Above about layer 4 the flow usually *is* min(1, c_j), whatever the source and the upper layers say. `saturation` is
the share of inputs for which that holds.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lit_attn.attribution.causal import CausalNorm, leveled, over_baseline, prepared
from lit_attn.attribution.flow_bounds import lower_bound, upper_bound
from lit_attn.attribution.flow_solvers import Solver, default_solver
from lit_attn.attribution.heard import Heard
from lit_attn.attribution.layers import averaged, without_residual
from lit_attn.errors import UserError

TOLERANCE = 1e-7
SATURATED = 1e-6
SINKS_AT_ONCE = 2**21
"""Numbers per layer that the lower bound may hold: sinks times positions squared."""


@dataclass(frozen=True)
class Flow:
    """The target's flow to every input position."""

    raw: Float[Tensor, "b n"]
    saturation: Float[Tensor, " b"]
    """Share of inputs j with flow min(1, c_j); see above."""
    solved: int
    """Pairs that needed a solver."""

    @property
    def normalized(self) -> Float[Tensor, "b n"]:
        """Divided by its sum, as the original code returns it: only relations between inputs survive."""
        total = self.raw.sum(-1, keepdim=True)
        return self.raw / total.where(total > 0, 1.0)


def attention_flow(
    heard: Heard,
    *,
    start: int = 0,
    residual: bool = True,
    head: int | None = None,
    causal: CausalNorm = "none",
    solver: Solver | None = None,
    processes: int = 0,
) -> Flow:
    """The flow from the target's row after the last group to every input.

    Args:
        start: The first group that counts.
        head: Take this head alone at the top, on the averaged heads below (appendix A.1 of the paper).
        causal: Correction for attention that may not look ahead; see `causal`.
        solver: Of `flow_solvers`; by default OR-tools where it is installed, else scipy.
        processes: Share samples among so many; 0 stays in this one.
    """
    if not 0 <= start < len(heard.groups):
        raise UserError(f"Flow cannot start at group {start}: the plan has groups 0 to {len(heard.groups) - 1}.")
    found = _flow(prepared(heard, causal), start, residual, head, solver, processes)
    if causal != "ratio":
        return found
    baseline = _flow(leveled(heard), start, residual, None, solver, processes)
    return replace(found, raw=over_baseline(heard, found.raw, baseline.raw))


def flows_from(
    capacity: Float[ndarray, "l n n"], source: int, solver: Solver | None = None
) -> tuple[Float[ndarray, " n"], int]:
    """Maximum flows from one position at the top to every input, and how many of them needed a solver."""
    if len(capacity) == 1:
        return capacity[0, source].copy(), 0
    if len(capacity) == 2:
        return np.minimum(capacity[1, source][:, None], capacity[0]).sum(0), 0
    upper = upper_bound(capacity, source)
    sinks = np.flatnonzero(upper > 0)
    chunk = max(1, SINKS_AT_ONCE // capacity.shape[-1] ** 2)
    parts = [sinks[i : i + chunk] for i in range(0, len(sinks), chunk)]
    found = np.zeros_like(upper)
    for part in parts:
        found[part] = lower_bound(capacity, source, part, upper[part], TOLERANCE)
    settled = upper - found <= TOLERANCE
    found[settled] = upper[settled]
    unknown = np.flatnonzero(~settled)
    if len(unknown):
        found[unknown] = (solver or default_solver())(capacity, source, unknown)
    return found, len(unknown)


def all_flows(capacity: Float[ndarray, "l n n"], solver: Solver | None = None) -> Float[ndarray, "l n n"]:
    """Flows from every position of every level to every input: `[level - 1, source, sink]`."""
    levels = range(1, len(capacity) + 1)
    sources = range(capacity.shape[-1])
    return np.stack([np.stack([flows_from(capacity[:level], s, solver)[0] for s in sources]) for level in levels])


def saturation(capacity: Float[ndarray, "l n n"], flows: Float[ndarray, " n"]) -> float:
    """Share of inputs whose flow is all that they can take, or all that a source can give."""
    return float((np.abs(flows - np.minimum(1.0, capacity[0].sum(0))) <= SATURATED).mean())


def _flow(heard: Heard, start: int, residual: bool, head: int | None, solver: Solver | None, processes: int) -> Flow:
    if head is not None:
        heard = _one_head(heard, head)
    layers = (averaged(heard) if residual else without_residual(heard))[start:]
    matrices = torch.stack([layer.matrix() for layer in layers], 1).double().cpu().numpy()  # b l n n
    tasks: list[tuple[ndarray, int]] = []
    for capacity, mask, row in zip(matrices, heard.layout.mask.cpu().numpy(), heard.rows.tolist(), strict=True):
        kept = np.flatnonzero(mask)
        tasks.append((capacity[:, kept][:, :, kept], int(np.searchsorted(kept, row))))
    results = _run(tasks, solver, processes)
    raw = torch.zeros(heard.layout.mask.shape, dtype=torch.float64)
    for sample, (flows, _) in enumerate(results):
        raw[sample, heard.layout.mask[sample].cpu()] = torch.from_numpy(flows)
    full = torch.tensor([saturation(task[0], flows) for task, (flows, _) in zip(tasks, results, strict=True)])
    like = layers[0].own
    return Flow(raw.to(like), full.to(like), sum(count for _, count in results))


def _run(tasks: Sequence[tuple[ndarray, int]], solver: Solver | None, processes: int) -> list[tuple[ndarray, int]]:
    work = partial(flows_from, solver=solver)
    if not processes:
        return [work(*task) for task in tasks]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, *zip(*tasks, strict=True)))


def _one_head(heard: Heard, head: int) -> Heard:
    top = heard.groups[-1]
    fewest = min(one.weights.shape[1] for one in top)
    if not 0 <= head < fewest:
        raise UserError(f"There is no head {head} at the top: it has heads 0 to {fewest - 1}.")
    only = tuple(one.with_weights(one.weights[:, head : head + 1]) for one in top)
    return replace(heard, groups=(*heard.groups[:-1], only))
