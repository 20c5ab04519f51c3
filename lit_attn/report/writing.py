"""What does the model write? Pictures, each beside the model's own text and the gold text.

The text is the fact `written` of a gallery sample. A fact `verdicts` has a word per sentence of it, `true`, `false`
or `unclear`; each sentence then carries its sign. Pictures are those of the explorer; the page carries each once.
"""

from collections.abc import Sequence

from lit_attn.report.explorer import Entry
from lit_attn.report.gallery import Sample
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, join, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.sentences import sentences

_SIGNS = {"true": "✓", "false": "✕", "unclear": "?"}


def writing_section(runs: Sequence[Run], entries: Sequence[Entry]) -> Section | None:
    """The texts of every run that writes, beside the pictures that the explorer shows."""
    parts = []
    judged = False
    for index, (look, run) in enumerate(zip(run_looks(runs), runs, strict=True)):
        chosen = {sample.path for sample in run.writing}
        shown = [entry for entry in entries if entry.run == index and entry.sample.path in chosen]
        if shown:
            judged = judged or any(_verdicts(entry.sample) for entry in shown if isinstance(entry.sample, Sample))
            title = tag("h3", run_dot(look), f" {run.name}") if len(runs) > 1 else None
            parts.append(join([title, *(_row(entry) for entry in shown)]))
    if not parts:
        return None
    return section("writing", "What it writes", _legend() if judged else None, *parts)


def _legend() -> Markup:
    meanings = {"true": "true of the picture", "false": "false", "unclear": "cannot be told"}
    items = [tag("span", tag("span", sign, class_=f"sign {name}"), meanings[name]) for name, sign in _SIGNS.items()]
    return tag("p", *items, class_="legend")


def _row(entry: Entry) -> Markup:
    sample = entry.sample
    assert isinstance(sample, Sample)
    if entry.picture is None:
        picture = tag("span", class_="no-picture")
    else:
        picture = tag("img", alt=f"Picture of {sample.sample_id}", data_picture=entry.picture)
    written = tag("div", tag("h4", "The model"), _written(sample), class_="by-model")
    gold = tag("div", tag("h4", "Gold"), _prose(sentences(sample.title)), class_="by-gold")
    return tag("article", tag("div", picture), written, gold, class_="writing")


def _prose(found: Sequence[str]) -> Markup:
    return tag("p", " ".join(found)) if found else tag("p", "nothing", class_="note")


def _written(sample: Sample) -> Markup:
    found = sentences(sample.written or "")
    verdicts = _verdicts(sample)
    if not verdicts:
        return _prose(found)
    if len(verdicts) != len(found) or not set(verdicts) <= set(_SIGNS):
        remark = f"The verdicts do not fit the {len(found)} sentences: {' '.join(verdicts)}"
        return join([_prose(found), tag("p", remark, class_="note")])
    lines = [_judged(sentence, verdict) for sentence, verdict in zip(found, verdicts, strict=True)]
    count = tag("p", f"{verdicts.count('true')} of {len(verdicts)} sentences are true.", class_="note")
    return join([tag("ul", *lines, class_="judged"), count])


def _judged(sentence: str, verdict: str) -> Markup:
    sign = tag("span", _SIGNS[verdict], class_=f"sign {verdict}", role="img", aria_label=verdict, title=verdict)
    return tag("li", sign, tag("span", sentence))


def _verdicts(sample: Sample) -> list[str]:
    fact = sample.facts.get("verdicts")
    return fact.split() if isinstance(fact, str) else []
