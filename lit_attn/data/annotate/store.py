"""Where are annotations kept, so that each text is parsed once? In a file of JSON lines beside the data.

The first line says which pipeline, in which version, made them; the others are annotations, found again by their tokens. A
file of another version, or a damaged one, is made anew, and that is said.
"""

import gzip
import json
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path

from lit_attn.data.annotate.pipeline import Pipeline, Tokens
from lit_attn.data.annotate.records import from_record, to_record
from lit_attn.data.kept_lines import beside, read_lines, write_lines
from lit_attn.errors import UserError
from lit_attn.progress import shown
from lit_attn.types import Annotation

log = logging.getLogger(__name__)

FORMAT = 2
"""Counts changes of the file and of the mapping of labels."""


def store_path(data: Path, pipeline_name: str) -> Path:
    """Beside the file or in the folder that holds the data."""
    return beside(data, f"annotations.{pipeline_name}")


def annotated(
    texts: Iterable[Tokens], pipeline: Pipeline, path: Path, processes: int | None = None
) -> dict[Tokens, Annotation]:
    """The annotation of every text: those of the file, and new ones, which are added to it."""
    known = _read(path, pipeline)
    missing = list(dict.fromkeys(text for text in texts if text not in known))
    if missing:
        log.info("%s %s annotates %d texts, once, into %s.", pipeline.name, pipeline.version, len(missing), path)
        made = shown(pipeline.annotate(missing, processes), len(missing), "texts annotated")
        known |= {annotation.tokens: annotation for annotation in made}
        write_lines(path, _maker(pipeline), map(to_record, known.values()))
    return known


def read_records(path: Path) -> list[Annotation]:
    """All annotations of a file of JSON lines, plain or compressed, with or without a first line about their maker."""
    found = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                record = json.loads(line)
                if number > 1 or "tokens" in record:
                    found.append(from_record(record, f"{path}, line {number}"))
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, EOFError, TypeError, zlib.error) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{path}, line {len(found) + 1}: {error}. Expected an annotation as JSON on every line."
        ) from error
    return found


def _maker(pipeline: Pipeline) -> dict[str, str | int]:
    return {"format": FORMAT, "pipeline": pipeline.name, "version": pipeline.version}


def _read(path: Path, pipeline: Pipeline) -> dict[Tokens, Annotation]:
    try:
        records = enumerate(read_lines(path, _maker(pipeline), "annotates"), 2)
        found = [from_record(record, f"{path}, line {number}") for number, record in records]
    except UserError as error:
        log.warning("%s Its texts are annotated anew.", error)
        return {}
    return {annotation.tokens: annotation for annotation in found}
