"""A score is shown beside what it is measured against, under its right name."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lit_attn.report import drawing, figures
from lit_attn.report.runs import Run, read_run
from lit_attn.report.yardstick import Yardstick, are_yardsticks, yardsticks_of


@pytest.fixture
def run(captioner: Path) -> Run:
    return read_run(captioner)


def with_facts(run: Run, **facts: float | str) -> Run:
    return replace(run, info=replace(run.info, facts={f"val/{name}": fact for name, fact in facts.items()}))


def test_facts_win_over_logged_numbers_and_nothing_is_compared_with_zero(run: Run) -> None:
    assert yardsticks_of(run, "val/cider") == [Yardstick("grammar's own caption", 49.60082)]
    assert yardsticks_of(with_facts(run), "val/cider") == [Yardstick("grammar's own caption", 49.60082)]
    both = with_facts(run, rival_cider=40.0, ceiling_cider=90.0)
    assert yardsticks_of(both, "val/cider") == [Yardstick("ceiling", 90.0), Yardstick("grammar's own caption", 40.0)]
    for odd in (0.0, float("nan"), "much"):
        assert yardsticks_of(with_facts(run, rival_cider=odd), "val/cider") == []
    assert yardsticks_of(run, "test/cider") == []


def test_logged_yardsticks_are_those_of_a_logged_score() -> None:
    names = ["val/cider", "val/rival_cider", "val/rival_bleu", "test/ceiling_cider", "val/ceiling_cider"]
    assert are_yardsticks(names) == {"val/rival_cider", "val/ceiling_cider"}


def test_tile_says_it_in_words_and_never_calls_it_a_ceiling(captioner: Path) -> None:
    text = (captioner / "report" / "index.html").read_text(encoding="utf-8")
    assert "105.0 % of the grammar&#x27;s own caption (49.6)" in text
    assert not re.search("ceiling", text)


def test_dotted_line_joins_the_panel_of_its_score(run: Run) -> None:
    panels = figures.score_panels([run])
    assert [panel.title for panel in panels] == ["val/cider"]
    figure = figures.draw_curves(panels)
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["grammar's own caption"].get_ydata()) == [49.60082, 49.60082]
    assert [text.get_text() for text in axes.texts] == ["grammar's own caption"]
    assert "stroke-dasharray: 1,1.5" in drawing.to_svg(figure)


def test_two_kinds_are_labelled_each_at_its_highest(run: Run) -> None:
    runs = [
        with_facts(run, rival_cider=40.0, ceiling_cider=90.0),
        with_facts(run, rival_cider=45.0, ceiling_cider=80.0),
    ]
    (axes,) = figures.draw_curves(figures.score_panels(runs)).axes
    assert {text.get_text(): text.xy[1] for text in axes.texts} == {"ceiling": 90.0, "grammar's own caption": 45.0}


def test_the_most_frequent_answer_is_named_and_not_taken_as_a_hundred_per_cent(run: Run) -> None:
    heights = {height.label: height for height in yardsticks_of(with_facts(run, majority_cider=0.25), "val/cider")}
    assert heights["most frequent answer"].share(0.5) == "the most frequent answer scores 0.25"
