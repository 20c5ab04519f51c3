"""How is work on a data set kept beside it, so that it is done once? As compressed JSON lines under a line about their maker."""

import gzip
import json
import logging
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lit_attn.files import written_whole

log = logging.getLogger(__name__)


def beside(data: Path, name: str) -> Path:
    """Beside the file or in the folder that holds the data."""
    return data / f"{name}.jsonl.gz" if data.is_dir() else data.with_name(f"{data.name}.{name}.jsonl.gz")


def read_lines(path: Path, maker: Mapping[str, str | int], work: str) -> list[Any]:
    """What the same maker left there. Nothing where there is nothing, or where it is damaged or by another, which is said.

    Args:
        maker: The first line. Its entry `format` counts changes of the file; the others name the maker.
        work: What is done again, such as "annotates".
    """
    if not path.exists():
        return []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            first = json.loads(file.readline())
            if first == maker:
                return [json.loads(line) for line in file]
    except (OSError, ValueError, EOFError, zlib.error) as error:
        log.warning("%s is damaged (%s); now %s %s anew.", path, error, _name(maker), work)
        return []
    log.warning("%s was made by %s; now %s %s anew.", path, _name(first), _name(maker), work)
    return []


def write_lines(path: Path, maker: Mapping[str, str | int], records: Iterable[Any]) -> None:
    """The whole file, or the old one. A place that cannot be written is only said."""
    try:
        with written_whole(path) as temporary, gzip.open(temporary, "wt", encoding="utf-8", compresslevel=6) as file:
            for record in (maker, *records):
                file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    except OSError as error:
        log.warning("Cannot write %s (%s): the next run does the work again.", path, error.strerror)


def _name(maker: Any) -> str:
    if not isinstance(maker, Mapping):
        return "something else"
    return " ".join(str(value) for key, value in maker.items() if key != "format")
