"""What are the parts of the page made of? A titled section, and the two plain ones: learning curves and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lit_attn.report.drawing import inline_svg
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, join, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.runs import Run, differing_settings
from lit_attn.report.text import escape


@dataclass(frozen=True)
class Section:
    """A titled part of the page that the menu can point to."""

    name: str
    title: str
    content: Markup


def section(name: str, title: str, *children: object, note: str | None = None) -> Section:
    """A part of the page under a title, with an optional remark below it."""
    remark = tag("p", note, class_="note") if note else None
    return Section(name, title, tag("section", tag("h2", title), remark, *children, id=name))


def drawn_figure(name: str, title: str, documents: Mapping[str, str]) -> Markup:
    """A drawing on the page, from all drawings as SVG by name."""
    drawing = Markup(inline_svg(documents[name], slug_id(name), escape(title)))
    return tag("figure", tag("figcaption", title), tag("div", drawing, class_="scroll", tabindex="0"), class_="curves")


def curves_section(titles: Mapping[str, str], documents: Mapping[str, str]) -> Section | None:
    """Learning curves by name, each with its title."""
    parts = [drawn_figure(name, title, documents) for name, title in titles.items()]
    return section("curves", "Learning curves", *parts) if parts else None


def slug_id(name: str) -> str:
    """A name as the first part of element ids."""
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)


def config_section(runs: Sequence[Run]) -> Section | None:
    """What differs between the runs, then each configuration, folded."""
    if all(run.config is None for run in runs):
        return None
    folded = [
        tag("details", tag("summary", run_dot(look), f" {run.name}"), tag("pre", run.config))
        for look, run in zip(run_looks(runs), runs, strict=True)
        if run.config is not None
    ]
    return section("configuration", "Configuration", _differences(runs), *folded)


def _differences(runs: Sequence[Run]) -> Markup | None:
    different = differing_settings(runs)
    if not different:
        return None
    head = tag(
        "thead", tag("tr", tag("th", "setting", scope="col"), *(tag("th", run.name, scope="col") for run in runs))
    )
    rows = [
        tag("tr", tag("th", key, scope="row"), *(tag("td", "–" if value is None else value) for value in values))
        for key, values in different.items()
    ]
    table = tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll", tabindex="0")
    return join([tag("h3", "Settings that differ"), table])
