"""Which numbers about heads are worth a picture of their own? Those that are no other view of one that is drawn.

Chance levels, ratios of sums beside means of ratios, other denominators and baselines stand in tables.
"""

_ENDINGS = ("_chance", "_micro", "_all", "_start", "_swapped")


def is_derived(metric: str) -> bool:
    return metric.endswith(_ENDINGS)
