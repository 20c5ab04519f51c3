"""Sheets of answers in a real browser: wide and narrow, light and dark."""

import json
from pathlib import Path
from typing import Any

import pytest

from lit_attn.report.page import write_report
from tests.report.test_answers import HOSTILE, write_reading, write_steps


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("answers")
    runs = []
    for name in ("first", "second"):
        write_steps(root / name / "gallery", words=[HOSTILE, "it"])
        write_reading(root / name / "gallery", answer=HOSTILE)
        (root / name / "run.json").write_text(json.dumps({"alignment": HOSTILE}))
        runs.append(root / name)
    return write_report(runs, root / "out")


@pytest.fixture
def page(browser: Any, report: Path) -> Any:
    browser.get_log("browser")
    browser.get(report.as_uri())
    return browser


def places(page: Any, width: int, kind: str) -> list[list[float]]:
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    script = (
        f"return [...document.querySelectorAll('.answered.{kind} figure')].map((one) => one.getBoundingClientRect())"
    )
    return [[place["left"], place["top"], place["width"]] for place in page.execute_script(script)]


def test_sheets_are_there_and_hostile_text_is_inert(page: Any) -> None:
    widths = page.execute_script(
        "return [...document.querySelectorAll('.sheets img')].map((image) => image.naturalWidth)"
    )
    assert len(widths) == 4
    assert min(widths) > 600
    assert page.execute_script("return window.injected === undefined")
    assert page.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sheets_stand_on_white_in_both_schemes(page: Any, scheme: str) -> None:
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    script = "return getComputedStyle(document.querySelector('.sheets img')).backgroundColor"
    assert page.execute_script(script) == "rgb(255, 255, 255)"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_runs_stand_side_by_side_when_wide_and_nothing_leaves_a_narrow_page(page: Any) -> None:
    try:
        (left, top, _), (other_left, other_top, _) = places(page, 1400, "reading")
        assert top == other_top
        assert other_left > left
        (left, top, width), (other_left, other_top, _) = places(page, 1400, "steps")
        assert left == other_left
        assert other_top > top, "steps need the whole width; the second run stands below, column by column"
        assert width > 1200
        (left, top, _), (other_left, other_top, _) = places(page, 400, "reading")
        assert left == other_left
        assert other_top > top
        fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.execute_script(fits)
        shown = page.execute_script(
            "return document.querySelector('.answered.reading img').getBoundingClientRect().width"
        )
        assert shown >= 640, "letters stay readable; the sheet scrolls by itself"
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
