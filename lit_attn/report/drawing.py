"""Which colours do figures use, and how does a figure become a file or a part of the page?

Runs and sites take the colours of Okabe and Ito (2008), which people with colour-blindness can tell apart, without
its black and yellow, which vanish on a dark or a white page. Values take cividis (Nuñez et al. 2018). Ink is one
fixed colour, so that the page can exchange it for the reader's text colour, light or dark.
"""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
Dash = Literal["solid"] | tuple[float, tuple[float, ...]]

DASHES: tuple[Dash, ...] = ("solid", (0.0, (5.0, 2.0)), (0.0, (7.0, 2.0, 1.5, 2.0)), (0.0, (2.0, 1.5)))
DOTTED: Dash = (0.0, (1.0, 1.5))
INK = "#24292f"
PAPER = "#fefefe"

_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|\burl\(#|\bhref="#)')


@cache
def palette(size: int = 64) -> tuple[str, ...]:
    """Cividis, from low to high, as hexadecimal colours."""
    colors = mpl.colormaps["cividis"]
    return tuple(mpl.colors.to_hex(colors(index / (size - 1))) for index in range(size))


def value_color(position: float) -> str:
    """The colour at a place between 0 and 1."""
    colors = palette()
    return colors[round(position * (len(colors) - 1))]


def ink_on(color: str) -> str:
    """Black or white, whichever has more contrast on this colour (relative luminance of WCAG 2)."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"


def site_colors(count: int) -> list[str]:
    """One colour per site of a single run: distinct hues for a few, an ordered scale for a deep stack."""
    if count <= len(HUES):
        return list(HUES[:count])
    scale = mpl.colormaps["viridis"]
    return [mpl.colors.to_hex(scale(0.1 + 0.75 * index / (count - 1))) for index in range(count)]


def quiet_axes(axes: Axes) -> None:
    """Ink for the text, a faint grid, a line below and no other frame."""
    axes.tick_params(labelsize=8, colors=INK, length=0)
    axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(INK)
        spine.set_alpha(0.35)
    axes.patch.set_visible(False)


def legend_above(figure: Figure, names: Sequence[str], lines: Sequence[Line2D]) -> None:
    """Names of lines above all panels. A legend drops names that start with an underscore; a hair space keeps them."""
    short = [name if len(name) <= 40 else name[:39] + "…" for name in names]
    shown = [f"\u200a{name}" if name.startswith("_") else name for name in short]
    figure.legend(list(lines), shown, loc="outside upper left", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK)


def to_svg(figure: Figure) -> str:
    """The figure as an SVG document whose text stays text. The same figure always gives the same bytes."""
    output = io.StringIO()
    with _reproducible(figure):
        figure.savefig(output, format="svg", facecolor=PAPER, metadata={"Date": None, "Creator": None})
    return output.getvalue()


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as a PNG file."""
    output = io.BytesIO()
    with _reproducible(figure):
        figure.savefig(output, format="png", dpi=dpi, facecolor=PAPER, metadata={"Software": None})
    return output.getvalue()


@contextmanager
def _reproducible(figure: Figure) -> Iterator[None]:
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lit_attn"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        yield
    figure.set_layout_engine("none")  # the first drawing has placed everything; the next need not solve it again


def inline_svg(document: str, prefix: str, label: str) -> str:
    """An SVG document as a part of the page: it scales, takes the text colour, and its ids carry the prefix."""

    def adapt(match: re.Match[str]) -> str:
        tag = _REFERENCE.sub(rf"\g<1>{prefix}-", match.group())
        return tag.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")

    body = _TAG.sub(adapt, document[document.index("<svg") :])
    opening, rest = body.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', opening)
    assert view is not None
    return f'<svg {view.group()} role="img" aria-label="{label}">{_without_metadata(rest)}'


def _without_metadata(body: str) -> str:
    return re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
