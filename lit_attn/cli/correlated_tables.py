"""How are correlations shown? A CSV, tables in Markdown with published values beside ours, and a figure."""

import csv
import io
from pathlib import Path

from lit_attn.attribution.correlations import METHODS, POSITIONS, Correlated
from lit_attn.files import write_text

LINZEN = {
    ("blank_out", "raw"): ".69±.27 .10±.43 -.11±.49 -.09±.52 .20±.45 .29±.39",
    ("blank_out", "rollout"): ".32±.26 .38±.27 .51±.26 .62±.26 .70±.25 .71±.24",
    ("blank_out", "flow"): ".32±.26 .44±.29 .70±.25 .70±.22 .71±.22 .70±.22",
    ("gradient", "raw"): ".53±.33 .16±.38 -.06±.42 .00±.47 .24±.40 .46±.35",
    ("gradient", "rollout"): ".22±.31 .27±.32 .39±.32 .47±.32 .53±.32 .54±.31",
    ("gradient", "flow"): ".22±.31 .31±.34 .54±.32 .61±.28 .60±.28 .61±.28",
}
"""Tables 1 and 2 of Abnar and Zuidema (2020): 2000 sentences of Linzen, all positions, by layer."""
SST2 = {
    ("gradient", "raw"): ".12±.21 – .09±.21 – .08±.20 .09±.21",
    ("gradient", "rollout"): ".11±.19 – .12±.21 – .13±.21 .13±.20",
    ("gradient", "flow"): ".11±.19 – .11±.21 – .12±.22 .14±.21",
}
"""Table 3: another network, DistilBERT, on 100 sentences of SST-2; layers 2 and 4 were not published."""
PUBLISHED = {"linzen": (LINZEN, "published"), "sst2": (SST2, "published for DistilBERT")}
SHOWN = {"all": "all tokens", "without_first": "without the first token"}


def write(found: Correlated, folder: Path, title: str, *, published: str | None) -> str:
    """Writes `correlations.csv`, `.md` and `.png` into the folder; returns the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    names = ("method", "layer", "against", "positions", "mean", "std", "undefined", "samples", "saturation")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in found.rows:
        full = found.saturation[row.layer - 1] if row.method == "flow" else ""
        writer.writerow([getattr(row, name) for name in names[:7]] + [found.samples, full])
    write_text(folder / "correlations.csv", text.getvalue())
    tables = markdown(found, title, published=published)
    write_text(folder / "correlations.md", tables)
    draw(found, folder / "correlations.png", title)
    return tables


def markdown(found: Correlated, title: str, *, published: str | None) -> str:
    """One table per comparison."""
    layers = len(found.saturation)
    head = "| " + " | ".join(["", *(f"L{i}" for i in range(1, layers + 1))]) + " |\n" + "|---" * (layers + 1) + "|\n"
    values = {(r.against, r.method, r.positions, r.layer): f"{r.mean:.2f}±{r.std:.2f}" for r in found.rows}
    parts = []
    for against in dict.fromkeys(row.against for row in found.rows):
        lines = []
        for method in METHODS:
            for positions in POSITIONS:
                cells = [values[against, method, positions, layer] for layer in range(1, layers + 1)]
                lines.append(f"| {method}, {SHOWN[positions]} | {' | '.join(cells)} |\n")
            values_of, called = PUBLISHED[published] if published else ({}, "")
            paper = values_of.get((against, method), "").split()
            if len(paper) == layers:
                lines.append(f"| {method}, {called} | {' | '.join(paper)} |\n")
        full = " | ".join(f"{share:.2f}" for share in found.saturation)
        lines.append(f"| saturated flows | {full} |\n")
        parts.append(f"{title}, {found.samples} sentences, against {against}:\n\n{head}{''.join(lines)}")
    return "\n".join(parts)


def draw(found: Correlated, path: Path, title: str) -> None:
    """Mean by layer, one panel per comparison; without the first token dashed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    comparisons = list(dict.fromkeys(row.against for row in found.rows))
    figure, axes = pyplot.subplots(1, len(comparisons), figsize=(5 * len(comparisons), 3.6), sharey=True, squeeze=False)
    for axis, against in zip(axes[0], comparisons, strict=True):
        for i, method in enumerate(METHODS):
            for positions, style in zip(POSITIONS, ("-", "--"), strict=True):
                rows = [r for r in found.rows if (r.against, r.method, r.positions) == (against, method, positions)]
                axis.plot(
                    [r.layer for r in rows],
                    [r.mean for r in rows],
                    style,
                    color=f"C{i}",
                    label=f"{method}, {SHOWN[positions]}",
                )
        axis.set_title(f"against {against}")
        axis.set_xlabel("layer")
        axis.axhline(0, color="0.8", linewidth=0.8)
    axes[0][0].set_ylabel("mean rank correlation")
    axes[0][-1].legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
