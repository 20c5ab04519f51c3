"""What does an explanation leave behind? Arrays with an index, tables of faithfulness, and a sheet per sample."""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lit_attn.attribution.faithfulness import CHANCE, TRUTH_MEASURES, Value
from lit_attn.attribution.scores import Scores
from lit_attn.drawing.explanation import Boxes, Cells, Explained, Words, draw_explanations
from lit_attn.explain.case import Case, Shown
from lit_attn.files import write_text, written_whole

BETTER = {"positive_auc": "low", "negative_auc": "high"}
DIGITS = 3


@dataclass
class Outcome:
    """Grows case by case; `write` puts it into a folder."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    index: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One per sample, method, stream and measure."""
    sheets: dict[str, tuple[Shown, list[Explained]]] = field(default_factory=dict)

    def add(self, case: Case, scores: dict[str, Scores], values: Sequence[Value]) -> None:
        """One case with what was found about it."""
        subject = case.subject
        for sample, shown in enumerate(case.shown):
            number = len({entry["number"] for entry in self.index})
            asked = case.asked(sample)
            drawn: dict[str, dict[str, np.ndarray]] = {}
            for method, own in scores.items():
                for stream, found in own.streams.items():
                    if stream not in shown.views:
                        continue
                    array = _array(found[sample][: _size(shown, stream)])
                    key = f"{number:05d}.{method}.{stream}"
                    self.arrays[key] = array
                    drawn.setdefault(method, {})[stream] = array
                    self.index.append(
                        {
                            "number": number, "sample": shown.name, "place": shown.place, "text": shown.heading,
                            "explained": asked, "class": int(subject.classes[sample]), "method": method, "stream": stream,
                            "array": key, "notes": {n: float(v[sample]) for n, v in own.notes.items()},
                            "cause": _cause(case, stream, sample, len(array)), "items": _items(shown, stream),
                        }
                    )  # fmt: skip
            own_values = [(v.method, v.stream, v.measure, float(v.values[sample])) for v in values]
            self.rows += [
                {"sample": shown.name, "place": shown.place, "explained": asked, "method": method, "stream": stream,
                 "measure": measure, "value": value}
                for method, stream, measure, value in own_values
            ]  # fmt: skip
            causes = {
                stream: _array(mask[sample][: _size(shown, stream)]).astype(bool)
                for stream, mask in subject.causes.items()
                if stream in shown.views
            }
            explained = Explained(asked, shown.views, drawn, causes, _notes(own_values, scores, sample))
            self.sheets.setdefault(shown.name, (shown, []))[1].append(explained)

    def summary(self) -> list[dict[str, Any]]:
        """Mean and standard deviation over samples, by method, stream and measure; the level of chance beside them."""
        groups: dict[tuple[str, str, str], list[float]] = {}
        for row in self.rows:
            groups.setdefault((row["method"], row["stream"], row["measure"]), []).append(row["value"])
        means = {key: (_mean(values), _std(values), _count(values)) for key, values in groups.items()}
        found = []
        for (method, stream, measure), (mean, std, count) in means.items():
            if measure.endswith(CHANCE):
                continue
            chance = means.get((method, stream, measure + CHANCE), (float("nan"),) * 3)[0]
            found.append(
                {"method": method, "stream": stream, "measure": measure, "mean": mean, "std": std, "samples": count,
                 "chance": chance}
            )  # fmt: skip
        return found

    def write(self, folder: Path, about: dict[str, Any]) -> None:
        """All but the sheets."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.arrays)  # type: ignore[arg-type]
        with written_whole(folder / "maps.npz") as temporary:
            temporary.write_bytes(buffer.getvalue())
        write_text(folder / "maps.json", json.dumps({"about": about, "maps": self.index}, indent=1) + "\n")
        write_table(folder / "samples.csv", self.rows)
        write_table(folder / "faithfulness.csv", self.summary())
        write_text(folder / "faithfulness.md", markdown(self.summary(), about))

    def draw(self, folder: Path) -> list[Path]:
        """A sheet per sample."""
        files = []
        for name, (shown, rows) in self.sheets.items():
            file = folder / "pictures" / (re.sub(r"[^A-Za-z0-9._-]+", "_", name) + ".png")
            sheet = draw_explanations(shown.picture, shown.heading, rows)
            with written_whole(file) as temporary:
                sheet.save(temporary, "PNG")
            files.append(file)
        return files


def markdown(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """A table per stream: methods by measures."""
    lines = [f"# How faithful: {about.get('model', '')}", ""]
    lines += [f"{about.get('samples', '?')} samples, mean ± standard deviation over them.", ""]
    for stream in dict.fromkeys(row["stream"] for row in rows):
        own = [row for row in rows if row["stream"] == stream]
        measures = list(dict.fromkeys(row["measure"] for row in own))
        heads = [f"{m} ({BETTER[m]} is faithful)" if m in BETTER else m for m in measures]
        lines += [f"## {stream}", "", "| method | " + " | ".join(heads) + " |", "|---" * (len(measures) + 1) + "|"]
        for method in dict.fromkeys(row["method"] for row in own):
            cells = [_cell(own, method, measure) for measure in measures]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        chances = {row["measure"]: row["chance"] for row in own if row["measure"] in TRUTH_MEASURES}
        if chances:
            lines.append(
                "| *chance* | " + " | ".join(f"{chances[m]:.3f}" if m in chances else "" for m in measures) + " |"
            )
        lines.append("")
    return "\n".join(lines)


def write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A CSV with a header; empty without rows."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_text(path, text.getvalue())


def _cell(rows: Sequence[dict[str, Any]], method: str, measure: str) -> str:
    found = next((r for r in rows if r["method"] == method and r["measure"] == measure), None)
    if found is None or not found["samples"]:
        return "–"
    return f"{found['mean']:.{DIGITS}f} ± {found['std']:.{DIGITS}f}"


def _array(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def _size(shown: Shown, stream: str) -> int:
    view = shown.views[stream]
    return len(view.words) if isinstance(view, Words) else len(view.boxes)


def _items(shown: Shown, stream: str) -> dict[str, Any]:
    view = shown.views[stream]
    if isinstance(view, Words):
        return {"words": list(view.words)}
    if isinstance(view, Cells):
        return {"rows": view.rows, "columns": view.columns}
    assert isinstance(view, Boxes)
    return {"boxes": np.asarray(view.boxes).round(5).tolist(), "labels": list(view.labels)}


def _cause(case: Case, stream: str, sample: int, size: int) -> list[int] | None:
    if stream not in case.subject.causes:
        return None
    return np.flatnonzero(_array(case.subject.causes[stream][sample][:size])).tolist()


def _notes(values: Sequence[tuple[str, str, str, float]], scores: dict[str, Scores], sample: int) -> dict[str, str]:
    """What stands below a method's panel: its agreement with the cause, and what it says of itself."""
    notes: dict[str, list[str]] = {method: [] for method in scores}
    for method, _, measure, value in values:
        if measure in ("mass", "average_precision") and np.isfinite(value):
            notes[method].append(f"{'AP' if measure == 'average_precision' else measure} {value:.2f}")
    for method, own in scores.items():
        notes[method] += [f"{name} {float(value[sample]):.2f}" for name, value in own.notes.items()]
    return {method: ", ".join(found) for method, found in notes.items()}


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if np.isfinite(value)]


def _mean(values: Sequence[float]) -> float:
    kept = _finite(values)
    return float(np.mean(kept)) if kept else float("nan")


def _std(values: Sequence[float]) -> float:
    kept = _finite(values)
    return float(np.std(kept)) if kept else float("nan")


def _count(values: Sequence[float]) -> int:
    return len(_finite(values))
