"""Is this JSON value what the file's format promises?

Small checked accessors. Every complaint names the file, the key, the value found and what was expected.
"""

import json
import math
from pathlib import Path

from lit_attn.report.errors import ReportError
from lit_attn.report.text import plain

Json = dict[str, object]


def read_object(path: Path) -> Json:
    """The JSON object in a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ReportError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from error
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error
    if not isinstance(value, dict):
        raise ReportError(f"{path}: holds a {type(value).__name__}, expected a JSON object.")
    return value


def complain(path: Path, key: str, value: object, expected: str) -> ReportError:
    """The error for a key with a wrong value; the caller raises it."""
    shown = repr(value)
    return ReportError(
        f"{path}, key {key!r}: {shown if len(shown) <= 60 else shown[:57] + '...'}, expected {expected}."
    )


def text(path: Path, source: Json, key: str) -> str:
    found = optional_text(path, source, key)
    if found is None:
        raise complain(path, key, None, "text")
    return found


def optional_text(path: Path, source: Json, key: str) -> str | None:
    value = source.get(key)
    if value is not None and not isinstance(value, str):
        raise complain(path, key, value, "text or null")
    return None if value is None else plain(value)


def optional_integer(path: Path, source: Json, key: str) -> int | None:
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise complain(path, key, value, "a whole number or null")
    return value


def texts(path: Path, source: Json, key: str) -> tuple[str, ...]:
    value = source.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise complain(path, key, value, "a list of texts")
    return tuple(plain(item) for item in value)


def objects(path: Path, source: Json, key: str) -> list[Json]:
    value = source.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise complain(path, key, value, "a list of objects")
    return value


def positions(path: Path, key: str, value: object, size: int) -> tuple[int, ...]:
    """A list of indices into something of the given size."""
    whole = isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    if not isinstance(value, list) or not whole or not all(0 <= item < size for item in value):
        raise complain(path, key, value, f"a list of whole numbers from 0 to {size - 1}")
    return tuple(value)


def facts(path: Path, source: Json) -> dict[str, float | str]:
    """The `facts` of a run or a sample: numbers and texts by name."""
    value = source.get("facts") or {}
    if not isinstance(value, dict):
        raise complain(path, "facts", value, "an object of numbers and texts")
    for name, fact in value.items():
        if isinstance(fact, bool) or not isinstance(fact, int | float | str):
            raise complain(path, f"facts.{name}", fact, "a number or a text")
    return {plain(name): plain(fact) if isinstance(fact, str) else float(fact) for name, fact in value.items()}


def box(path: Path, key: str, value: object) -> tuple[float, float, float, float]:
    """Four finite numbers x1, y1, x2, y2 with x1 <= x2 and y1 <= y2."""
    numbers = isinstance(value, list) and len(value) == 4 and all(_is_finite(item) for item in value)
    if not isinstance(value, list) or not numbers or value[0] > value[2] or value[1] > value[3]:
        raise complain(path, key, value, "[x1, y1, x2, y2] with x1 <= x2 and y1 <= y2")
    return (float(value[0]), float(value[1]), float(value[2]), float(value[3]))


def boxes(path: Path, source: Json, key: str) -> tuple[tuple[float, float, float, float], ...]:
    """A list of boxes."""
    value = source.get(key)
    if not isinstance(value, list):
        raise complain(path, key, value, "a list of boxes")
    return tuple(box(path, f"{key}[{index}]", item) for index, item in enumerate(value))


def optional_share(path: Path, source: Json, key: str) -> float | None:
    """A number from 0 to 1."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise complain(path, key, value, "a number from 0 to 1, or null")
    return float(value)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
