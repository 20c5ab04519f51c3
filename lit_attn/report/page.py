"""What did we find? Writes the report of one or several runs: one page, two tables, and the figures as files.

The page needs nothing but itself: styles, script, drawings, pictures and data are inside, and its content policy
forbids the browser to load anything else or to run any script but ours.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lit_attn.report import cross_table, drawing, figures
from lit_attn.report.answering import Question, answer_questions, answering_section
from lit_attn.report.breakdowns import breakdown_figures, breakdown_section, run_breakdowns
from lit_attn.report.capture import Captures, capture_section, captures, draw_capture
from lit_attn.report.explorer import PAGE_BUDGET, Entry, explorer_entries, explorer_section
from lit_attn.report.files import free_name, prepare_folder, write_files
from lit_attn.report.gallery import Sample, read_maps
from lit_attn.report.head_maps import heat_figures
from lit_attn.report.heat import head_page, heat_section
from lit_attn.report.markup import Markup, data_block, join, tag
from lit_attn.report.overview import page_head
from lit_attn.report.paintings import Painted, painted_sheets, painting_section
from lit_attn.report.probing import means_csv, means_markdown, probing_section, stack_means
from lit_attn.report.raw import is_raw
from lit_attn.report.runs import Run, read_runs
from lit_attn.report.scores import scores_cross_table, scores_section
from lit_attn.report.sections import Section, config_section, curves_section
from lit_attn.report.steps import steps_section
from lit_attn.report.tables import ScoreTable, score_table, to_csv, to_markdown
from lit_attn.report.text import slug
from lit_attn.report.top_objects import objects_section
from lit_attn.report.word_maps import word_map_figures
from lit_attn.report.writing import writing_section

_MOST_MAPS = 2
_SCRIPTS = (
    "page.js",
    "pictures.js",
    "heat.js",
    "weights.js",
    "map.js",
    "scene.js",
    "choices.js",
    "pane.js",
    "explorer.js",
    "head.js",
)


def write_report(runs: Sequence[Path], out: Path | None = None, *, figures: bool = True) -> Path:
    """Write the report of these run folders and return the path of its page.

    Args:
        out: Without it, one run is reported in `<run>/report`, several in `<parent of the first>/report`.
        figures: Whether figures are written as files, too, which takes most of the time.
    """
    folders = [Path(run) for run in runs]
    found = read_runs(folders)
    default = folders[0] / "report" if len(found) == 1 else folders[0].resolve().parent / "report"
    target = default if out is None else Path(out)
    prepare_folder(target)
    write_files(target, report_files(found, as_files=figures))
    return target / "index.html"


def report_files(runs: Sequence[Run], *, as_files: bool = True) -> dict[str, bytes]:
    """Every file of the report by its path, the page last; without figures as files if these are not wanted."""
    table = score_table(runs)
    curves, compared, breakdowns = curve_figures(runs), captures(runs), run_breakdowns(runs)
    files: dict[str, bytes] = {"scores.csv": to_csv(table).encode(), "scores.md": to_markdown(table).encode()}
    compact = scores_cross_table(table)
    if compact.columns:
        files["scores.tex"] = cross_table.to_latex(compact, "Scores at the best step.").encode()
    for name, broken in breakdowns.items():
        files |= cross_table.documents(broken, f"breakdown-{name}", "Retrieval, Rsum.")
    means = stack_means(runs)
    if means:
        files |= {"heads.csv": means_csv(means).encode(), "heads.md": means_markdown(means).encode()}
    drawn = {
        **{name: figure for name, (_, figure) in curves.items()},
        **{name: draw_capture(comparison) for name, (_, comparison) in compared.items()},
        **breakdown_figures(breakdowns),
        **(drawn_files(runs, compact) if as_files else {}),
    }
    documents = {name: drawing.to_svg(figure) for name, figure in drawn.items()}
    for name, figure in (drawn if as_files else {}).items():
        files[f"figures/{name}.svg"] = documents[name].encode()
        files[f"figures/{name}.png"] = drawing.to_png(figure)
    entries = explorer_entries(runs)
    questions = answer_questions(runs, PAGE_BUDGET - sum(entry.size for entry in entries))
    sheets = painted_sheets(runs, PAGE_BUDGET - sum(entry.size for entry in entries))
    if as_files:
        files |= {f"figures/{name}.png": content for name, content in answer_figures(runs, questions).items()}
    titles = {name: title for name, (title, _) in curves.items()}
    files["index.html"] = build_page(runs, table, titles, compared, documents, entries, questions, sheets).encode()
    return files


def score_figures(compact: cross_table.CrossTable) -> dict[str, Figure]:
    """The table of scores as a heat map, if anything was scored."""
    return {"scores": cross_table.draw_table(compact, "")} if compact.columns else {}


def drawn_files(runs: Sequence[Run], compact: cross_table.CrossTable) -> dict[str, Figure]:
    """Drawings that are files beside the page."""
    return score_figures(compact) | heat_figures(runs) | map_figures(runs) | word_map_figures(runs)


def curve_figures(runs: Sequence[Run]) -> dict[str, tuple[str, Figure]]:
    """Title and drawing of the learning curves, by file name. A single point is no curve."""
    found = {}
    scores, attention = (
        [panel for panel in panels if any(len(curve.series.steps) > 1 for curve in panel.curves)]
        for panels in (figures.score_panels(runs), figures.attention_panels(runs))
    )
    if scores:
        legend = figures.run_legend(runs) if len(runs) > 1 else []
        found["curves-scores"] = ("Task scores and training", figures.draw_curves(scores, legend))
    if attention:
        legend = figures.attention_legend(runs, attention)
        found["curves-attention"] = ("Attention", figures.draw_curves(attention, legend))
    return found


def map_figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """The mean over heads of the first words-and-regions map of the first samples of each run."""
    found: dict[str, Figure] = {}
    for run in runs:
        for sample in run.gallery[: max(1, _MOST_MAPS // len(runs))]:
            figure = _map_figure(sample)
            if figure is not None:
                found[free_name(f"map-{slug(run.name)}-{slug(sample.sample_id)}", found)] = figure
    return found


def _map_figure(sample: Sample) -> Figure | None:
    crossing = sorted(
        (name for name in sample.maps if name.query != name.key_stream), key=lambda name: is_raw(name.site)
    )
    if not crossing or not sample.words or not sample.boxes:
        return None
    name = crossing[0]
    weights = np.asarray(read_maps(sample)[name.key].mean(axis=0))
    rows, columns = (sample.words, sample.labels) if name.query == "words" else (sample.labels, sample.words)
    return figures.draw_word_map(weights, rows, columns, f"{name.site}, mean of heads")


def answer_figures(runs: Sequence[Run], questions: Sequence[Question]) -> dict[str, bytes]:
    """The sheets of answered questions, by file name."""
    found: dict[str, bytes] = {}
    for question in questions:
        for sheet in question.sheets:
            stem = f"answer-{slug(question.sample_id)}-{slug(runs[sheet.run].name)}"
            found[free_name(stem, found)] = sheet.content
    return found


def build_page(
    runs: Sequence[Run],
    table: ScoreTable,
    curves: Mapping[str, str],
    compared: Captures,
    documents: Mapping[str, str],
    entries: Sequence[Entry],
    questions: Sequence[Question],
    sheets: Sequence[Painted],
) -> str:
    """The whole page as HTML; `curves` holds the titles of the learning curves, `documents` all drawings as SVG."""
    style, script = _asset("page.css"), page_script()
    found = [
        scores_section(table),
        answering_section(runs, questions),
        painting_section(runs, sheets),
        writing_section(runs, entries),
        explorer_section(runs, entries),
        curves_section(curves, documents),
        breakdown_section(documents),
        capture_section(runs, compared, documents),
        steps_section(runs),
        heat_section(runs),
        probing_section(runs),
        objects_section(runs),
        config_section(runs),
    ]
    sections = [part for part in found if part is not None]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=content_policy(script)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title} · attention report"),
            Markup(f"<style>{style}</style>"),
        ]
    )
    has_heads = any(part.name == "heads" for part in sections)
    main = tag("main", head_page() if has_heads else None, *(part.content for part in sections))
    colors = data_block("palette", list(drawing.palette()))
    body = join([page_head(runs, table), _menu(sections), main, colors, Markup(f"<script>{script}</script>")])
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _menu(sections: Sequence[Section]) -> Markup:
    links = [tag("a", part.title, href=f"#{part.name}") for part in sections]
    return tag("nav", *links, class_="menu", aria_label="Parts of the report")


def content_policy(script: str) -> str:
    """Nothing from anywhere; pictures from the page itself; no script but the one with this very text."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def page_script() -> str:
    """The parts of the script as one, private to itself."""
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _asset(name: str) -> str:
    return resources.files("lit_attn.report").joinpath("assets", name).read_text(encoding="utf-8")
