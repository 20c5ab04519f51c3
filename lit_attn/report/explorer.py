"""Where did the model look in this sample? The interactive part of the page.

The page carries every sample and every picture as a block of data that its script reads only when it is shown; a picture
that several runs share is carried once. When the samples of all runs exceed the budget, the runs take turns and the page
says how many fit.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lit_attn.report.gallery import Sample
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, data_block, tag
from lit_attn.report.payload import picture_bytes, picture_uri, sample_payload
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.shown import GalleryItem, shown, title_of

PAGE_BUDGET = 24_000_000
"""Bytes of samples and pictures in one page; more would make it slow to open and to send."""

_PROSE_FACTS = ("written", "verdicts")
_NOTE = (
    "Point at a word, a box, a cell or a step, or move to it with the Tab and arrow keys; a click or Enter holds it, Escape "
    "lets go. What attends shows what it looks at; what is only looked at shows who looks."
)


@dataclass(frozen=True)
class Entry:
    """One sample in the page."""

    number: int
    run: int
    sample: GalleryItem
    block: Markup
    picture: str | None
    """Name of the block of its picture."""
    picture_block: Markup
    """That block; empty if an entry before brings it."""

    @property
    def size(self) -> int:
        """What it takes of the page's budget."""
        return len(self.block) + len(self.picture_block)


def explorer_entries(runs: Sequence[Run], budget: int = PAGE_BUDGET) -> list[Entry]:
    """As many samples as the budget allows, at least one if there is any."""
    entries: list[Entry] = []
    used = 0
    as_prose = [{sample.path for sample in run.writing} for run in runs]
    pictures: set[str] = set()
    for number, (index, sample) in enumerate(_in_turns(runs)):
        entry = _entry(number, index, sample, _PROSE_FACTS if sample.path in as_prose[index] else (), pictures)
        used += entry.size
        if entries and used > budget:
            break
        entries.append(entry)
    return entries


def explorer_section(runs: Sequence[Run], entries: Sequence[Entry]) -> Section | None:
    """The explorer of these samples."""
    if not entries:
        return None
    total = sum(len(run.gallery) + len(run.answers) for run in runs)
    fit = f"{len(entries)} of {total} samples fit in the page; the others are in the gallery folders."
    looks = run_looks(runs)
    index = {
        "runs": [{"name": run.name, "color": look.color} for run, look in zip(runs, looks, strict=True)],
        "samples": [
            {
                "number": entry.number,
                "run": entry.run,
                "id": entry.sample.sample_id,
                "text": title_of(entry.sample),
                "picture": entry.picture,
            }
            for entry in entries
        ],
    }
    return section(
        "gallery",
        "Where it looks",
        tag("p", fit, class_="note") if len(entries) < total else None,
        _frame(),
        data_block("samples", index),
        *(entry.picture_block for entry in entries),
        *(entry.block for entry in entries),
        note=_NOTE,
    )


def _in_turns(runs: Sequence[Run]) -> Iterator[tuple[int, GalleryItem]]:
    for turn in zip_longest(*((*run.gallery, *run.answers) for run in runs)):
        for index, sample in enumerate(turn):
            if sample is not None:
                yield index, sample


def _entry(number: int, run: int, sample: GalleryItem, left_out: Sequence[str], pictures: set[str]) -> Entry:
    content, size = picture_bytes(sample.picture)
    name, brought = None, Markup("")
    if content is not None:
        name = f"picture-{hashlib.sha256(content).hexdigest()[:16]}"
        if name not in pictures:
            pictures.add(name)
            brought = data_block(name, picture_uri(content))
    left = left_out if isinstance(sample, Sample) else ()
    block = data_block(f"sample-{number}", sample_payload(shown(sample), size, left))
    return Entry(number, run, sample, block, name, brought)


def _frame() -> Markup:
    strip = tag("div", class_="strip", role="listbox", aria_label="Samples", aria_orientation="horizontal", id="strip")
    compare = tag("button", "Side by side", type="button", id="compare", class_="quiet", aria_pressed="false")
    panes = tag("div", class_="panes", id="panes")
    return tag("div", strip, tag("div", compare, class_="controls"), panes, _pane(), class_="explorer")


def _pane() -> Markup:
    """What the script clones for each of the two views."""

    def choice(label: str, name: str) -> Markup:
        return tag("label", f"{label} ", tag("select", data_role=name), data_row=name)

    def radios(label: str, name: str) -> Markup:
        return tag(
            "fieldset", tag("legend", label), tag("div", data_role=name), class_="radios", data_row=name, hidden=True
        )

    stepper = tag(
        "div",
        tag("button", "◀", type="button", data_role="back", aria_label="Step back", class_="quiet"),
        tag("output", data_role="step"),
        tag("button", "▶", type="button", data_role="on", aria_label="Step on", class_="quiet"),
        class_="stepper",
        role="group",
        aria_label="Go through the steps",
        data_row="stepper",
    )
    controls = tag(
        "div",
        choice("Run", "run"),
        choice("Show", "method"),
        choice("Part", "part"),
        radios("Call", "call"),
        radios("Layer", "layer"),
        radios("Head", "head"),
        stepper,
        class_="controls",
    )
    picture = tag(
        "div",
        Markup('<svg data-role="picture" role="group" aria-label="Picture"></svg>'),
        class_="picture",
    )
    side = tag(
        "div",
        tag("div", data_role="texts"),
        tag("p", data_role="reading", class_="reading", aria_live="polite"),
        tag("p", data_role="shares", class_="shares"),
        tag("ol", data_role="strongest", class_="strongest"),
        tag("p", data_role="gold", class_="gold-reading"),
        _legend(),
        class_="side",
    )
    whole = tag(
        "details",
        tag("summary", "The whole map"),
        tag("p", data_role="map-reading", class_="note"),
        tag("div", data_role="maps", class_="scroll"),
        data_role="fold",
    )
    stage = tag("div", picture, side, class_="stage")
    title = tag("h3", data_role="title")
    facts = tag("dl", data_role="facts", class_="details")
    content = tag("div", controls, title, facts, stage, whole, class_="pane")
    return Markup(f'<template id="pane">{content}</template>')


def _legend() -> Markup:
    weight = tag("span", tag("span", class_="key weight"), "weight, relative to the largest shown")
    against = tag("span", tag("span", class_="key against"), "speaks against it", data_role="against-key", hidden=True)
    gold = tag("span", tag("span", class_="key gold"), tag("span", data_role="gold-key"), data_role="gold-row")
    return tag("p", weight, against, gold, class_="legend")
