"""Which method finds the true cause? Methods by tasks and alignments on Scenes, with seeds, as tables and a heat map.

Every run is asked about the same samples. Its means over them are averaged over the runs that differ in nothing but their
seed; the spread is the standard deviation over these runs (n - 1), and stands only where there are several.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lit_attn.attribution.by_inputs import INPUT_METHODS
from lit_attn.attribution.explain import METHODS, explain_subject
from lit_attn.attribution.faithfulness import CHANCE, TRUTH_MEASURES, against_cause
from lit_attn.drawing.truth_map import draw_truth
from lit_attn.errors import UserError
from lit_attn.explain.model import OurModel, load_model
from lit_attn.explain.ours import Chosen, cases
from lit_attn.explain.outcome import write_table
from lit_attn.files import write_text, written_whole

WITHOUT_LRP = ("mac",)
KINDS = {
    "Captioning": "captioner",
    "Answering": "mac",
    "Reading": "m4c",
    "Agreement": "agreement",
    "Sentiment": "sentiment",
}
Follow = Callable[[Sequence[str]], Iterator[str]]


def explain_truth(
    models: Sequence[str],
    methods: Sequence[str] | None,
    samples: int,
    out: Path,
    recipe: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    follow: Follow = iter,
) -> list[dict[str, Any]]:
    """Writes `truth-runs.csv`, `truth.csv`, `truth.md` and `truth.png`; returns the rows of the second.

    Args:
        methods: All that a model allows without.
        samples: Pictures or questions of each run.
        follow: Shows progress over the models.
    """
    rows = [row for name in follow(models) for row in truth_of_run(name, methods, samples, recipe, settings)]
    if not rows:
        raise UserError("None of the samples has a known cause. The truth table needs models of Scenes.")
    summary = summarised(rows)
    write_table(out / "truth-runs.csv", rows)
    write_table(out / "truth.csv", summary)
    write_text(out / "truth.md", markdown(summary, samples))
    for_map = [(r["task"], r["method"], _column(r), r["measure"], r["mean"], r["chance"]) for r in summary]
    with written_whole(out / "truth.png") as temporary:
        draw_truth(for_map).save(temporary, "PNG")
    return summary


def truth_of_run(
    name: str,
    methods: Sequence[str] | None,
    samples: int,
    recipe: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """One row per method and measure: the mean over samples, and what chance would score on them."""
    model = load_model(name, recipe, settings)
    task = KINDS.get(type(model.task).__name__, type(model.task).__name__)
    wanted = list(methods) if methods is not None else [*METHODS, *INPUT_METHODS]
    if task in WITHOUT_LRP:
        wanted = [method for method in wanted if method not in METHODS or not METHODS[method].relevance]
    found: dict[tuple[str, str], list[float]] = {}
    for case in cases(model, Chosen(samples=samples, pictures=False)):
        for value in against_cause(case.subject, explain_subject(case.subject, wanted)):
            found.setdefault((value.method, value.measure), []).extend(value.values.tolist())
    rows = []
    for method in wanted:
        for measure in TRUTH_MEASURES:
            values = np.array(found.get((method, measure), []), float)
            chance = np.array(found.get((method, measure + CHANCE), []), float)
            if not np.isfinite(values).any():
                continue
            rows.append(
                {
                    "run": model.name, "task": task, "alignment": model.alignment or "", "seed": model.seed,
                    "taught": _taught(model), "setting": _setting(model, task), "method": method, "measure": measure,
                    "value": float(np.nanmean(values)), "chance": float(np.nanmean(chance)),
                    "samples": int(np.isfinite(values).sum()),
                }
            )  # fmt: skip
    return rows


def _taught(model: OurModel) -> bool:
    """Whether training itself showed the model where to look."""
    return bool(model.facts.get("guide"))


def _setting(model: OurModel, task: str) -> str:
    """Runs of one setting differ in nothing but their seed: same task, alignment, length of training and lessons."""
    length = f", {model.epochs} epochs" if model.epochs else ""
    taught = ", taught where to look" if _taught(model) else ""
    return f"{task} {model.alignment or ''}{length}{taught}"


def summarised(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds: mean and standard deviation of the runs of one setting."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["setting"], row["method"], row["measure"]), []).append(row)
    found = []
    for (setting, method, measure), own in groups.items():
        values = np.array([row["value"] for row in own])
        found.append(
            {
                "setting": setting, "task": own[0]["task"], "alignment": own[0]["alignment"], "taught": own[0]["taught"],
                "method": method, "measure": measure, "mean": float(values.mean()),
                "std": float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
                "chance": float(np.mean([row["chance"] for row in own])), "runs": len(own),
                "seeds": " ".join(str(row["seed"]) for row in own), "samples": own[0]["samples"],
            }
        )  # fmt: skip
    return found


def markdown(rows: Sequence[Mapping[str, Any]], samples: int) -> str:
    """A table per measure: methods by settings."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    order = [*METHODS, *INPUT_METHODS]
    methods = sorted({row["method"] for row in rows}, key=order.index)
    counts = {setting: next(row for row in rows if row["setting"] == setting) for setting in settings}
    lines = [
        "# Which method finds the true cause?",
        "",
        f"The first {samples} pictures or questions of the validation set for each run; mean ± standard deviation over seeds.",
        "",
        "| setting | seeds | outputs with a known cause |",
        "|---|---|---|",
        *(f"| {setting} | {own['seeds']} | {own['samples']} |" for setting, own in counts.items()),
        "",
    ]
    by_cell = {(row["setting"], row["method"], row["measure"]): row for row in rows}
    for measure in TRUTH_MEASURES:
        for task in dict.fromkeys(row["task"] for row in rows):
            own = [setting for setting in settings if counts[setting]["task"] == task]
            lines += [f"## {measure.replace('_', ' ')}, {task}", ""]
            lines += ["| method | " + " | ".join(_column(counts[setting]) for setting in own) + " |"]
            lines += ["|---" * (len(own) + 1) + "|"]
            for method in methods:
                found = [by_cell.get((setting, method, measure)) for setting in own]
                if any(found):
                    lines.append(f"| {method} | " + " | ".join(map(_cell, found)) + " |")
            chances = [next(r for r in rows if r["setting"] == s and r["measure"] == measure) for s in own]
            lines += ["| *chance* | " + " | ".join(f"{c['chance']:.3f}" for c in chances) + " |", ""]
    return "\n".join(lines)


def _column(row: Mapping[str, Any]) -> str:
    """A setting among those of its task."""
    return str(row["setting"]).removeprefix(f"{row['task']} ")


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    return f"{row['mean']:.3f}" + (f" ± {row['std']:.3f}" if row["runs"] > 1 else "")
