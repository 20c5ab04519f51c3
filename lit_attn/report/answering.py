"""How does it answer? The sheets of answered questions, the same question of all runs next to each other, on one scale.

Runs show the same question where both its name and its words are the same. When the sheets exceed the budget, whole
questions are left out, so that no run misses in a comparison, and the page says how many fit.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from lit_attn.drawing.reading import ReadAnswer, draw_reading
from lit_attn.drawing.steps import StepsAnswer, draw_steps
from lit_attn.report.answers import AnswerSample, StepsSample, open_picture
from lit_attn.report.looks import Look, run_looks
from lit_attn.report.markup import Markup, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.payload import encode
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section

_OPEN = 2
"""Questions of each form whose sheets are seen at once."""


@dataclass(frozen=True)
class Sheet:
    """What one run made of a question."""

    run: int
    content: bytes
    """A PNG file."""
    size: tuple[int, int]
    alt: str


@dataclass(frozen=True)
class Question:
    """One question, and the sheets of all runs that kept it."""

    sample_id: str
    form: str
    sheets: tuple[Sheet, ...]


def answer_questions(runs: Sequence[Run], budget: int) -> list[Question]:
    """As many questions as the budget of bytes allows, at least one if there is any."""
    questions: list[Question] = []
    used = 0
    for samples in _same(runs):
        question = _question(samples)
        used += sum(len(encode(sheet.content)) for sheet in question.sheets)
        if questions and used > budget:
            break
        questions.append(question)
    return questions


def answering_section(runs: Sequence[Run], questions: Sequence[Question]) -> Section | None:
    """The sheets of these questions."""
    if not questions:
        return None
    looks, total = run_looks(runs), len(_same(runs))
    fit = f"{len(questions)} of {total} questions fit in the page; the others are in the gallery folders."
    return section(
        "answers",
        "How it answers",
        tag("p", fit, class_="note") if len(questions) < total else None,
        *_folded([_article(runs, looks, question) for question in questions], [q.form for q in questions]),
        note="The sheets of one question share one scale." if len(runs) > 1 else None,
    )


def _folded(articles: Sequence[Markup], forms: Sequence[str]) -> list[Markup]:
    """The first few of each form, then the others in a fold: sheets are tall."""
    first = [i for i, form in enumerate(forms) if forms[:i].count(form) < _OPEN]
    rest = [article for i, article in enumerate(articles) if i not in first]
    found = [articles[i] for i in first]
    if rest:
        more = f"{len(rest)} more question{'s' if len(rest) > 1 else ''}"
        found.append(tag("details", tag("summary", more), *rest))
    return found


def _same(runs: Sequence[Run]) -> list[list[tuple[int, AnswerSample]]]:
    """The samples of all runs, those of one question together, with the number of their run."""
    found: dict[object, list[tuple[int, AnswerSample]]] = {}
    for number, run in enumerate(runs):
        for sample in run.answers:
            key = (isinstance(sample, StepsSample), sample.sample_id, sample.words)
            found.setdefault(key, []).append((number, sample))
    return list(found.values())


def _question(samples: Sequence[tuple[int, AnswerSample]]) -> Question:
    loaded = [(number, sample, sample.load()) for number, sample in samples]
    top = max(asked.top if isinstance(asked, StepsAnswer) else asked.top() for _, _, asked in loaded)
    sheets = []
    for number, sample, asked in loaded:
        drawn = _draw(asked, open_picture(sample), top)
        sheets.append(Sheet(number, _png(drawn), drawn.size, _alt(asked)))
    first = samples[0][1]
    return Question(first.sample_id, "steps" if isinstance(first, StepsSample) else "reading", tuple(sheets))


def _draw(asked: StepsAnswer | ReadAnswer, picture: Image.Image | None, top: float) -> Image.Image:
    if isinstance(asked, StepsAnswer):
        return draw_steps(asked, picture, top)
    return draw_reading(asked, picture, top=top)


def _png(sheet: Image.Image) -> bytes:
    output = io.BytesIO()
    sheet.save(output, "PNG", compress_level=9)
    return output.getvalue()


def _alt(asked: StepsAnswer | ReadAnswer) -> str:
    """What the sheet says, in words."""
    told = f"{' '.join(asked.words)} Answer: {asked.answer}."
    if isinstance(asked, StepsAnswer):
        strongest = [asked.words[row.argmax()] for row in asked.control] if asked.words else []
        truth = "" if asked.truth is None else f" Truth: {asked.truth}."
        return f"{told}{truth} Strongest word of each step: {', '.join(strongest)}."
    row = asked.row()
    shares = zip(("question", "objects", "OCR tokens", "answer so far"), row, strict=True)
    people = "" if asked.score is None else f" Accuracy: {asked.score:.2f}."
    return f"{told}{people} Attention: {', '.join(f'{name} {part.sum():.2f}' for name, part in shares)}."


def _article(runs: Sequence[Run], looks: Sequence[Look], question: Question) -> Markup:
    figures = [_figure(runs[sheet.run], looks[sheet.run], sheet) for sheet in question.sheets]
    return tag(
        "article",
        tag("h3", question.sample_id),
        tag("div", *figures, class_="sheets"),
        class_=f"answered {question.form}",
    )


def _figure(run: Run, look: Look, sheet: Sheet) -> Markup:
    alignment = None if run.info.alignment is None else tag("span", f" {run.info.alignment}", class_="note")
    image = tag(
        "img",
        src=f"data:image/png;base64,{encode(sheet.content)}",
        alt=sheet.alt,
        width=str(sheet.size[0]),
        height=str(sheet.size[1]),
        decoding="async",
    )
    caption = tag("figcaption", run_dot(look), f" {run.name}", alignment)
    return tag("figure", caption, tag("div", image, class_="scroll", tabindex="0"))
