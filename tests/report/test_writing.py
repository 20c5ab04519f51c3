"""What a model wrote stands as prose beside its picture and the gold text, and only there."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from lit_attn.report.explorer import explorer_entries
from lit_attn.report.runs import read_run
from lit_attn.report.writing import writing_section


@pytest.fixture(scope="module")
def page(captioner: Path) -> str:
    return (captioner / "report" / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def articles(page: str) -> list[str]:
    return re.findall(r'<article class="writing">.*?</article>', page)


def texts(markup: str) -> list[str]:
    return [unescape(piece) for piece in re.findall(r">([^<]+)<", markup)]


def blocks(page: str) -> dict[int, dict[str, object]]:
    found = re.findall(r'<script type="application/json" id="sample-(\d+)">(.*?)</script>', page)
    return {int(number): json.loads(text) for number, text in found}


def test_twelve_texts_are_shown_as_prose(page: str, articles: list[str]) -> None:
    assert len(articles) == 12
    assert texts(articles[5]) == [
        "The model",
        "A red sofa, and a plant. It is big. The lamp hangs",
        "Gold",
        "A room with a sofa. A lamp, too.",
    ]
    named = re.findall(r'data-picture="(picture-\w+)"', "".join(articles))
    assert len(set(named)) == len(named) == 11
    assert all(f'id="{name}">"data:image/png;base64,' in page for name in named)
    assert '<span class="no-picture">' in articles[3]


def test_each_sentence_carries_its_verdict(articles: list[str]) -> None:
    judged = re.findall(
        r'<li><span class="sign (\w+)"[^>]*aria-label="(\w+)"[^>]*>(.)</span><span>(.*?)</span>', articles[0]
    )
    assert judged == [
        ("true", "true", "✓", "A red sofa, and a plant."),
        ("false", "false", "✕", "It is big."),
        ("unclear", "unclear", "?", "The lamp hangs"),
    ]
    assert "1 of 3 sentences are true." in articles[0]
    assert "0 of 3 sentences are true." in articles[7]


def test_verdicts_that_do_not_fit_are_named_and_mark_nothing(articles: list[str]) -> None:
    for place, verdicts in ((4, "true false <b>maybe</b>"), (6, "true true")):
        assert "sign" not in articles[place]
        assert f"The verdicts do not fit the 3 sentences: {verdicts}" in texts(articles[place])


def test_silence_is_said(articles: list[str]) -> None:
    assert texts(articles[2])[:2] == ["The model", "nothing"]


def test_facts_shown_as_prose_are_not_repeated_in_the_explorer(page: str) -> None:
    facts = {number: dict(block["facts"]) for number, block in blocks(page).items()}
    assert len(facts) == 14
    assert facts[0] == {"room": "attic"}
    assert facts[1] == {}
    assert facts[5] == {"room": "hall"}
    assert facts[13]["written"].startswith("a red sofa ,")


def test_explorer_lists_raw_captures_last_and_figures_show_the_used_map(page: str, captioner: Path) -> None:
    sites = [entry["site"] for entry in blocks(page)[0]["maps"]]
    assert sites == ["decoder.2.self", "decoder.2.cross", "decoder.2.cross, raw capture"]
    drawing = (captioner / "report" / "figures" / "map-captioner-scene-0.svg").read_text(encoding="utf-8")
    assert ">decoder.2.cross, mean of heads<" in drawing


def test_raw_captures_are_in_no_tile_table_curve_or_heat_map(page: str) -> None:
    assert re.search(r"0\.3000<small> vs chance 0\.1000</small>", page)
    assert "raw.decoder" not in page


def test_hostile_text_is_only_text(page: str, articles: list[str]) -> None:
    assert "<img src=x" not in page
    assert page.count("</script><script>window") == 0
    prose = '<img src=x onerror="window.injected=1"> </script><script>window.injected=1</script>.'
    assert texts(articles[1]).count(prose) == 2


def test_run_that_writes_nothing_has_no_section(small_run: Path) -> None:
    runs = [read_run(small_run)]
    assert writing_section(runs, explorer_entries(runs)) is None


def test_only_pictures_in_the_page_have_a_text(captioner: Path) -> None:
    run = read_run(captioner)
    section = writing_section([run, run], explorer_entries([run, run], budget=1))
    assert section is not None
    assert section.content.count("<article") == 1
    assert section.content.count("<h3>") == 1
