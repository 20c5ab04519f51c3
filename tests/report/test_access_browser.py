"""Can the page be used with the keyboard alone, read in both schemes, and told apart without seeing all colours?"""

from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.drawing import HUES, palette
from lit_attn.report.page import write_report

selenium = pytest.importorskip("selenium", reason="install selenium to run it")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from tests.report.test_answers import write_steps  # noqa: E402

MOST_TABS = 400
LARGE = 24.0
"""Pixels from which on WCAG 2 asks less contrast of a text."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, write_run: Callable[..., Path]) -> str:
    root = tmp_path_factory.mktemp("runs")
    runs = [write_run(root / name, seed=seed, samples=3, steps=300) for seed, name in enumerate(("one", "two"))]
    return write_report(runs, root / "out", figures=False).as_uri()


@pytest.fixture
def page(browser: webdriver.Chrome, address: str) -> webdriver.Chrome:
    browser.get("about:blank")
    browser.get(address)
    return browser


def test_tab_reaches_every_control_and_shows_where_it_is(page: webdriver.Chrome) -> None:
    """Groups that arrow keys move through, such as words or radios, have one stop each."""
    seen: list[tuple[str, bool]] = []
    for _ in range(MOST_TABS):
        ActionChains(page).send_keys(Keys.TAB).perform()
        where, visible = page.execute_script("""
            const e = document.activeElement;
            if (e === document.body) return ["end", true];
            window.stops = window.stops || new Set();
            if (window.stops.has(e)) return ["end", true];
            window.stops.add(e);
            const s = getComputedStyle(e);
            const halo = (box) => getComputedStyle(box.querySelector(".halo"));
            const drawn = (box) => halo(box).stroke + " " + halo(box).strokeOpacity;
            const other = document.querySelector(".box:not(:focus)");
            const shown = e.matches(".box") ? drawn(e) !== drawn(other)
                : s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
            return [e.tagName.toLowerCase() + (e.id ? "#" + e.id : ""), shown];
        """)
        if where == "end":
            break
        seen.append((where, visible))
    assert len(seen) < MOST_TABS, "the stops come to an end"
    assert [where for where, visible in seen if not visible] == []
    missed = page.execute_script("""
        const reached = window.stops;
        const alike = (e) => e.closest("[role=listbox], [data-words], fieldset, table.heat, svg, details:not([open])") || e;
        const groups = new Set([...reached].map(alike));
        const all = [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex]")];
        return all.filter((e) => e.getClientRects().length && !e.disabled && !groups.has(alike(e)) && !groups.has(e))
            .map((e) => e.outerHTML.slice(0, 120));
    """)
    assert missed == []


def test_menus_buttons_and_folds_answer_to_the_keyboard(page: webdriver.Chrome) -> None:
    page.execute_script("document.getElementById('compare').focus()")
    ActionChains(page).send_keys(Keys.SPACE).perform()
    assert len(page.find_elements(By.CSS_SELECTOR, ".pane:not([hidden])")) == 2
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert len(page.find_elements(By.CSS_SELECTOR, ".pane:not([hidden])")) == 1
    run = page.find_element(By.CSS_SELECTOR, "[data-pane='0'] [data-role=run]")
    page.execute_script("arguments[0].focus()", run)
    before = run.get_attribute("value")
    ActionChains(page).send_keys(Keys.ARROW_DOWN).perform()
    assert run.get_attribute("value") != before
    fold = page.find_element(By.CSS_SELECTOR, "[data-role=fold] summary")
    page.execute_script("arguments[0].focus()", fold)
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.execute_script("return document.querySelector('[data-role=fold]').open")
    cell = page.find_element(By.CSS_SELECTOR, "table.heat td a[tabindex='0']")
    page.execute_script("arguments[0].focus()", cell)
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.execute_script("return location.hash.startsWith('#head=') && !document.getElementById('head').hidden")


def test_a_box_and_a_cell_show_that_they_have_the_focus(
    browser: webdriver.Chrome, address: str, tmp_path: Path
) -> None:
    write_steps(tmp_path / "mac" / "gallery", "q-0")
    for page, kind in ((address, ".box:not(.cells)"), (write_report([tmp_path / "mac"]).as_uri(), ".box.cells")):
        browser.get(page)
        browser.execute_script("document.querySelector(arguments[0]).focus()", kind)
        ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
        stroke, opacity, whole = browser.execute_script("""
            const box = document.activeElement, halo = getComputedStyle(box.querySelector(".halo"));
            return [halo.stroke, Number(halo.strokeOpacity), Number(getComputedStyle(box).opacity)];
        """)
        assert stroke not in ("none", "rgb(0, 0, 0)"), kind
        assert opacity == 1, kind
        assert whole == 1, f"{kind}: its own weight must not fade the mark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(page: webdriver.Chrome, scheme: str) -> None:
    """4.5 to 1, or 3 to 1 for large text (WCAG 2, level AA), against the nearest background that is painted."""
    feature = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": feature})
    found = page.execute_script("""
        const texts = [];
        for (const e of document.body.querySelectorAll("*")) {
            const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
            if (!own || !e.getClientRects().length || e.closest("svg, script, style")) continue;
            let behind = e;
            while (behind && /rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor)) {
                behind = behind.parentElement;
            }
            const s = getComputedStyle(e);
            const back = getComputedStyle(behind || document.body).backgroundColor;
            texts.push([s.color, back, parseFloat(s.fontSize), e.textContent.trim().slice(0, 40)]);
        }
        return texts;
    """)
    assert len(found) > 100
    poor = []
    for ink, paper, size, text in found:
        ratio = contrast(ink, paper)
        if ratio < (3.0 if size >= LARGE else 4.5):
            poor.append((round(ratio, 2), ink, paper, text))
    assert poor == []


def contrast(ink: str, paper: str) -> float:
    lighter, darker = sorted((luminance(channels(ink)), luminance(channels(paper))), reverse=True)
    return float((lighter + 0.05) / (darker + 0.05))


def channels(color: str) -> np.ndarray:
    """Of `rgb(1, 2, 3)` or `rgba(1, 2, 3, 1)`, from 0 to 1."""
    return np.array([float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]) / 255


def linear(color: np.ndarray) -> np.ndarray:
    return np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)


def luminance(color: np.ndarray) -> float:
    return float(linear(color) @ [0.2126, 0.7152, 0.0722])


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    ratio = xyz / [0.95047, 1.0, 1.08883]
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(color: str, deficiency: str) -> np.ndarray:
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return lab(np.array(DEFICIENCIES[deficiency]) @ linear(rgb))


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_can_be_told_apart_by_colour_blind_people(deficiency: str) -> None:
    """Runs differ by 10 units of CIE76 at least, where 2.3 are just noticeable; values grow lighter from low to high."""
    distances = {
        (one, other): float(np.linalg.norm(seen(one, deficiency) - seen(other, deficiency)))
        for one, other in combinations(HUES, 2)
    }
    assert min(distances.values()) > 10, min(distances, key=lambda pair: distances[pair])
    lightness = [seen(color, deficiency)[0] for color in palette(16)]
    assert all(later > earlier for earlier, later in pairwise(lightness))
