"""What are the numbers? The tables of the page: scores per run, scores over seeds, and attention against chance."""

from collections.abc import Sequence

from lit_attn.report.chance import AgainstChance, against_chance
from lit_attn.report.cross_table import Column, CrossTable
from lit_attn.report.looks import run_looks
from lit_attn.report.markup import Markup, join, tag
from lit_attn.report.overview import run_dot, status_chip
from lit_attn.report.runs import Run
from lit_attn.report.sections import Section, section
from lit_attn.report.tables import ScoreRow, ScoreTable, Spread, format_spread, same_models
from lit_attn.report.text import format_count, format_number

_SIGN_SAME = "≡"
_BEST = "Best is the step at which the monitored score peaked: all scores of that step, not the peak of each."


def scores_section(table: ScoreTable) -> Section | None:
    """All tables of numbers, or None if nothing was scored."""
    runs = [row.run for row in table.rows]
    scores = _one_run(table) if len(runs) == 1 else _many_runs(table)
    found = [part for part in (scores, _over_seeds(table), _chance_table(runs)) if part is not None]
    if not found:
        return None
    note = _BEST if any(row.best for row in table.rows) else None
    return section("scores", "Scores", tag("div", *found, class_="tables"), note=note)


def scores_cross_table(table: ScoreTable) -> CrossTable:
    """Runs by scores at the best step, else at the last; over seeds where a group has several. Monitored ones are coloured."""
    groups = [group for group in table.spreads if len(group.seeds) > 1]
    if groups:
        rows = {f"{group.recipe} {group.alignment or ''}".strip(): group.best or group.last for group in groups}
        seeds = max(len(group.seeds) for group in groups)
    else:
        found = {row.run.name: row.best or row.last for row in table.rows}
        rows = {name: {score: Spread(v, None, 1) for score, v in own.items()} for name, own in found.items()}
        seeds = 1
    modes = {row.run.info.monitor: row.run.info.mode != "min" for row in table.rows}
    columns = (
        Column(name, {row: own[name] for row, own in rows.items() if name in own}, modes.get(name), None, seeds)
        for name in table.names
    )
    return CrossTable("alignment" if groups else "run", tuple(rows), tuple(columns))


def _kinds(table: ScoreTable) -> tuple[str, ...]:
    return ("best", "last") if any(row.best for row in table.rows) else ("last",)


def _values(row: ScoreRow, kind: str) -> dict[str, float]:
    return row.best if kind == "best" else row.last


def _one_run(table: ScoreTable) -> Markup | None:
    if not table.names:
        return None
    row, kinds = table.rows[0], _kinds(table)
    steps = {"best": row.best_step, "last": row.last_step}
    columns = [f"{kind}, step {format_count(step)}" for kind in kinds if (step := steps[kind]) is not None]
    head = tag(
        "tr", tag("th", "score", scope="col"), *(tag("th", text, scope="col", class_="number") for text in columns)
    )
    body = []
    for name in table.names:
        style = "number main" if name == row.run.info.monitor else "number"
        cells = [tag("td", _number(_values(row, kind).get(name)), class_=style) for kind in kinds]
        body.append(tag("tr", tag("th", name, scope="row"), *cells))
    return tag("div", tag("h3", "Task"), _scrolling(tag("thead", head), body))


def _many_runs(table: ScoreTable) -> Markup | None:
    if not table.names:
        return None
    kinds = _kinds(table)
    same = same_models(table.rows)
    monitors = {row.run.info.monitor for row in table.rows}
    body = []
    for look, row in zip(run_looks([row.run for row in table.rows]), table.rows, strict=True):
        info = row.run.info
        is_same = (info.recipe, info.equivalence) in same
        mark = tag("span", f" {_SIGN_SAME} {info.equivalence}", class_="same") if is_same else None
        cells = []
        for name in table.names:
            for kind in kinds:
                style = "number main" if name in monitors and kind == "best" else "number"
                cells.append(tag("td", _number(_values(row, kind).get(name)), class_=style))
        facts = [
            tag("td", _or_dash(info.alignment), mark),
            tag("td", _or_dash(info.seed), class_="number"),
            tag("td", "–" if info.parameters is None else format_count(info.parameters), class_="number"),
            tag("td", status_chip(info.status) or "–"),
            tag("td", "–" if row.best_step is None else format_count(row.best_step), class_="number"),
        ]
        body.append(tag("tr", tag("th", run_dot(look), " ", info.name, scope="row"), *facts, *cells))
    head = _two_rows(["run", "alignment", "seed", "parameters", "status", "best step"], table.names, kinds)
    remarks = [
        f"{_SIGN_SAME} {name}: {', '.join(members)} are mathematically the same model; their differences are noise."
        for (_, name), members in same.items()
    ]
    return tag("div", _scrolling(head, body), *(tag("p", remark, class_="note") for remark in remarks))


