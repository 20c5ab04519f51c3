"""Which alignments differ beyond noise? Compares the models of one recipe, and says it in plain sentences.

Alignments that are mathematically the same model in the network (`describe()`) are one model here: their runs are pooled,
and what differs between them is noise by construction.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from lit_attn.report.statistics import (
    Noise,
    bootstrap_interval,
    hedges_g,
    holm,
    permutation_test,
    pooled_noise,
    pooled_test,
    smallest_p,
)
from lit_attn.report.study_data import StudyRun
from lit_attn.report.text import format_number

LEVEL = 0.05
UNEVEN = 5.0
"""Models whose spreads differ by more than this factor make the pooled test rough."""


@dataclass(frozen=True)
class Model:
    """A class of alignments that are the same model, with its runs' scores by alignment and seed."""

    name: str
    alignments: tuple[str, ...]
    scores: dict[tuple[str, int], float]

    @property
    def values(self) -> list[float]:
        return list(self.scores.values())

    @property
    def label(self) -> str:
        return self.alignments[0] if len(self.alignments) == 1 else f"{self.name} ({', '.join(self.alignments)})"

    def by_seed(self) -> dict[int, float]:
        """The mean over the alignments of the class."""
        seeds = sorted({seed for _, seed in self.scores})
        return {seed: fmean(v for (_, s), v in self.scores.items() if s == seed) for seed in seeds}


@dataclass(frozen=True)
class Difference:
    """Two models; positive means that the first has the larger score."""

    first: Model
    second: Model
    mean: float
    effect: float
    pooled_p: float
    corrected_p: float
    permutation_p: float
    interval: tuple[float, float]
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """All pairs of models of one recipe."""

    models: tuple[Model, ...]
    noise: Noise
    differences: tuple[Difference, ...]
    higher_is_better: bool


def models_of(runs: Sequence[StudyRun]) -> tuple[Model, ...]:
    """The distinct models among finished runs."""
    found: dict[str, dict[tuple[str, int], float]] = {}
    for run in runs:
        assert run.run is not None
        assert run.score is not None
        name = run.run.info.equivalence or run.cell.alignment
        found.setdefault(name, {})[run.cell.alignment, run.cell.seed] = run.score
    return tuple(
        Model(name, tuple(dict.fromkeys(alignment for alignment, _ in scores)), scores)
        for name, scores in found.items()
    )


def compare(runs: Sequence[StudyRun], *, higher_is_better: bool = True) -> Comparison:
    """Every pair of models: pooled test with Holm's correction, permutation test, bootstrap, effect size."""
    models = models_of(runs)
    noise = pooled_noise([model.values for model in models])
    pairs = list(itertools.combinations(models, 2))
    pooled = [pooled_test(a.values, b.values, noise) for a, b in pairs]
    differences = []
    for (first, second), p, corrected in zip(pairs, pooled, holm(pooled), strict=True):
        one, other = first.by_seed(), second.by_seed()
        seeds = sorted(one.keys() & other.keys())
        paired = [one[seed] for seed in seeds], [other[seed] for seed in seeds]
        differences.append(
            Difference(
                first, second, fmean(first.values) - fmean(second.values), hedges_g(first.values, second.values, noise),
                p, corrected, permutation_test(*paired), bootstrap_interval(*paired), len(seeds),
            )
        )  # fmt: skip
    return Comparison(models, noise, tuple(differences), higher_is_better)


def beyond_noise(comparison: Comparison) -> list[tuple[Model, list[Model]]]:
    """For each model, best first, those that it beats beyond noise."""
    beaten: dict[str, list[Model]] = {}
    for difference in comparison.differences:
        if difference.corrected_p < LEVEL:
            first_wins = (difference.mean > 0) == comparison.higher_is_better
            winner, loser = (
                (difference.first, difference.second) if first_wins else (difference.second, difference.first)
            )
            beaten.setdefault(winner.name, []).append(loser)
    order = sorted(comparison.models, key=lambda m: fmean(m.values), reverse=comparison.higher_is_better)
    return [(model, beaten[model.name]) for model in order if model.name in beaten]


def sentence(comparison: Comparison, score: str) -> str:
    """What differs beyond noise, what does not, by which test, and what the other test cannot say."""
    noise, models = comparison.noise, comparison.models
    if len(models) < 2:
        return f"{score}: only one model, so there is nothing to compare."
    if not noise.freedom:
        return f"{score}: one run of each model, so the noise is not known and no difference can be told from it. Add seeds."
    found = beyond_noise(comparison)
    decided = sum(len(losers) for _, losers in found)
    total = len(comparison.differences)
    parts = [
        f"{score}: one run varies by ± {format_number(noise.std)} (pooled standard deviation of {noise.runs} runs of "
        f"{noise.models} distinct models, {noise.freedom} degrees of freedom)."
    ]
    if found:
        said = "; ".join(f"{winner.label} beats {', '.join(m.label for m in losers)}" for winner, losers in found)
        parts.append(f"Beyond noise (pooled t-test, Holm over {total} pairs, 5 %): {said}.")
        rest = total - decided
        parts.append("Every pair differs." if not rest else f"The other {rest} pairs are not told from noise.")
    else:
        parts.append(f"No pair of the {total} is told from noise (pooled t-test, Holm, 5 %).")
    parts.append(_limits(comparison))
    return " ".join(part for part in parts if part)


def _limits(comparison: Comparison) -> str:
    seeds = max(difference.seeds for difference in comparison.differences)
    said = []
    if smallest_p(seeds) > LEVEL:
        said.append(
            f"With {seeds} seeds an exact paired permutation test cannot go below p = {smallest_p(seeds):.2g}, "
            "so it decides nothing here; the pooled test assumes that all models are equally noisy."
        )
    spreads = [stdev(model.values) for model in comparison.models if len(model.values) > 1]
    if len(spreads) > 1 and max(spreads) > UNEVEN * max(min(spreads), 1e-300):
        low, high = format_number(min(spreads)), format_number(max(spreads))
        said.append(f"They are not: spreads go from {low} to {high}, so take its p-values as rough.")
    return " ".join(said)


def rank_means(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean rank of every alignment over tasks, 1 best, ties shared; only alignments that every task has."""
    common = [name for name in (tables[0] if tables else {}) if all(name in table for table in tables)]
    ranks: dict[str, list[float]] = {name: [] for name in common}
    for table in tables:
        for name in common:
            above = sum(table[other] > table[name] for other in common)
            equal = sum(table[other] == table[name] for other in common)
            ranks[name].append(above + (equal + 1) / 2)
    return {name: fmean(own) for name, own in ranks.items()}


def finite(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
