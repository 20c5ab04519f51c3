"""What is the answer at one glance? The head of the page: names, states and the key scores as tiles."""

from collections.abc import Sequence

from lit_attn.report.chance import against_chance, highest
from lit_attn.report.looks import Look, run_looks
from lit_attn.report.markup import Markup, join, tag
from lit_attn.report.runs import Run
from lit_attn.report.tables import ScoreRow, ScoreTable
from lit_attn.report.text import format_count, format_number
from lit_attn.report.yardstick import yardsticks_of

_MOST_CARDS = 8
_STATUS_SIGNS = {"done": "✓", "running": "…", "failed": "✕", "terminated": "■"}


def status_chip(status: str | None) -> Markup | None:
    """The state of a run as a sign and a word, never as a colour alone."""
    if status is None:
        return None
    known = status if status in _STATUS_SIGNS else "other"
    return tag("span", f"{_STATUS_SIGNS.get(status, '·')} {status}", class_=f"chip status-{known}")


def run_dot(look: Look) -> Markup:
    """The colour that a run has in all figures."""
    return tag("span", class_="dot", style=f"background:{look.color}", aria_hidden="true")


def page_head(runs: Sequence[Run], table: ScoreTable) -> Markup:
    """Title and tiles of one run, or a card per run."""
    if len(runs) == 1:
        return tag("header", tag("p", "Attention report", class_="kicker"), _title(runs[0]), _tiles(table.rows[0]))
    recipes = sorted({run.info.recipe or "no recipe" for run in runs})
    title = tag("h1", f"{len(runs)} runs: {', '.join(recipes)}")
    cards = [_card(look, row) for look, row in zip(run_looks(runs), table.rows[:_MOST_CARDS], strict=False)]
    rest = len(runs) - len(cards)
    note = tag("p", f"{rest} more in the table of scores.", class_="note") if rest > 0 else None
    return tag("header", tag("p", "Attention report", class_="kicker"), title, tag("div", *cards, class_="cards"), note)


def _title(run: Run) -> Markup:
    return join([tag("h1", run.name, " ", status_chip(run.info.status)), _details(run)])


def _details(run: Run) -> Markup:
    info = run.info
    pairs: list[tuple[str, str | None]] = [
        ("recipe", info.recipe),
        ("alignment", info.alignment),
        ("same model as", info.equivalence if info.equivalence != info.alignment else None),
        ("seed", None if info.seed is None else str(info.seed)),
        ("parameters", None if info.parameters is None else format_count(info.parameters)),
        ("verb", info.verb),
        ("started", _time(info.started)),
        ("finished", _time(info.finished)),
        ("version", info.version),
    ]
    pairs += [
        (name, fact if isinstance(fact, str) else format_number(fact)) for name, fact in (info.facts or {}).items()
    ]
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value]
    return tag("dl", *items, class_="details") if items else Markup("")


def _time(moment: str | None) -> str | None:
    return None if moment is None else moment.replace("T", " ")[:16]


def _tiles(row: ScoreRow) -> Markup | None:
    tiles = [tile for tile in (_score_tile(row), *_chance_tiles(row.run)) if tile is not None]
    return tag("div", *tiles, class_="tiles") if tiles else None


def _card(look: Look, row: ScoreRow) -> Markup:
    info = row.run.info
    facts = [info.alignment, None if info.seed is None else f"seed {info.seed}"]
    line = " · ".join(fact for fact in facts if fact)
    return tag(
        "article",
        tag("h2", run_dot(look), " ", row.run.name),
        tag("p", line, " ", status_chip(info.status), class_="note"),
        _tiles(row),
        class_="card",
    )


def _score_tile(row: ScoreRow) -> Markup | None:
    monitor = row.run.info.monitor
    if monitor is None or monitor not in row.last:
        return None
    is_best = monitor in row.best
    value = row.best[monitor] if is_best else row.last[monitor]
    where = f"best, at step {format_count(row.best_step)}" if is_best and row.best_step is not None else "last value"
    shares = [tag("p", known.share(value), class_="tile-note") for known in yardsticks_of(row.run, monitor)]
    return tag(
        "div",
        tag("p", monitor, class_="tile-name"),
        tag("p", format_number(value), class_="tile-value"),
        *shares,
        tag("p", where, class_="tile-note"),
        class_="tile main",
    )


def _chance_tiles(run: Run) -> list[Markup]:
    tiles = []
    for pair, sites in highest(against_chance(run)):
        source = pair.site if sites == 1 else f"{pair.site}, highest of {sites} sites"
        name = pair.metric.replace("_", " ")
        tiles.append(
            tag(
                "div",
                tag("p", name if pair.stage == "val" else f"{pair.stage}: {name}", class_="tile-name"),
                tag(
                    "p",
                    format_number(pair.value),
                    tag("small", f" vs chance {format_number(pair.chance)}"),
                    class_="tile-value",
                ),
                tag("p", source, class_="tile-note"),
                class_="tile",
            )
        )
    return tiles
