"""Which objects do words look at? For the words used most, the labels of regions with most of their attention, beside chance.

First the mean over the sites of a stack, weighted by uses of the word, then every site. A site lists only its first labels: where
a label is missing at a site it counts there as 0, so that the mean is at least what is shown, marked ≥.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lit_attn.report.heads import grid_row
from lit_attn.report.markup import Markup, tag
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.stage_files import last_files
from lit_attn.report.word_maps import check_columns

_TABLE = "objects"
_MOST_WORDS = 30
_MOST_LABELS = 5
_NOTE = (
    "Attention from a word to all regions of one label, per use of the word, in per cent; in brackets even attention. "
    "≥: the label is not among the first of every site, and counts as 0 where it is not. Names of sites count layers from 0."
)


class Look(NamedTuple):
    """What a word gives to the regions of one label."""

    label: str
    value: float
    chance: float
    at_least: bool
    """Whether some site does not list the label, so that more may be true."""


class Word(NamedTuple):
    """A word, how often it was used, and the labels that it looks at most."""

    word: str
    uses: int
    looks: tuple[Look, ...]


def objects_section(runs: Sequence[Run]) -> Section | None:
    """Lists of every run and stage: stacks of sites open, sites folded."""
    parts: list[Markup] = []
    for run, stage, (header, *rows) in last_files(runs, "tables"):
        check_columns(run, header)
        whose = [run.name] * (len(runs) > 1) + [stage] * bool(stage)
        stacks: dict[str, list[list[str]]] = {}
        for row in rows:
            if row[0] == _TABLE:
                stacks.setdefault(grid_row(row[1]).block or row[1], []).append(row)
        for stack, own in stacks.items():
            sites = list(dict.fromkeys(row[1] for row in own))
            if len(sites) > 1:
                parts.append(_listed(", ".join([*whose, stack, f"mean of {len(sites)} sites"]), own, is_open=True))
            for site in sites:
                alone = [row for row in own if row[1] == site]
                parts.append(_listed(", ".join([*whose, site]), alone, is_open=len(sites) == 1))
    return section("objects", "Objects that words look at", *parts, note=_NOTE) if parts else None


def top_objects(rows: Sequence[Sequence[str]]) -> list[Word]:
    """The words of one site, or of several as means weighted by uses; most used words first."""
    uses: dict[str, dict[str, int]] = {}
    given: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for _, site, word, label, value, chance, count in rows:
        uses.setdefault(word, {})[site] = int(count)
        given.setdefault((word, label), []).append((float(value), float(chance), int(count)))
    looks: dict[str, list[Look]] = {}
    for (word, label), own in given.items():
        weight = sum(value * count for value, _, count in own) / sum(uses[word].values())
        even = sum(chance * count for _, chance, count in own) / sum(count for *_, count in own)
        looks.setdefault(word, []).append(Look(label, weight, even, len(own) < len(uses[word])))
    found = [
        Word(word, max(uses[word].values()), tuple(sorted(own, key=lambda look: -look.value)[:_MOST_LABELS]))
        for word, own in looks.items()
    ]
    return sorted(found, key=lambda word: -word.uses)


def _listed(title: str, rows: Sequence[Sequence[str]], *, is_open: bool) -> Markup:
    words = top_objects(rows)
    widest = max(len(word.looks) for word in words)
    head = tag("tr", *(tag("th", cell, scope="col") for cell in ("word", "uses", *range(1, widest + 1))))
    body = [
        tag("tr", tag("th", word, scope="row"), tag("td", uses, class_="number"), *(tag("td", _told(x)) for x in looks))
        for word, uses, looks in words[:_MOST_WORDS]
    ]
    left = len(words) - _MOST_WORDS
    more = tag("p", f"Less used words, {left} of them, are in the run folder.", class_="note") if left > 0 else None
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("details", tag("summary", title), tag("div", table, class_="scroll", tabindex="0"), more, open=is_open)


def _told(look: Look) -> str:
    return f"{look.label} {'≥ ' if look.at_least else ''}{100 * look.value:.1f} ({100 * look.chance:.1f})"
