"""How is HTML built so that nothing from data is ever taken for markup?

Text is escaped unless it already is `Markup`, and only this file's functions and our own assets make `Markup`.
"""

from collections.abc import Iterable

from lit_attn.report.text import escape, script_json

_VOID = {"img", "input", "meta", "br"}


class Markup(str):
    """HTML that is safe to put into the page as it is."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. None and False drop an attribute, True gives it bare; `class_` means class, `data_x` data-x."""
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Markup(opened) if name in _VOID else Markup(f"{opened}{join(children)}</{name}>")


def join(children: Iterable[object]) -> Markup:
    """Children one after the other; None is nothing."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children if child is not None)
    )


def data_block(name: str, value: object) -> Markup:
    """A value for the page's script to read, under an id; the browser never runs it."""
    return Markup(f'<script type="application/json" id="{escape(name)}">{script_json(value)}</script>')


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'
