"""What do attention metrics look like to a logger? One picture: a panel per metric, each a grid of numbers in colour."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from lit_attn.drawing.derived import is_derived
from lit_attn.drawing.site_names import told_number, told_site


class Panel(NamedTuple):
    """A grid with names; cells that were not measured are NaN."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Float[np.ndarray, "r c"]
    across: str
    """What the columns are."""


def head_panels(values: Sequence[Any]) -> list[Panel]:
    """Sites by heads, both counted from 1, a panel per metric that is worth one."""
    values = [value for value in values if not is_derived(value.metric)]
    return _panels(values, lambda v: v.metric, lambda v: told_site(v.site), lambda v: told_number(v.head), "head")


def step_panels(values: Sequence[Any]) -> list[Panel]:
    """Steps, from 1, by kinds of question, the mean over heads, a panel per site and metric."""
    return _panels(values, lambda v: (v.site, v.metric), lambda v: f"step {v.step + 1}", lambda v: v.kind, "question")


def _panels(
    values: Sequence[Any],
    panel_of: Callable[[Any], Hashable],
    row_of: Callable[[Any], str],
    column_of: Callable[[Any], str],
    across: str,
) -> list[Panel]:
    """Cells that fall together are averaged. All panels have all rows and columns, so that they can be compared."""
    rows, columns = tuple(dict.fromkeys(map(row_of, values))), tuple(dict.fromkeys(map(column_of, values)))
    found = []
    for title in dict.fromkeys(map(panel_of, values)):
        own = [value for value in values if panel_of(value) == title]
        sums, counts = np.zeros((len(rows), len(columns))), np.zeros((len(rows), len(columns)))
        for value in own:
            place = rows.index(row_of(value)), columns.index(column_of(value))
            if np.isfinite(value.value):
                sums[place] += value.value
                counts[place] += 1
        grid = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
        name = " ".join(title) if isinstance(title, tuple) else str(title)
        found.append(Panel(name.replace("_", " "), rows, columns, grid, across))
    return found


def draw_panels(panels: Sequence[Panel]) -> UInt8[np.ndarray, "y x 3"]:
    """The panels side by side, several rows of them where there are many."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(len(panels), 6)
    down = -(-len(panels) // across)
    height = 1.2 + 0.4 * len(panels[0].rows)
    figure = Figure(figsize=(2.2 * across + 1, height * down), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    places = figure.subplots(down, across, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        axes.imshow(panel.values, cmap="cividis", aspect="auto")
        for (row, column), value in np.ndenumerate(panel.values):
            if np.isfinite(value):
                axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=7, color="white",
                          bbox={"boxstyle": "round", "fc": "black", "alpha": 0.5, "lw": 0})  # fmt: skip
        axes.set_title(panel.title, fontsize=8)
        axes.set_xlabel(panel.across, fontsize=7)
        axes.set_xticks(range(len(panel.columns)), panel.columns, fontsize=7, rotation=30 if down > 1 else 0)
        axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
