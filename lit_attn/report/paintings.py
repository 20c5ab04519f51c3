"""What does it paint? The pictures of a run's last validation at a glance, and how the first ones came about.

Reads `paintings/val.png` and `paintings/val/` of a run folder as they are. When they exceed the budget, the later ones are
left out, and the page says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, tag
from lit_attn.report.overview import run_dot
from lit_attn.report.payload import encode
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section

FOLDER = "paintings"
SMALL = "-image.png"
"""What the plain pictures end with; the sheets hold them, too."""


@dataclass(frozen=True)
class Painted:
    """One sheet of a run."""

    run: int
    name: str
    content: bytes
    size: tuple[int, int]


def painted_sheets(runs: Sequence[Run], budget: int) -> list[Painted]:
    """As many sheets as the budget of bytes allows: those of many pictures first, then single ones, run by run."""
    overviews = [(number, run.folder / FOLDER / "val.png") for number, run in enumerate(runs)]
    single = [(number, path) for number, run in enumerate(runs) for path in _single(run.folder / FOLDER / "val")]
    found: list[Painted] = []
    used = 0
    for number, path in [*overviews, *single]:
        sheet = _read(number, path)
        if sheet is None:
            continue
        used += len(encode(sheet.content))
        if used > budget:
            break
        found.append(sheet)
    return found


def _single(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.png") if not path.name.endswith(SMALL)) if folder.is_dir() else []


def _read(run: int, path: Path) -> Painted | None:
    """None for a file that is missing or no picture."""
    try:
        with Image.open(path) as picture:
            picture.verify()
            return Painted(run, path.stem, path.read_bytes(), picture.size)
    except (OSError, SyntaxError):
        return None


def painting_section(runs: Sequence[Run], sheets: Sequence[Painted]) -> Section | None:
    """The sheets, each under the name of its run."""
    if not sheets:
        return None
    looks = run_looks(runs)
    figures = []
    for sheet in sheets:
        caption = tag("figcaption", run_dot(looks[sheet.run]), f" {runs[sheet.run].name}: {sheet.name}")
        figures.append(tag("figure", caption, tag("div", _image(sheet), class_="scroll", tabindex="0")))
    return section(
        "paintings",
        "What it paints",
        *figures,
        note="Made from captions of the validation set. A tick: the judge sees the colour that the caption names.",
    )


def _image(sheet: Painted) -> Markup:
    return tag(
        "img",
        src=f"data:image/png;base64,{encode(sheet.content)}",
        alt=f"Pictures painted from captions: {sheet.name}",
        width=str(sheet.size[0]),
        height=str(sheet.size[1]),
        decoding="async",
    )
