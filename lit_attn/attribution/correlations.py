"""Does attention rank tokens as blank-out and input gradients do? Raw attention, rollout and flow, layer by layer.

Source: Tables 1 to 3 of Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers": Spearman's correlation over the
tokens of each sentence, then mean and population standard deviation over sentences. The row that is read is the plan's target,
the classifier's own token; with `rows="max"` a token counts by the largest value over all rows, as the released code for Table 3
has it. Flow beyond six decimals is rounding of bounds and solvers, so it is cut there before ranks are taken.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn

from lit_attn.attribution.capture import bare_net, capture, evaluating
from lit_attn.attribution.flow import flows_from, saturation
from lit_attn.attribution.heard import Heard, read
from lit_attn.attribution.importance import GradientScore, Ranks, blank_out, input_gradient, spearman, summary
from lit_attn.attribution.layers import averaged, head_mean, products
from lit_attn.attribution.plan import Plan
from lit_attn.attribution.targets import score_of
from lit_attn.errors import UserError, did_you_mean

METHODS = ("raw", "rollout", "flow")
AGAINST = ("blank_out", "gradient")
POSITIONS = ("all", "without_first")
FLOW_DECIMALS = 6
Rows = Literal["target", "max"]
Task = tuple[ndarray, tuple[int, ...]]
"""Capacities `l n n` of one sentence without padding, and the rows that are read."""


class Run(NamedTuple):
    """What a classifier gives."""

    logits: Float[Tensor, "b v"]
    embedded: Float[Tensor, "b n d"]
    """In the graph of the logits."""


@dataclass(frozen=True)
class Classifier:
    """A network over one stream of tokens, and how it is run."""

    net: nn.Module
    plan: Plan
    run: Callable[[nn.Module, Int[Tensor, "b n"], Bool[Tensor, "b n"]], Run]
    replacement: int
    """The token that blanks another one out."""


@dataclass(frozen=True)
class Sentences:
    """Tokens of several sentences, and the class of each."""

    tokens: Int[Tensor, "b n"]
    mask: Bool[Tensor, "b n"]
    classes: Int[Tensor, " b"]


@dataclass(frozen=True)
class Row:
    """One number of a table with its spread."""

    method: str
    layer: int
    """From 1, the lowest."""
    against: str
    positions: str
    mean: float
    std: float
    undefined: int
    """Sentences without a correlation, because one side is constant: they count as 0."""


@dataclass(frozen=True)
class Correlated:
    """The tables."""

    rows: tuple[Row, ...]
    saturation: tuple[float, ...]
    """By layer, the mean share of inputs whose flow is all that they can take, or all that a source can give."""
    samples: int


def correlate(
    classifier: Classifier,
    batches: Sequence[Sentences],
    *,
    against: Sequence[str] = AGAINST,
    gradient: GradientScore = "l2",
    ranks: Ranks = "average",
    rows: Rows = "target",
    processes: int = 0,
    advance: Callable[[int], None] | None = None,
) -> Correlated:
    """The correlations of every method at every layer.

    Args:
        against: `blank_out`, `gradient` or both.
        gradient: How a gradient becomes a number, see `importance`. It is that of the margin of probabilities between the
            sentence's class and the best other one.
        processes: Share the flows of sentences among so many; 0 stays in this one.
        advance: Called with the number of sentences after each batch.
    """
    for name in against:
        if name not in AGAINST:
            raise UserError(f"Unknown comparison {name!r}.{did_you_mean(name, AGAINST)} Known: {', '.join(AGAINST)}.")
    if not batches or not sum(len(batch.tokens) for batch in batches):
        raise UserError("There are no sentences to compare on.")
    found: dict[tuple[str, int, str, str], list[Tensor]] = {}
    full: list[ndarray] = []
    with _pool(processes) as flows:
        for batch in batches:
            heard, importance = _listen(classifier, batch, against, gradient)
            values = {"raw": _raw(heard, rows), "rollout": _rollout(heard, rows)}
            tasks = _tasks(heard, rows)
            values["flow"], saturated = _flow(heard, list(flows(tasks)))
            full += saturated
            rest = batch.mask.clone()
            rest[:, 0] = False
            masks = dict(zip(POSITIONS, (batch.mask, rest), strict=True))
            for method, name, positions in product(METHODS, against, POSITIONS):
                for layer, scores in enumerate(values[method], 1):
                    one = spearman(scores, importance[name].to(scores), masks[positions], ranks=ranks)
                    found.setdefault((method, layer, name, positions), []).append(one)
            if advance is not None:
                advance(len(batch.tokens))
    table = []
    for key, parts in found.items():
        joined = torch.cat(parts)
        table.append(Row(*key, *summary(joined), undefined=int(joined.isnan().sum())))
    return Correlated(tuple(table), tuple(np.mean(full, 0).tolist()), len(full))


def margin(logits: Float[Tensor, "b v"], classes: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """Probability of each sample's class minus that of the best other class."""
    shares = logits.softmax(-1)
    own = score_of(shares, classes)
    return own - shares.scatter(1, classes.unsqueeze(1), -1.0).amax(-1)


