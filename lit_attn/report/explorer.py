"""Where did the model look in this sample? The interactive part of the page.

The page carries every sample as a block of JSON that its script reads only when the sample is chosen. Pictures are
carried once, as the thumbnails. When the samples of all runs exceed the budget, the runs take turns and the page
says how many fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lit_attn.report.gallery import Sample
from lit_attn.report.markup import Markup, data_block, join, tag
from lit_attn.report.payload import picture_payload, sample_payload
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section

PAGE_BUDGET = 24_000_000
"""Bytes of samples and pictures in one page; more would make it slow to open and to send."""

_PROSE_FACTS = ("written", "verdicts")


@dataclass(frozen=True)
class Entry:
    """One sample in the page: its button with the picture, and its data."""

    number: int
    run: int
    sample: Sample
    button: Markup
    block: Markup

    @property
    def size(self) -> int:
        """What it takes of the page's budget."""
        return len(self.button) + len(self.block)


def explorer_entries(runs: Sequence[Run], budget: int = PAGE_BUDGET) -> list[Entry]:
    """As many samples as the budget allows, at least one if there is any."""
    entries: list[Entry] = []
    used = 0
    as_prose = [{sample.path for sample in run.writing} for run in runs]
    for number, (index, sample) in enumerate(_in_turns(runs)):
        entry = _entry(number, index, sample, _PROSE_FACTS if sample.path in as_prose[index] else ())
        used += entry.size
        if entries and used > budget:
            break
        entries.append(entry)
    return entries


def explorer_section(runs: Sequence[Run], entries: Sequence[Entry]) -> Section | None:
    """The explorer of these samples."""
    if not entries:
        return None
    return section(
        "gallery",
        "Where it looks",
        _note(len(entries), sum(len(run.gallery) for run in runs)),
        _frame(runs, entries),
        *(entry.block for entry in entries),
        note="Point at a word or a region, or move to it with the Tab and arrow keys; a click or Enter holds it.",
    )


def _in_turns(runs: Sequence[Run]) -> Iterator[tuple[int, Sample]]:
    longest = max(len(run.gallery) for run in runs)
    for place in range(longest):
        for index, run in enumerate(runs):
            if place < len(run.gallery):
                yield index, run.gallery[place]


def _note(shown: int, total: int) -> Markup | None:
    if shown == total:
        return None
    return tag(
        "p", f"{shown} of {total} samples fit in the page; the others are in the gallery folders.", class_="note"
    )


def _entry(number: int, run: int, sample: Sample, left_out: Sequence[str]) -> Entry:
    picture, size = picture_payload(sample)
    text = sample.title or " ".join(sample.words) or sample.sample_id
    image = tag("img", src=picture, alt="", decoding="async") if picture else tag("span", class_="no-picture")
    button = tag(
        "button",
        image,
        tag("span", text),
        type="button",
        role="option",
        aria_selected="false",
        tabindex="-1",
        title=sample.sample_id,
        data_sample=str(number),
        data_run=str(run),
        data_id=sample.sample_id,
    )
    block = data_block(f"sample-{number}", sample_payload(sample, size, left_out))
    return Entry(number, run, sample, button, block)


def _frame(runs: Sequence[Run], entries: Sequence[Entry]) -> Markup:
    shown = sorted({entry.run for entry in entries})
    options = [tag("option", runs[index].name, value=str(index)) for index in shown]
    choice = tag("label", "Run ", tag("select", *options, id="run-choice"), hidden=len(shown) < 2)
    strip = tag(
        "div", *(entry.button for entry in entries), class_="strip", role="listbox", aria_label="Samples", id="strip"
    )
    controls = tag(
        "div",
        choice,
        tag("label", "Site ", tag("select", id="site-choice")),
        tag("fieldset", tag("legend", "Head"), tag("div", id="heads-choice"), class_="heads"),
        class_="controls",
    )
    picture = tag(
        "div", Markup('<svg id="picture" role="group" aria-label="Picture with regions"></svg>'), class_="picture"
    )
    side = tag(
        "div",
        tag("h3", id="sample-title"),
        tag("p", id="words", class_="words", aria_label="Words"),
        tag("p", id="reading", class_="reading", aria_live="polite"),
        tag("ol", id="strongest", class_="strongest"),
        tag("p", id="gold-reading", class_="gold-reading"),
        _legend(),
        tag("dl", id="sample-facts", class_="details"),
        class_="side",
    )
    stage = tag("div", picture, side, class_="stage")
    overview = tag(
        "details",
        tag("summary", "The whole map"),
        tag("p", id="map-reading", class_="note"),
        tag(
            "div",
            tag(
                "div",
                tag("div", id="map-columns"),
                tag("div", id="map-rows"),
                tag("canvas", id="map", role="img", aria_label="The whole map; point at a cell to read it"),
                class_="whole-map",
            ),
            class_="scroll",
        ),
        id="map-fold",
    )
    return tag("div", strip, controls, stage, overview, class_="explorer")


def _legend() -> Markup:
    weight = tag("span", tag("span", class_="key weight"), "weight, relative to the largest shown")
    gold = tag("span", tag("span", class_="key gold"), "named by the word in the gold annotation")
    return tag("p", join([weight, gold]), class_="legend")
