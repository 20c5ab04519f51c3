"""Does attention land where it should more often than by chance?

Pairs attention metrics with the chance level logged beside them: `grounding_mass` with `grounding_chance`,
`pointing_accuracy` with `pointing_chance`.
"""

from dataclasses import dataclass

from lit_attn.report.heads import grid_row
from lit_attn.report.metrics import attention_name, chance_of
from lit_attn.report.runs import Run
from lit_attn.report.tables import best_step
from lit_attn.report.text import natural_key


@dataclass(frozen=True)
class AgainstChance:
    """One metric at one site, and what a blind guess would reach."""

    stage: str
    site: str
    metric: str
    value: float
    chance: float

    @property
    def gain(self) -> float:
        return self.value - self.chance


def against_chance(run: Run) -> list[AgainstChance]:
    """All pairs of a run, at its best step where they were measured there, else at the last step they were measured."""
    step = best_step(run)
    found = []
    for name, series in run.metrics.items():
        parts = attention_name(name)
        expected = chance_of(parts.metric) if parts else None
        chance = run.metrics.get(f"{parts.stage}/attention/{parts.site}/{expected}") if parts and expected else None
        if parts is None or chance is None:
            continue
        value, level = (series.at(step), chance.at(step)) if step is not None else (None, None)
        if value is None or level is None:
            value, level = series.last, chance.last
        found.append(AgainstChance(parts.stage, parts.site, parts.metric, value, level))
    return sorted(found, key=_order)


def _order(pair: AgainstChance) -> tuple[object, ...]:
    row = grid_row(pair.site)
    return (pair.stage, pair.metric, natural_key(row.block or pair.site), natural_key(row.label))


def highest(pairs: list[AgainstChance]) -> list[tuple[AgainstChance, int]]:
    """Per stage and metric the site furthest above chance, with the number of sites it was chosen from."""
    groups: dict[tuple[str, str], list[AgainstChance]] = {}
    for pair in pairs:
        if pair.gain == pair.gain:
            groups.setdefault((pair.stage, pair.metric), []).append(pair)
    return [(max(group, key=lambda pair: pair.gain), len(group)) for group in groups.values()]
