"""What does a study leave to read? `study.csv`, `table.md`, LaTeX, differences, correlations, figures, and pages.

Everything is made from run folders alone, so it can be made again at any time, also of a study that is not finished.
"""

import csv
import io
from pathlib import Path

from lit_attn.report import drawing
from lit_attn.report.cross_table import CrossTable, to_csv, to_latex
from lit_attn.report.files import write_files
from lit_attn.report.page import write_report
from lit_attn.report.study_data import Study, load_study
from lit_attn.report.study_figures import sample_figures, study_figures, top_objects
from lit_attn.report.study_tables import (
    attention_tables,
    correlations_csv,
    differences_csv,
    kind_tables,
    retrieval_tables,
    runs_csv,
    table_markdown,
    task_table,
)
from lit_attn.report.text import slug


def write_study_report(folder: Path, *, page: bool = True) -> list[Path]:
    """Writes everything into the study's folder and returns the paths that a person opens first."""
    study = load_study(folder)
    write_files(folder, study_files(study))
    first = [folder / "study.csv", folder / "table.md"]
    return [*first, *write_pages(study)] if page else first


def study_files(study: Study) -> dict[str, bytes]:
    """All files by their path below the study's folder."""
    files = {"study.csv": runs_csv(study)}
    if study.recipes:
        tables: dict[str, CrossTable] = {"table": task_table(study)[0]}
        tables |= {f"kinds-{slug(recipe)}": table for recipe, table in kind_tables(study).items()}
        tables |= {f"attention-{slug(recipe)}": table for recipe, table in attention_tables(study).items()}
        for recipe, own in retrieval_tables(study).items():
            tables |= {f"{name}-{slug(recipe)}": table for name, table in own.items()}
        for name, table in tables.items():
            files[f"tables/{name}.csv"] = to_csv(table)
            files[f"tables/{name}.tex"] = to_latex(table, f"Study {study.info.name}: {name}.")
        files["differences.csv"] = differences_csv(study)
        files["correlations.csv"] = correlations_csv(study)
        files["top-objects.csv"] = top_csv(study)
    encoded = {name: text.encode() for name, text in files.items()}
    for name, figure in ({**study_figures(study), **sample_figures(study)} if study.recipes else {}).items():
        encoded[f"figures/{name}.svg"] = drawing.to_svg(figure).encode()
        encoded[f"figures/{name}.png"] = drawing.to_png(figure, dpi=110)
    encoded["table.md"] = table_markdown(study).encode()
    return encoded


def top_csv(study: Study) -> str:
    """The five objects with most attention per word, of the kept captions of the first run of each alignment."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(["recipe", "alignment", "seed", "sample", "position", "word", "rank", "object", "weight"])
    for recipe in study.recipes:
        seen: set[str] = set()
        for row in study.of(recipe):
            if row.run is None or row.cell.alignment in seen:
                continue
            seen.add(row.cell.alignment)
            for sample in row.run.gallery:
                for position, (word, objects) in enumerate(top_objects(sample)):
                    for rank, (label, weight) in enumerate(objects, 1):
                        cell = row.cell
                        facts = [recipe, cell.alignment, cell.seed, sample.sample_id, position, word]
                        writer.writerow([*facts, rank, label, weight])
    return output.getvalue()


def write_pages(study: Study) -> list[Path]:
    """A page per recipe: its alignments side by side, each by the run with the first seed."""
    pages = []
    for recipe in study.recipes:
        chosen: dict[str, Path] = {}
        for row in study.of(recipe):
            if row.run is not None:
                chosen.setdefault(row.cell.alignment, row.run.folder)
        pages.append(write_report(list(chosen.values()), study.folder / "report" / slug(recipe)))
    return pages
