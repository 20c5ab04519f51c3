"""Which objects do words look at? For the words used most, the labels of regions with most of their attention, beside chance.

First the mean over the sites of a stack, which validation writes beside them, then every site.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
    "Names of sites count layers from 0."
)


class Look(NamedTuple):
    """What a word gives to the regions of one label."""

    label: str
    value: float
    chance: float


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
        sites: dict[str, list[list[str]]] = {}
        for row in rows:
            if row[0] == _TABLE:
                sites.setdefault(row[1], []).append(row)
        for site in sorted(sites, key=lambda site: "*" not in site):
            title = f"{site.replace('.*.', ' · ')}, mean over layers" if "*" in site else site
            parts.append(_listed(", ".join([*whose, title]), sites[site], is_open="*" in site or len(sites) == 1))
    return section("objects", "Objects that words look at", *parts, note=_NOTE) if parts else None


def top_objects(rows: Sequence[Sequence[str]]) -> list[Word]:
    """The words of one site, or of a stack; most used words first."""
    looks: dict[tuple[str, int], list[Look]] = {}
    for _, _, word, label, value, chance, count in rows:
        looks.setdefault((word, int(count)), []).append(Look(label, float(value), float(chance)))
    found = [Word(word, uses, tuple(own[:_MOST_LABELS])) for (word, uses), own in looks.items()]
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
    return f"{look.label} {100 * look.value:.1f} ({100 * look.chance:.1f})"