def _listen(
    classifier: Classifier, batch: Sentences, against: Sequence[str], gradient: GradientScore
) -> tuple[Heard, dict[str, Float[Tensor, "b n"]]]:
    captured = capture(classifier.net, lambda net: classifier.run(net, batch.tokens, batch.mask))
    target = captured.target(lambda run: margin(run.logits, batch.classes))
    importance: dict[str, Tensor] = {}
    if "gradient" in against:
        importance["gradient"] = input_gradient(target, captured.output.embedded, gradient)
    if "blank_out" in against:
        net = bare_net(classifier.net)

        def forward(tokens: Tensor, owner: Tensor) -> Tensor:
            return classifier.run(net, tokens, batch.mask[owner]).logits.softmax(-1)

        with evaluating(net):
            importance["blank_out"] = blank_out(
                forward, batch.tokens, classifier.replacement, mask=batch.mask, classes=batch.classes
            )
    return read(classifier.plan, captured.records), importance


def _raw(heard: Heard, rows: Rows) -> list[Float[Tensor, "b n"]]:
    return [_read_rows(heard, head_mean(one).double(), rows) for one in heard]


def _rollout(heard: Heard, rows: Rows) -> list[Float[Tensor, "b n"]]:
    return [_read_rows(heard, matrix.double(), rows) for matrix in products(averaged(heard))]


def _read_rows(heard: Heard, matrix: Float[Tensor, "b n n"], rows: Rows) -> Float[Tensor, "b n"]:
    if rows == "target":
        return heard.target_row(matrix)
    return matrix.masked_fill(~heard.layout.mask.unsqueeze(-1), -torch.inf).amax(1)


def _tasks(heard: Heard, rows: Rows) -> list[Task]:
    matrices = torch.stack([layer.matrix() for layer in averaged(heard)], 1).double().cpu().numpy()
    tasks = []
    for capacity, mask, row in zip(matrices, heard.layout.mask.cpu().numpy(), heard.rows.tolist(), strict=True):
        kept = np.flatnonzero(mask)
        own = int(np.searchsorted(kept, row))
        sources = (own,) if rows == "target" else tuple(range(len(kept)))
        tasks.append((capacity[:, kept][:, :, kept], sources))
    return tasks


def layered_flows(task: Task) -> tuple[Float[ndarray, "l n"], Float[ndarray, " l"]]:
    """By layer, the largest flow from one of the rows to each input, and how far flows are saturated."""
    capacity, sources = task
    flows, full = [], []
    for level in range(1, len(capacity) + 1):
        own = [flows_from(capacity[:level], source)[0] for source in sources]
        flows.append(np.round(np.max(own, 0), FLOW_DECIMALS))
        full.append(float(np.mean([saturation(capacity[:level], one) for one in own])))
    return np.stack(flows), np.array(full)


def _flow(heard: Heard, results: list[tuple[ndarray, ndarray]]) -> tuple[list[Float[Tensor, "b n"]], list[ndarray]]:
    layers = torch.zeros(len(heard.groups), *heard.layout.mask.shape, dtype=torch.float64)
    mask = heard.layout.mask.cpu()
    for sample, (flows, _) in enumerate(results):
        layers[:, sample, mask[sample]] = torch.from_numpy(flows)
    return list(layers.to(heard.layout.mask.device)), [full for _, full in results]


class _pool:
    """Maps sentences to flows, here or in processes."""

    def __init__(self, processes: int) -> None:
        self.pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn")) if processes else None

    def __enter__(self) -> Callable[[list[Task]], Iterator[tuple[ndarray, ndarray]]]:
        if self.pool is None:
            return lambda tasks: map(layered_flows, tasks)
        pool = self.pool
        return lambda tasks: pool.map(layered_flows, tasks, chunksize=4)

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
