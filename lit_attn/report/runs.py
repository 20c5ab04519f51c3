"""What is in a run folder?

Reads `checkpoints/<run>/` into one frozen `Run`. Every file in it may be missing; a folder with neither metrics,
attention nor gallery has nothing to report and is refused.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import yaml

from lit_attn.report import fields
from lit_attn.report.answers import AnswerSample, read_answer
from lit_attn.report.errors import ReportError
from lit_attn.report.gallery import Sample, gallery_files, read_gallery
from lit_attn.report.heads import HeadTable, read_heads
from lit_attn.report.metrics import Series, read_metrics
from lit_attn.report.raw import split_heads, without_raw
from lit_attn.report.text import plain

Mode = Literal["max", "min"]

_MOST_WRITING = 12
_EVIDENCE = ("metrics.csv", "attention", "gallery")
_TRACES = ("run.json", "config.yaml", *_EVIDENCE)


@dataclass(frozen=True)
class RunInfo:
    """What `run.json` says about a run; None where it says nothing."""

    name: str
    recipe: str | None = None
    alignment: str | None = None
    equivalence: str | None = None
    """Name of the class of mathematically identical models that this one belongs to."""
    parameters: int | None = None
    seed: int | None = None
    verb: str | None = None
    status: str | None = None
    started: str | None = None
    finished: str | None = None
    version: str | None = None
    monitor: str | None = None
    mode: Mode | None = None
    facts: dict[str, float | str] | None = None


@dataclass(frozen=True)
class Run:
    """One run folder, read."""

    folder: Path
    info: RunInfo
    config: str | None
    """The text of `config.yaml`."""
    settings: dict[str, object]
    """The same, flattened to dotted keys."""
    metrics: dict[str, Series]
    heads: tuple[HeadTable, ...]
    raw_heads: tuple[HeadTable, ...]
    """The raw captures beside what the network used (see `raw.py`); neither `metrics` nor `heads` holds them."""
    gallery: tuple[Sample, ...]
    """The captions that were kept whole."""
    answers: tuple[AnswerSample, ...] = ()
    """The answered questions that were kept whole."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def writing(self) -> tuple[Sample, ...]:
        """The samples whose written text the page shows as prose."""
        return tuple(sample for sample in self.gallery if sample.written is not None)[:_MOST_WRITING]

    def fact(self, name: str) -> float | str | None:
        return (self.info.facts or {}).get(name)


def read_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """All runs, in the order given. A folder named twice is read once; runs of one name add their folders."""
    if not folders:
        raise ReportError("No run folder was named. Give at least one, for example checkpoints/<run>.")
    distinct = {folder.resolve(): folder for folder in reversed(folders)}
    runs = [read_run(folder) for folder in reversed(distinct.values())]
    names = [run.name for run in runs]
    return tuple(_renamed(run) if names.count(run.name) > 1 else run for run in runs)


def _renamed(run: Run) -> Run:
    place = plain("/".join(run.folder.resolve().parts[-2:]))
    return replace(run, info=replace(run.info, name=f"{run.name} ({place})"))


def read_run(folder: Path) -> Run:
    """One run folder."""
    if not folder.is_dir():
        raise ReportError(_missing(folder))
    if not any((folder / name).exists() for name in _EVIDENCE):
        raise ReportError(
            f"{folder}: nothing to report; it has no metrics.csv, no attention and no gallery. "
            "Name a folder written by `lit-attn fit`, `validate` or `test`."
        )
    info = read_info(folder)
    metrics, config = folder / "metrics.csv", folder / "config.yaml"
    text = _read_config(config) if config.is_file() else None
    scalars = read_metrics(metrics, still_growing=info.status == "running") if metrics.is_file() else {}
    heads, raw_heads = split_heads(read_heads(folder / "attention"))
    return Run(
        folder=folder,
        info=info,
        config=text,
        settings={} if text is None else _settings(config, text),
        metrics=without_raw(scalars),
        heads=heads,
        raw_heads=raw_heads,
        gallery=read_gallery(folder / "gallery"),
        answers=tuple(
            read_answer(path, source)
            for path, source in gallery_files(folder / "gallery")
            if source["form"] != "caption"
        ),
    )


def _missing(folder: Path) -> str:
    parent = folder.parent
    beside = [path.name for path in parent.iterdir() if _looks_like_run(path)] if parent.is_dir() else []
    beside.sort(key=lambda name: (-difflib.SequenceMatcher(None, name, folder.name).ratio(), name))
    way_out = f"Run folders beside it: {', '.join(beside[:5])}." if beside else f"There are no run folders in {parent}."
    return f"{folder}: no such run folder. {way_out}"


def _looks_like_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in _TRACES)


def read_info(folder: Path) -> RunInfo:
    """The facts in `run.json`, or just a name taken from the folder."""
    path = folder / "run.json"
    fallback = plain(folder.resolve().name)
    if not path.is_file():
        return RunInfo(name=fallback)
    source = fields.read_object(path)
    texts = ("recipe", "alignment", "equivalence", "verb", "status", "started", "finished", "version", "monitor")
    return RunInfo(
        name=fields.optional_text(path, source, "name") or fallback,
        **{key: fields.optional_text(path, source, key) for key in texts},
        parameters=fields.optional_integer(path, source, "parameters"),
        seed=fields.optional_integer(path, source, "seed"),
        mode=_mode(path, source.get("mode")),
        facts=fields.facts(path, source),
    )


def _mode(path: Path, value: object) -> Mode | None:
    if value is None:
        return None
    if value == "max":
        return "max"
    if value == "min":
        return "min"
    raise fields.complain(path, "mode", value, "'max', 'min' or null")


def _read_config(path: Path) -> str:
    try:
        return plain(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: cannot be read ({error}).") from error


def _settings(path: Path, text: str) -> dict[str, object]:
    try:
        return flatten(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ReportError(f"{path}, line {line}: not valid YAML ({error.problem}).") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not valid YAML ({error}).") from error


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """`{"model": {"alignment": "dot"}}` as `{"model.alignment": "dot"}`; lists by position."""
    if isinstance(value, dict) and value:
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and value:
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {prefix: value} if prefix else {}
    flat: dict[str, object] = {}
    for key, item in items:
        flat.update(flatten(item, f"{prefix}.{key}" if prefix else key))
    return flat


def differing_settings(runs: Sequence[Run]) -> dict[str, list[object]]:
    """Settings that are not the same in all configured runs: one value per run, None where it is absent."""
    if sum(run.config is not None for run in runs) < 2:
        return {}
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    values = {key: [run.settings.get(key) for run in runs] for key in keys}
    configured = [index for index, run in enumerate(runs) if run.config is not None]
    return {key: row for key, row in values.items() if len({repr(row[index]) for index in configured}) > 1}
