"""How is text and number from a run made safe and short enough to show?

Captions, labels and names come from data and may contain anything. Everything that reaches a page passes `escape`
or `script_json`; everything that reaches a file name passes `slug`; everything that is read passes `plain` first.
"""

import html
import json
import math
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ufffe\uffff]")
_UNSAFE_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def plain(text: str) -> str:
    """The text with control characters and lone surrogates replaced, so that every writer downstream accepts it."""
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("\ufffd", valid)


def escape(value: object) -> str:
    """The value as HTML text, safe inside elements and inside quoted attributes."""
    return html.escape(str(value), quote=True)


def escape_markdown(value: object) -> str:
    """The value as one Markdown table cell: no markup, no cell border, no line break."""
    one_line = " ".join(str(value).split())
    return re.sub(r"([\\`*_\[\]|$~])", r"\\\1", html.escape(one_line, quote=False))


def script_json(value: object) -> str:
    """The value as JSON that cannot end the script element around it, nor open a comment in it."""
    encoded = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: _UNSAFE_IN_SCRIPT[match.group()], encoded)


def slug(text: str) -> str:
    """The text as part of a file name: ASCII letters, digits, dot, dash and underscore only, at most 80 of them."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("._-")[:80] or "unnamed"


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by which `decoder.10` comes after `decoder.9`."""
    pieces = re.split(r"(\d+)", text)
    return tuple((0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces)


def format_number(value: float | int) -> str:
    """Four significant digits, no exponent from 0.001 to a million; an en dash for what is not a number."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        return f"{value:.3g}"
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return f"{value:.{min(decimals, 4)}f}"


def format_count(value: int) -> str:
    """An integer with thin spaces between groups of three digits."""
    return f"{value:,}".replace(",", "\u202f")