def _over_seeds(table: ScoreTable) -> Markup | None:
    if not any(len(group.seeds) > 1 for group in table.spreads):
        return None
    kinds = _kinds(table)
    body = []
    for group in table.spreads:
        count = len(group.seeds)
        found = [(group.best if kind == "best" else group.last).get(name) for name in table.names for kind in kinds]
        cells = [tag("td", "–" if value is None else format_spread(value, count), class_="number") for value in found]
        seeds = f"{count} ({', '.join(map(str, group.seeds))})"
        facts = [tag("td", group.recipe), tag("td", seeds)]
        body.append(tag("tr", tag("th", _or_dash(group.alignment), scope="row"), *facts, *cells))
    left_out = [name for group in table.spreads for name in group.left_out]
    remark = f" Not counted, because unfinished or run again: {', '.join(left_out)}." if left_out else ""
    note = tag("p", f"Mean ± sample standard deviation.{remark}", class_="note")
    table_head = _two_rows(["alignment", "recipe", "seeds"], table.names, kinds)
    return tag("div", tag("h3", "Over seeds"), note, _scrolling(table_head, body))


def _chance_table(runs: Sequence[Run]) -> Markup | None:
    found: list[dict[tuple[str, str, str], AgainstChance]] = [
        {(pair.stage, pair.metric, pair.site): pair for pair in against_chance(run)} for run in runs
    ]
    keys = list(dict.fromkeys(key for pairs in found for key in pairs))
    if not keys:
        return None
    body = []
    for stage, metric, site in keys:
        cells = join(_chance_cells(pairs.get((stage, metric, site))) for pairs in found)
        name = metric.replace("_", " ")
        body.append(
            tag("tr", tag("th", site, scope="row"), tag("td", name if stage == "val" else f"{stage}: {name}"), cells)
        )
    if len(runs) == 1:
        columns = [tag("th", text, scope="col", class_="number") for text in ("value", "chance")]
        head = tag("thead", tag("tr", tag("th", "site", scope="col"), tag("th", "metric", scope="col"), *columns))
    else:
        head = _two_rows(["site", "metric"], [run.name for run in runs], ("value", "chance"))
    note = tag(
        "p", "Bold lies above chance. Taken at the best step if measured there, else at the last.", class_="note"
    )
    return tag("div", tag("h3", "Attention against chance"), _scrolling(head, body), note)


def _chance_cells(pair: AgainstChance | None) -> Markup:
    value, chance = ("–", "–") if pair is None else (format_number(pair.value), format_number(pair.chance))
    style = "number main" if pair is not None and pair.gain > 0 else "number"
    return join([tag("td", value, class_=style), tag("td", chance, class_="number")])


def _two_rows(fixed: Sequence[str], names: Sequence[str], kinds: Sequence[str]) -> Markup:
    top = [tag("th", name, rowspan="2", scope="col") for name in fixed]
    top += [tag("th", name, colspan=str(len(kinds)), scope="colgroup", class_="number") for name in names]
    second = [tag("th", kind, scope="col", class_="number") for _ in names for kind in kinds]
    return tag("thead", tag("tr", *top), tag("tr", *second))


def _scrolling(head: Markup, body: Sequence[Markup]) -> Markup:
    table = tag("table", head, tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="group", aria_label="Table; scrolls sideways")


def _number(value: float | None) -> str:
    return "–" if value is None else format_number(value)


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)
