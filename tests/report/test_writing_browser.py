"""What a model wrote, and raw beside used capture, in a real browser, wide and narrow."""

from pathlib import Path
from typing import Any

import pytest

PLACES = """
    const parts = [...document.querySelector(".writing").children].map((part) => part.getBoundingClientRect());
    return parts.map((place) => [place.left, place.top]);
"""


@pytest.fixture
def page(browser: Any, captioner: Path) -> Any:
    browser.get_log("browser")
    browser.get((captioner / "report" / "index.html").as_uri())
    return browser


def resize(page: Any, width: int) -> None:
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_pictures_are_there_and_hostile_text_is_inert(page: Any) -> None:
    page.execute_script("document.querySelectorAll('.writing img').forEach((image) => image.scrollIntoView())")
    page.execute_async_script("setTimeout(arguments[0], 300)")
    widths = "return [...document.querySelectorAll('.writing img')].map((image) => image.naturalWidth)"
    assert page.execute_script(widths) == [480] * 11
    read = "return document.querySelectorAll('.writing')[1].querySelector('.by-model li span:last-child').textContent"
    assert page.execute_script(read).startswith('<img src=x onerror="window.injected=1">')
    assert page.execute_script("return window.injected === undefined")
    assert page.get_log("browser") == []


def test_explorer_opens_between_words_and_regions(page: Any) -> None:
    chosen = "return document.querySelector('[data-role=part]').selectedOptions[0].textContent"
    assert page.execute_script(chosen) == "decoder · cross (words → regions)"


def test_side_by_side_when_wide_below_each_other_when_narrow(page: Any) -> None:
    try:
        resize(page, 1400)
        (left, top), *others = page.execute_script(PLACES)
        assert all(place[1] == top and place[0] > left for place in others)
        resize(page, 400)
        (left, top), *others = page.execute_script(PLACES)
        assert all(place[0] == left and place[1] > top for place in others)
        fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.execute_script(fits)
        assert page.execute_script("return document.querySelector('#capture svg') !== null")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
